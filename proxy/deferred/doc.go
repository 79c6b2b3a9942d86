// Package deferred is the contract between the proxy and whatever keeps the requests that
// are delivered later: a file, PostgreSQL or Redis. An [Entry] is one such request and what
// became of it. A [Queue] keeps entries in lines, one for each key of a rule, and hands out
// those that are due.
//
// An accepted entry is never lost: at any time it is waiting or delivering, or it has reached
// exactly one of the final states. The suite in deferred/deferredtest holds every queue to
// that, through crashes and restarts.
package deferred
