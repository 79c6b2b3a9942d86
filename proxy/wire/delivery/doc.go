// Package delivery stores refused requests and delivers them later. It connects a queue
// ([deferred.Queue]) with the event loops, which deliver each request, and serves the endpoints
// that show and edit the queue.
//
// A [Dispatcher] claims due entries, and passes each to one of the loops in turn. There a client
// without a connection feeds the stored bytes to a session, so a delivery is a request like others,
// in the same limits and at the same gate, where it ranks below all live requests. Deliveries have
// an Env of their own: they leave the share reserve of the limit to live requests, and are not
// stored again. One ends with attempt.done on its loop, and [deferred.Queue.Settle], which wakes the
// goroutine that claims. A rule that has at least as many deliveries as there are free places
// claims no more, so a target that does not answer delays only its own rule.
//
// A delivery that a limit refuses, or for which there is no place, does not count as an attempt.
// With an Idempotency-Key it waits on its loop for a precise alarm, up to half a second. Without
// one it goes back to the queue, since a crash must not find it claimed and unsent, and it gets a
// new connection to the target.
//
// The counts for the advisor have a deferred request as arrived and refused when it arrives, and as
// delivered in the interval of its delivery: answer times depend on deliveries, but counted as
// demand they would raise the limit while a backlog is worked off.
//
// A callback is stored before the request that it reports is settled, so it is sent at least once;
// a full queue has room reserved for it. It is sent by a goroutine, because callbacks are rare and
// go to hosts that are not targets.
//
// During a drain nothing more is claimed, what is claimed and not sent is given back, and the other
// deliveries may finish as long as client connections may. A successor opens the queue within a
// second of the take-over; until then rules with defer answer 429.
package delivery
