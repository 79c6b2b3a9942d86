// Package lane implements what all shared stores have in common: it makes a [store.Store]
// from a [store.Backend]. It is independent of any database.
//
// # Asking
//
// An event loop never waits for the store. It owns a [Lane]. Asks that arrive while a batch of
// the lane is in flight are collected. Asks for the same counters form one group with the number
// of waiting requests, and one call of the backend decides all groups of a batch. So the work of
// the store grows with batches and keys, not with requests. A few helper goroutines per lane send
// the batches, and wake the loop once per answer. If the backend has a [LoopClient], the loop client
// sends them on the loop instead. The backend returns the states before its decisions. From
// these, package limit repeats the decisions on the loop, request by request, so that each
// request gets the decision that it would have got alone. If the backend locks keys
// (Config.Locking), asks for a key that is being decided wait in the lane instead of the
// database.
//
// A refusal is remembered on the loop, so that a client that retries early costs the store
// little. It is remembered for a tenth of the time to retry, or until the lane charges a key that
// has refused. So a remembered refusal can be stale only if others have charged the key
// meanwhile, and for at most a tenth of the time to retry. Counters that are off are not asked
// about. Releases are sent with the next batch.
//
// # When the store is unavailable
//
// An error that is an outage (see [store.Class]), or five successive batches (Config.Misses)
// without an answer in time, open the breaker. From then on every ask is answered immediately by
// the failure mode, until a prober in the background finds that the store decides again. If the
// store does not answer, the batches in flight end, too; after a broken connection they may still
// be answered. An ask whose own deadline passes follows the failure mode individually. A call is
// repeated only if the backend certainly has not received it: one without an answer may have been
// executed.
//
// # Documents
//
// A store polls the marks of watched documents, and the count of edits of keys, four times a
// second. It reads a document when its mark has changed. An error of this does not open the
// breaker. When the count has changed, or the backend may have lost keys, all remembered refusals
// are forgotten. This works without any ask reaching the backend, as when all asks are refused
// from memory.
//
// # Bounds
//
// An ask is queued
//
//   - while two batches (Config.InFlight) are in progress;
//   - while one batch is in progress, and fewer asks are queued than that batch had.
//
// An ask is answered by the failure mode, without the store, if the breaker is open, if 65,536
// asks of the lane wait (Config.WaitingMax), if its deadline passes, or if its group has an
// error. An answer that has arrived but was not read yet takes precedence over a deadline, so
// that a busy machine does not admit requests without limit. The breaker of a sidecar opens after
// as many missed deadlines in a row as timeouts fit into half a second, at least one and at most
// five.
package lane
