// Package lane makes a [store.Store] from a [store.Backend]: it batches what event loops ask a store,
// remembers refusals, and answers for a store that is unavailable. It is independent of any database.
//
// # Batches
//
// A [Lane] is the batching client of one event loop. The loop never waits: it passes an ask to the
// lane, which calls its Done later. The lane groups asks for the same counters, and sends all groups
// as one call of the backend. At most two batches (Config.InFlight) are in flight:
//
//	in flight   the next batch is sent
//	0           at once
//	1           when as many asks wait as that batch had
//	2           when one of them is answered
//
// So the load of the store grows with batches and keys, not with requests. Batches are sent by a few
// goroutines of each lane, or on the loop if the backend has a [LoopClient].
//
// The backend returns the state of each key before the batch. From it the lane computes the decision
// about each request with package limit, as if each had been asked about alone. If the backend locks
// keys (Config.Locking), asks for a key that is in flight wait in the lane instead of the database.
// Refunds are sent with the next batch. Counters that are off are not sent.
//
// # Remembered refusals
//
// A refusal is remembered for a tenth of its RetryAfter, so that clients that retry early cost the
// store little. It is forgotten earlier when this lane charges one of the keys that refused, and all
// are forgotten when a key was edited or the backend may have lost keys. Until then RetryAfter is
// outdated only if other lanes or proxies have charged or refunded the key.
//
// # When the store is unavailable
//
// The breaker opens on an outage (see [store.ErrorClass]), or after five successive batches
// (Config.Misses) without an answer in time; for a sidecar, after as many as there are timeouts in
// half a second, at least one and at most five. While it is open, the failure mode answers every ask at
// once, and a prober waits until the store decides again. Batches in flight end too, but one whose
// connection has broken may still be answered.
//
// While the breaker is closed, the failure mode answers a single ask if
//
//   - its deadline passes and no answer has arrived. One that has arrived but was not read yet counts,
//     so that a busy machine does not admit requests without limit;
//   - 65,536 asks (Config.WaitingMax) of the lane wait already;
//   - its group has an error.
//
// A call is repeated only if the backend has certainly not received it: one without an answer may have
// been executed.
//
// # Documents
//
// Four times a second a store reads the mark (a fingerprint) of each watched document and the count of
// edits of keys, also while no ask reaches the backend. It reads a document when its mark has changed.
// An error here does not open the breaker.
package lane
