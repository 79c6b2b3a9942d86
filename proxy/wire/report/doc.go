// Package report is what the event loops tell about their traffic. A [Loop] counts the outcomes of
// requests, which a [Source] sums up in metrics. A [Counter] counts the outcomes and the use of the
// targets for the advisor, in sums that only increase. A [Memory] keeps the latest decisions whose
// ids clients were sent, so that they can be explained: refusals by a limit, and requests shed by a
// gate.
package report
