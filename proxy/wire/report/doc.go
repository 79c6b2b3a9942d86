// Package report counts the traffic of the event loops. A [LoopCounters] counts the outcomes of requests,
// which a [MetricsSource] sums for metrics. A [TrafficCounter] counts the outcomes and the use of the
// targets for the advisor, in sums that only increase. A [RecentDecisions] keeps the latest decisions whose
// ids were sent to clients, so that they can be explained: refusals by a limit, and requests shed, for
// which the target had no place in time. [HTTP2Counts] count closed connections of HTTP/2, and glitches:
// what clients may do only once in a while, such as reset a stream.
package report
