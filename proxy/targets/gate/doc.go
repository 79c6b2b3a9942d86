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
// The gate learns the baseline from the first requests, which are sent while few
// others are in flight, and corrects it by probes: short spans with clearly fewer requests
// in flight than the target can work on. The first probe follows immediately; until then
// the limit is one that the gate was given, if any. From then on it grows faster than later,
// until it no longer binds or there may be a queue. Later probes begin at full seconds of the
// wall clock, so that gates that share a target probe at the same time.
//
// A window whose latest answers are clearly slower or faster than those before is discarded
// without a decision and begins anew. While a queue grows, answer times spread, and one window
// over all of that time would look like a slower target without a queue. Only the most that was
// in flight and the length of the window are kept: after half a second of such windows the next
// one is judged even if its result is uncertain.
//
// Where answer times hardly vary, the quantiles do not tell the two apart. Then the gate
// checks the effect of a cut: the answers per second before it, times what an answer takes now,
// are how many requests are worked on, and the limit rises to that number plus its square root.
//
// # Refusals
//
// A target that refuses what it cannot take (429, 502, 503, 504) shows no queue. When more
// than a few percent of the answers are refusals, the limit falls below where they began.
// From then on it falls by one place with each refusal, and rises when all places have been
// used three times while the gate bound. So it stays close to the number of workers, and the
// target refuses few requests. There are no probes then, because such a target limits its queue
// itself.
//
// When as many requests fail with fewer in flight, it is a fault, which no limit cures: the gate
// restores the limit and ignores refusals for a while. When all answers are refusals, they do
// not count at all, and the first good answers find the limit as it was. It is no fault if more
// requests were in flight when the refused ones were sent than with the others. A few per cent of
// refusals that remain may have nothing to do with the limit either. After some seconds, and then
// ever more rarely, the gate raises the limit for one window to where refusals began. If there are
// still only a few, it ignores them for a while.
//
// # Bursts
//
// While the limit does not bind, it is a fifth more than the most that was in flight
// in the last minute, so that a burst passes. If a queue lasts nevertheless, another proxy's
// gate is the only one that holds requests back, and the limit falls.
//
// A target that becomes much slower would get a queue as long as that limit before its answers
// show anything. So the gate also watches how many answers come. If clearly fewer than usual do
// while requests in flight reach the limit, it is no burst, with which more answers come: the
// limit falls at once to about the number that was worked on before. If the first answers to
// what is sent from then on have not waited, it is restored.
//
// # Standstills
//
// After a time without any answer, such as a pause for garbage collection, answers to what was sent
// before say how long that was, and nothing of what the target can do now. They do not count.
//
// # No queue at all
//
// Where all requests share the processors, each takes the longer the more are in flight. The
// distribution of answer times does not distinguish that from a target that has become slower. The
// limit grows with them, until a probe brings as many answers per second with half as many in flight.
// Then the limit stays near that number. Every probe halves it, so this takes some seconds.
//
// # Needless refusals
//
// Of steady traffic at 90 % of a target's capacity, the gate needlessly sheds less than one
// request in 10,000 where answer times are about exponential or workers are many: a request
// that would have been answered in time without a gate. It sheds up to four in 1,000 where the
// standard deviation of answer times is two or three times their mean, workers are few or
// requests come in bursts: there queues last as long as those of an overload. Where answer times
// suddenly vary much less at the same mean, it sheds one to two percent for some seconds.
//
// # Requests that take long by themselves
//
// Requests may wait at the target for something other than a worker, such as long polls. If they
// took all places, a target that could serve others at once would be closed. Those that were
// overtaken by many others can be told; their places are free for others, see Long. If they hold
// all places nothing is answered, and the limit rises, see Waits. A probe, which needs few requests in
// flight, ends early if those that are in flight do not become fewer. If such a request fails, for
// example because it is never answered, that is no refusal: requests that were sent long after it had
// good answers before.
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
// A limit that is reached falls to the requests being served plus their square root, by at most
// three quarters in one window. While it is not reached, a queue that lasts makes it fall: for one
// second if more than half of the answer time is waiting, else for three. It rises by about a third
// in a window without a queue, after the first probe to 1.6 times itself; under refusals by a
// sixteenth when all places have been used three times. Streams take at most a quarter of the
// places.
//
// If nothing is answered for ten times the usual time while requests wait, the limit rises, and
// again after twice as long each time, since a target that stands still behaves likewise. A timeout
// counts as a refusal, so the limit falls.
package gate
