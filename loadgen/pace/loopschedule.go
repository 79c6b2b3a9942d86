package pace

import (
	"time"

	"weir/loadgen/profile"
)

// A LoopSchedule yields the arrivals of one loop in order. It is the loop's queue as well:
// arrivals that are due and not yet taken wait. The queue needs no memory, since it is
// the part between two walks along the same arrivals.
//
//	taken   waiting     still to come
//	 ┄┄┄┄┄┼───────────┼┄┄┄┄┄┄┄┄┄┄┄┄┄┄┤
//	     head        tail            limit
//
// Owned by its loop.
type LoopSchedule struct {
	profile *profile.Profile
	head    walk // next arrival to take
	tail    walk // first arrival not known to wait
	waiting uint64
	stride  uint64
	limit   profile.Count // no arrivals from here on
	due     time.Duration // of head
}

// ForLoop returns the share of the schedule for loop i of n.
func (s Schedule) ForLoop(i, n int) LoopSchedule {
	shard := s.config.Shard
	l := LoopSchedule{
		profile: s.config.Profile, head: newWalk(s.config.Arrivals, s.config.Seed),
		stride: uint64(n * shard.Of), limit: s.limit,
	}
	l.head.step(uint64(shard.Index + i*shard.Of))
	l.tail = l.head
	l.due = l.profile.Inverse(l.head.at)
	return l
}

// Due returns when the next arrival is due; ok is false if there is none left.
func (l *LoopSchedule) Due() (time.Duration, bool) { return l.due, l.head.at < l.limit }

// Index returns the number of the next arrival in the schedule of all shards.
func (l *LoopSchedule) Index() uint64 { return l.head.index }

// Take removes the next arrival.
func (l *LoopSchedule) Take() {
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

// Waiting returns how many arrivals due before t have not been taken: those due before t if none
// is taken. Time must not go back: for an earlier t than before, the count is what is left of
// the former.
func (l *LoopSchedule) Waiting(t time.Duration) uint64 {
	l.wait(min(l.profile.Before(t), l.limit))
	return l.waiting
}

func (l *LoopSchedule) wait(limit profile.Count) { l.waiting += l.tail.seek(limit, l.stride) }

// Cut ends the lane at t: arrivals due at t or later are dropped.
func (l *LoopSchedule) Cut(t time.Duration) {
	l.limit = min(l.limit, l.profile.Before(t))
	if l.tail.at > l.limit {
		l.tail, l.waiting = l.head, 0
	}
}

// Drop empties the lane and returns how many arrivals were left.
func (l *LoopSchedule) Drop() uint64 {
	l.wait(l.limit)
	n := l.waiting
	l.tail, l.waiting, l.limit = l.head, 0, min(l.limit, l.head.at)
	return n
}
