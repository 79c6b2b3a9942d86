// Package decide makes the decision about a request, without a connection and without a
// store. A [Policy] and a [Request] make a [Case], which says what to ask the store. The
// store's answer makes a [Verdict], which determines the answer to the client.
package decide
