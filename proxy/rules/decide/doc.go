// Package decide makes the decision about a request, without a connection and without a
// store. A [Policy] and a [Request] make an [Evaluation], which says what to ask the store. The
// store's answer makes a [Verdict], which determines the answer to the client.
//
// The global limit and the rules in force at one time are one Policy. A request gets it once and
// keeps it, so no request sees half of a change. The counters of a request are one ask, so
// nothing is charged when any of them refuses; rules in shadow are asked about separately. The
// store is not asked about an exempt request, but the gate applies to it.
package decide
