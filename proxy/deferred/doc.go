// Package deferred is the contract between the proxy and the queue of requests that are delivered
// later: a file, PostgreSQL or Redis. An [Entry] is one such request and its result. A [Queue]
// keeps entries in lines, one for each key of a rule. A proxy claims those that are due, which
// gives it a [Lease] on each, delivers them, and reports the outcome of each as a [Settlement].
//
// An accepted entry is never lost: at any time it is waiting or delivering, or it has reached
// exactly one of the final states. The suite in deferred/deferredtest tests this for every queue,
// also across crashes and restarts.
//
// A rule's [Defer] says which refused requests are stored, and [Defer.Judge] the outcome of an
// attempt to deliver one. A request is stored as it came, with two exceptions: its X-Request-Id is
// the one that the proxy gave it, and its Connection field is written again and names only fields
// that the request has. Whether its claims about the client are trusted is stored too.
//
// No client has more than its share. Queues compare a digest of [Entry.Client]. A client has at
// most a tenth of the entries and bytes. Its final entries count in these bytes and take at most
// half of them ([Limits.FinalBytesMax]). When another entry becomes final and exceeds that, the client's
// oldest final entries are deleted.
//
// There are three queues because no one store exists in every installation: one proxy has a disk,
// several proxies have the Redis or PostgreSQL of their limits. docs/design/006-three-queues.md
// has the alternatives that were rejected. Where each proxy has a file, an [ID] tells which proxy
// has the entry ([ProxyURLs]).
package deferred
