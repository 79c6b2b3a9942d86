package upstream

import "weir/internal/net/share"

// A Waiter waits in a queue: for a connection in that of a Pool, or for a place at any
// target in a Queue.
//
// Owned by its loop.
type Waiter[W any] struct {
	// Value is the waiting client.
	Value W

	next, prev *Waiter[W]
	queue      *fifo[W]
	client     share.Client // see SetClient
	slot       uint16       // of client
	holds      bool         // counts in Pool.holds,
	holdsIn    uint16       // in this slot
	streams    bool         // has a place for streams,
	later      bool         // which is only reserved,
	streamsFor share.Client // which counts for this client

	who, placedFor who // whom the request is for, and its place
	rank           uint8
	placed         bool   // has a place that its Queue counts,
	routed         bool   // also for its route
	known          int16  // the number of the key that the place counts for, or stranger
	account        int16  // in the Queue: where it waits
	ticket         uint64 // order of joining the Queue, or then the Pool
	joinedAt       int64  // when that was, see instant
	late           bool   // has waited there for long
	greedy         bool   // its client or key was greedy when it joined

	older, newer *Waiter[W] // the neighbours among those that have a place, in the order of Take
	takenAt      int64      // when it got the place, see instant
	usual        float32    // in seconds, see Queue.Take
	overtaken    uint64     // value of Queue.gives from which it counts as overtaken
	long         bool       // it holds the place for long
}

// who says whom a request is for.
type who struct {
	client uint16 // below shareClients
	route  uint8
	mark   uint32 // of the key, within the client; 0: there is none
}

// SetClient sets the client that the request counts for, and a hash of it.
func (w *Waiter[W]) SetClient(client share.Client, hash uint64) {
	w.client, w.slot = client, uint16(hash%slots)
}

// SetHashes sets the hashes of the client that the request is counted under and of its key, 0 if it has
// none, and the number of its route. A key belongs to a client: equal keys of two clients are two
// keys.
func (w *Waiter[W]) SetHashes(client, key uint64, route uint8) {
	w.who = who{client: uint16(client % shareClients), route: route}
	if key != 0 {
		w.who.mark = max(1, uint32((key+client*hashOdd)*hashOdd>>32))
	}
}

// hashOdd spreads the bits of hashes: 2^64 divided by the golden ratio, as for Fibonacci hashing.
const hashOdd = 0x9e3779b97f4a7c15

// Ranked sets the rank of the request's priority class, 0 for the highest. Ranks from
// BackgroundPriority on are equal.
func (w *Waiter[W]) Ranked(rank int) { w.rank = uint8(min(rank, PriorityLevels-1)) }

// Rank returns the rank set by Ranked.
func (w *Waiter[W]) Rank() int { return int(w.rank) }

// Waiting reports whether the waiter is in a queue.
func (w *Waiter[W]) Waiting() bool { return w.queue != nil }

// Streams reports whether the waiter has a place for streams that is not only reserved.
func (w *Waiter[W]) Streams() bool { return w.streams && !w.later }

// Hand moves the place of w in a Pool to another waiter, which has none. If it has one that a Queue
// counts too, use [Queue.Hand].
func (w *Waiter[W]) Hand(to *Waiter[W]) {
	if w.queue != nil {
		panic("bug: a waiter that is in a queue has no place to hand over")
	}
	value := to.Value
	*to = *w
	to.Value = value
	w.holds, w.streams, w.later, w.placed, w.long, w.older, w.newer = false, false, false, false, false, nil, nil
}
