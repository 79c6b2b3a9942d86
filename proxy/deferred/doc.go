// Package deferred is the contract between the proxy and the queue of requests that are delivered
// later: a file, PostgreSQL or Redis. An [Entry] is one such request and its result. A [Queue]
// keeps entries in lines, one for each key of a rule, and returns those that are due.
//
// An accepted entry is never lost: at any time it is waiting or delivering, or it has reached
// exactly one of the final states. The suite in deferred/deferredtest tests this for every queue,
// also across crashes and restarts.
package deferred
