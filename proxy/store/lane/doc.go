// Package lane is what all stores that proxies share have in common: it makes a
// [store.Store] of a [store.Backend]. It knows no database.
//
// # Asking
//
// An event loop never waits for the store. It owns a [Lane]; what it asks while a batch
// of its lane is under way gathers: asks for the same counters are one group with the
// number of requests that wait, and all groups of a batch are decided by one call of the
// backend. So the work of the store grows with batches and keys, not with requests. A few
// helper goroutines per lane send the batches, and each wakes the loop once when it is back.
// A backend that has a [Courier] sends and receives them on the loop itself. There package
// limit repeats what the backend has decided, request by request: the backend returns the
// states from which it started, and each request gets the decision that it would have got
// alone. Where the backend locks keys (Config.Locking), asks for a key that is being decided
// wait here and not there.
//
// A refusal is remembered on the loop until the time to retry, so that a client which
// keeps knocking costs the store nothing. Counters that are off are not asked about.
// Places in queues are given back with the next batch.
//
// # When the store is away
//
// An error that is an outage (see [store.Class]), or five batches (Config.Misses)
// one after the other without an answer in time, open the breaker. From then on every ask is
// answered at once by the failure mode, until a prober in the background finds that the
// store decides again. When the store is silent, the batches under way end, too; after a
// broken connection they may still be answered. An ask whose own deadline passes follows the
// failure mode by itself. Nothing is ever sent twice: a call without an answer may have run.
//
// # Documents
//
// A store looks at the documents that are watched, and at the count of edits of keys, four
// times a second. It reads a document when its mark has changed. A failure there opens no
// breaker.
package lane
