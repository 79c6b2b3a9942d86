// Package decide is the decision about a request without a connection and without a
// store: a [Policy] and a [Request] make a [Case], which says what the store is to
// be asked, and the store's answer makes a [Verdict], which says what the client is
// told.
package decide
