// Package gate is an adaptive concurrency limiter. A [Gate] limits how many requests are in flight to one
// target, and adjusts the limit from the response times and errors of the target. It needs no
// configuration, no information about the target, and no contact with the gates of other proxies.
//
// Requests that usually take about equally long are a class (package route, [LatencyClasses]), and response
// times are taken relative to what is usual for their class. A request in flight holds one place. A window
// is the time between two adjustments: at least 20 responses and 100 ms. The baseline is the distribution
// of response times while few requests are in flight. A request that gets no place in time is shed: the
// proxy answers it, and the target does not get it. A refusal is a 429, 502, 503 or 504 of the target, or a
// timeout.
//
// # Model
//
// A queue in the target adds about the same wait w to every response time. A target that has become
// slower multiplies every response time by the same factor f:
//
//	quantile now = w + f × quantile of the baseline
//
// Two quantiles give w and f. With m the mean response time, Little's law says how many requests are
// being served: in flight × (1 − w ÷ m). The others wait. The limit that follows is
//
//	served + √served
//
// So a target that is slow but has no queue is not limited. Nor is one that answers within two
// milliseconds, or half of the time that clients expect if that is less.
//
// # Adjustments
//
//	situation                                  limit
//	new gate                                   the one that it was given, if any, until the first probe
//	reached, no queue                          × 1.6 per window after the first probe, later × 1.33
//	reached, queue                             served + √served, at most ¾ lower per window
//	not reached                                1.2 × the most in flight in the last minute, so that a
//	                                           burst passes
//	not reached, a queue for 3 s, or 1 s if    falls: the gate of another proxy holds requests back
//	  waiting is most of the response time
//	more than a few percent refusals           below the number in flight at which they began; then one
//	                                           lower with each, and 1/16 higher when all places were used
//	                                           three times while it was reached
//	only refusals                              unchanged when good responses resume
//	as many failures with fewer in flight      restored: a fault, which no limit prevents
//	throughput drops while it is reached       at once to the number that was served before; restored if
//	                                           the first responses after that have not waited
//	no response for 10 × the usual time        rises if requests wait, and again after twice as long
//	                                           each time
//
// A failure while more requests were in flight than at the successes is no fault. If a few percent of
// refusals remain, the gate raises the limit for one window, at ever longer intervals, to where refusals
// began. If there are still only a few, it ignores them for a while.
//
// # Probes
//
// A probe is a short time with clearly fewer requests in flight, which renews the baseline. Probes begin
// at full seconds of the wall clock, so that the gates of several proxies probe at the same time. There
// are none while refusals set the limit, since such a target limits its queue itself. A probe ends early
// if those in flight do not become fewer.
//
// # Where the model fails
//
//   - Response times hardly vary: the quantiles do not tell w from f. The gate lowers the limit (a cut)
//     and applies Little's law to that: responses per second before the cut × response time after it are
//     the requests being served.
//   - Some responses are much slower, others as fast as ever, as after a cache was flushed: there is no
//     queue in which all requests wait, so the limit does not fall. It rises by at most half its square
//     root, since the slow requests may be waiting.
//   - The target shares its processors among all requests: it looks like one that has become slower. A
//     probe with half of the requests in flight and the same throughput shows the difference, and the
//     limit stays near that number.
//   - The load changes clearly within a window: the window is discarded, but for no longer than half a
//     second in total.
//   - Responses to requests sent before a standstill, such as a pause for garbage collection, show only how
//     long that was. They do not count.
//   - Requests that wait in the target for something other than a worker, such as long polls, would take
//     all places. Those that many others overtook lend their places: see [Gate.Long] and [Gate.Waits].
//
// # Needless refusals
//
// With steady traffic at 90 % of a target's capacity, less than one request in 10,000 is shed that would
// have been answered in time, if service times are about exponential or workers are many. Up to four in
// 1,000 are if they vary more, workers are few, or requests come in bursts. If response times suddenly vary
// much less at the same mean, one to two percent are for some seconds.
//
// Nothing here reads a clock. Every target has one gate, which all loops share (package gates). While gates
// are full, which shows the capacity of their targets, the proxy reports to the advisor more often
// ([ReportIntervalWhenFull]). docs/design/005-gate.md has the reasons, how requests are classified, and
// what is not measured.
package gate
