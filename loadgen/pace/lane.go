package pace

import (
	"time"

	"weir/loadgen/profile"
)

// A Lane deals the arrivals of one loop out, in order. It is the loop's queue
// as well: what is due and was not yet taken is what waits. The queue needs no
// memory: it lies between two walks along the same arrivals.
//
//	taken   waiting     still to come
//	 ┄┄┄┄┄┼───────────┼┄┄┄┄┄┄┄┄┄┄┄┄┄┄┤
//	     head        tail            limit
//
// Owned by its loop.
type Lane struct {
	profile *profile.Profile
	head    walk // the arrival to be taken next
	tail    walk // the first arrival not known to wait
	waiting uint64
	stride  uint64
	limit   profile.Count // no arrivals from here on
	due     time.Duration // of head
}

// Lane returns the share that loop number i of n has of the schedule.
func (s Schedule) Lane(i, n int) Lane {
	of := uint64(s.config.Shard.Of)
	l := Lane{profile: s.config.Profile, head: s.first(), stride: uint64(n) * of, limit: s.limit}
	l.head.step(uint64(i) * of)
	l.tail = l.head
	l.due = l.profile.Inverse(l.head.at)
	return l
}

// Due is when the next arrival is due; false when there is none left.
func (l *Lane) Due() (time.Duration, bool) { return l.due, l.head.at < l.limit }

// Index is the number of the next arrival in the schedule of all shards.
func (l *Lane) Index() uint64 { return l.head.index }

// Take takes the next arrival off the lane.
func (l *Lane) Take() {
	l.head.step(l.stride)
	if l.waiting > 0 {
		l.waiting--
	} else {
		l.tail = l.head
	}
	if l.head.at < l.limit {
		l.due = l.profile.Inverse(l.head.at)
	}
}

// Waiting is how many arrivals due before t have not been taken. Time does not
// go back: for an earlier t than before it is what is left of those.
func (l *Lane) Waiting(t time.Duration) uint64 {
	l.wait(min(l.profile.Before(t), l.limit))
	return l.waiting
}

// wait lets the arrivals before limit wait.
func (l *Lane) wait(limit profile.Count) { l.waiting += l.tail.seek(limit, l.stride) }

// Cut ends the lane at t: arrivals due at t or later will not come.
func (l *Lane) Cut(t time.Duration) {
	l.limit = min(l.limit, l.profile.Before(t))
	if l.tail.at > l.limit {
		l.tail, l.waiting = l.head, 0
	}
}

// Drop empties the lane and returns how many arrivals were left on it.
func (l *Lane) Drop() uint64 {
	l.wait(l.limit)
	n := l.waiting
	l.tail, l.waiting, l.limit = l.head, 0, min(l.limit, l.head.at)
	return n
}
