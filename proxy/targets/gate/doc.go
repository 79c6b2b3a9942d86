// Package gate limits how many requests are in flight to a target, and adjusts the limit
// every few answers, so that a target that becomes slower is not overrun. It needs no
// information about the target.
//
// # Latency
//
// A request that finds all workers of its target busy waits, and so do all others: waiting
// adds about the same time w to every answer time. A target that has become slower
// multiplies every answer time by the same factor f. The quantiles of the answer times tell
// the two apart, compared with the quantiles when few requests are in flight, the baseline:
//
//	quantile now = w + f × quantile of the baseline
//
// Two quantiles give w and f. By Little's law the share of the answer time that is waiting,
// u = w ÷ mean, says how many of the requests in flight are being worked on:
// in flight × (1 − u). The limit is that number plus its square root. This needs no
// configured delay, works with any number of gates that do not know of each other, and does
// not limit a target that is slow but not overloaded. Nor does it limit one that answers
// within two milliseconds, or half of the time that clients expect if that is less, however
// much of that is waiting.
//
// The gate learns the baseline from the first requests, which are sent while few others are in
// flight, and corrects it by probes: short spans with clearly fewer requests in flight than the
// target can work on. The first probe follows immediately. Until then the limit is one that the
// gate was given, if any. After the first probe the limit grows to 1.6 times itself in a window,
// until it is no longer reached or there may be a queue; later it grows by about a third. Later
// probes begin at full seconds of the wall clock, so that gates that share a target probe at the
// same time.
//
// A window whose latest answers are clearly slower or faster than those before is discarded
// without a decision and begins anew. While a queue grows, answer times spread, and one window
// over all of that time would look like a slower target without a queue. Only the most that was
// in flight and the length of the window are kept: after half a second of such windows the next
// one is judged even if its result is uncertain.
//
// Where answer times hardly vary, the quantiles do not tell the two apart. Then the gate
// checks the effect of a cut: the answers per second before it, times what an answer takes now,
// are how many requests are worked on, and the limit rises to that number plus its square root. If
// some answers take much longer, as after a cache was flushed, but others are as quick as ever, there
// is no queue in which all requests wait. Then the limit does not fall, however many answers take
// longer. It rises slowly, by at most half its square root and only after many answers, because the
// slow requests may be waiting.
//
// # Refusals
//
// A target that refuses what it cannot take (429, 502, 503, 504) shows no queue. When more than a
// few percent of the answers are refusals, the limit falls below the number of requests in flight
// at which they began. From then on it falls by one place with each refusal, and rises when all
// places have been used three times while the limit was reached. So it stays close to the number
// of workers, and the target refuses few requests. There are no probes then, because such a
// target limits its queue itself.
//
// If as many requests fail while fewer are in flight, the cause is a fault, which no limit
// prevents. The gate then restores the limit and ignores refusals for a while. If all answers are
// refusals, they do not count at all, and the limit is unchanged when good answers resume. There
// is no fault if more requests were in flight when the refused ones were sent than when the
// others were sent.
//
// A few percent of refusals that remain may have nothing to do with the limit either. After some
// seconds, and then at ever longer intervals, the gate raises the limit for one window to where
// refusals began. If there are still only a few, it ignores them for a while.
//
// # Bursts
//
// While the limit is not reached, it is a fifth more than the most that was in flight in the last
// minute, so that a burst passes. If a queue lasts nevertheless, only the gate of another proxy
// holds requests back, and the limit falls.
//
// A target that becomes much slower would get a queue as long as that limit before its answer
// times show it. So the gate also counts the answers. If clearly fewer than usual arrive while
// the requests in flight reach the limit, this is not a burst, because a burst brings more
// answers. Then the limit falls immediately to about the number that was worked on before. If the
// first answers to requests sent after that have not waited, the limit is restored.
//
// # Standstills
//
// After a time without any answer, such as a pause for garbage collection, the answers to
// requests that were sent before show how long that time was, and not what the target can do now.
// They do not count.
//
// # No queue at all
//
// If all requests share the processors, each takes longer the more are in flight. The
// distribution of answer times does not distinguish that from a target that has become slower.
// The limit grows with them, until a probe brings as many answers per second with half as many in
// flight. Then the limit stays near that number. Every probe halves it, so this takes some
// seconds. The same is done while some answers take much longer than others.
//
// # Needless refusals
//
// A request is shed needlessly if it would have been answered in time without a gate. With steady
// traffic at 90 % of a target's capacity, the gate sheds less than one request in 10,000
// needlessly if answer times are about exponential or workers are many. It sheds up to four in
// 1,000 if the standard deviation of answer times is two or three times their mean, if workers
// are few, or if requests come in bursts: then queues last as long as those of an overload. If
// answer times suddenly vary much less at the same mean, it sheds one to two percent for some
// seconds.
//
// # Requests that take long by themselves
//
// Requests may wait at the target for something other than a worker, such as long polls. If they
// took all places, no others would be sent to a target that could serve them at once. Requests
// that were overtaken by many others can be recognized, and their places are free for others: see
// [Gate.Long]. If they hold all places, nothing is answered, and the limit rises: see
// [Gate.Waits]. A probe, which needs few requests in flight, ends early if those that are in
// flight do not become fewer. If such a request fails, for example because it is never answered,
// that is not a refusal: requests that were sent long after it had good answers before.
//
// Nothing here reads a clock. Every target has one gate, which all loops share.
//
// # In numbers
//
// A window has at least 20 answers and 100 ms. Requests have classes, by the rule that routes them
// and by whether they read, write or only query (HEAD, OPTIONS, 304): 16, of which rare ones share
// the last. Tunnels are not measured, nor are uploads that are answered before all of them was
// sent, because their clients set the pace. A streamed answer counts when it begins. An answer
// across a time in which nothing was answered, longer than ten seconds and twenty answer times,
// does not count.
//
// A limit that is reached falls to the number of requests being served plus its square root, by
// at most three quarters in one window. While it is not reached, it falls if a queue lasts: for
// one second if more than half of the answer time is waiting, otherwise for three. It rises by
// about a third in a window without a queue, and after the first probe to 1.6 times itself. Under
// refusals it rises by a sixteenth when all places have been used three times. Streams take at
// most a quarter of the places.
//
// If nothing is answered for ten times the usual time while requests wait, the limit rises. It
// rises again after twice as long each time, because a target that stands still shows the same. A
// timeout counts as a refusal, so the limit falls.
package gate
