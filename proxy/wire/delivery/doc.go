// Package delivery stores refused requests and delivers them later. It connects a queue
// ([deferred.Queue]) with the event loops, which deliver each request, and serves the endpoints
// that show and edit the queue.
//
// A [Dispatcher] claims due entries, and passes each to one of the loops in turn. There a client
// without a connection feeds the stored bytes to a session. So a delivery is a request like
// others, with the same limits and at the same gate, where it ranks below all live requests.
// Deliveries have a separate Env: they leave the share reserve of the limit to live requests, and
// are not stored again. A delivery ends on its loop with [deferred.Queue.Settle], which then
// wakes the goroutine that claims. A rule that has at least as many deliveries as there are free
// places claims no more, so a target that does not answer delays only its own rule.
//
// A delivery that a limit refuses, or for which there is no place, does not count as an attempt.
// With an Idempotency-Key it waits on its loop for a precise alarm, for up to half a second.
// Without one it goes back to the queue, because a crash must not find it claimed and unsent, and
// it gets a new connection to the target.
//
// In the counts for the advisor, a deferred request is counted as arrived and refused when it
// arrives, and as delivered in the interval of its delivery. Answer times depend on deliveries,
// so they must be counted. If they were counted as demand, they would raise the limit while a
// backlog is worked off.
//
// A callback is stored before the request that it reports is settled, so it is sent at least once;
// a full queue has room reserved for it. It is sent by a goroutine, because callbacks are rare and
// go to hosts that are not targets.
//
// During a drain nothing more is claimed. Entries that are claimed and not sent are given back.
// The other deliveries may take as long to finish as client connections may. A successor opens
// the queue within a second of the take-over; until then rules with defer answer 429.
package delivery
