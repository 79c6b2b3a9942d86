// Package pace says when each request of a run is due.
//
// There is one schedule for the whole run, and for all generators that share
// it: arrival k is due at Λ⁻¹(k + ½) of the profile, whatever happened to the
// arrivals before it. The schedule is dealt out like cards. Of several
// generators, number i of n takes the arrivals k ≡ i (mod n); each deals its
// own on to its loops in the same way. Nobody needs to ask anybody else, and
// the sum of all hands is the schedule, so that the rate is that of the plan
// and not a sum of rates that each drift or bunch up on their own.
//
// Due times are durations since the start of the run. The package asks no
// clock.
package pace

import (
	"fmt"
	"time"

	"weir/loadgen/profile"
)

// A Shard is the hand of one generator: number Index of Of, counted from 0.
// The zero value stands for the only one.
type Shard struct {
	Index, Of int
}

// shardsMax bounds the number of generators that share a schedule.
const shardsMax = 10_000

// arrivalsMax bounds the arrivals of a schedule, so that what lies a little
// beyond its end can still be counted. It is a week at the highest rate.
const arrivalsMax = 7 << 40

// Validate says what is wrong with the shard, naming the field.
func (s Shard) Validate() (field, fault string) {
	switch {
	case s == Shard{}:
		return "", ""
	case s.Of < 1 || s.Of > shardsMax:
		return "of", fmt.Sprintf("must be from 1 to %d, is %d", shardsMax, s.Of)
	case s.Index < 0 || s.Index >= s.Of:
		return "index", fmt.Sprintf("must be from 0 to %d (below of), is %d", s.Of-1, s.Index)
	}
	return "", ""
}

// A Schedule is what one generator has to send: its share of the arrivals due
// before the end.
//
// Immutable after New.
type Schedule struct {
	profile profile.Constant
	length  time.Duration
	shard   Shard
	whole   uint64 // arrivals of all shards
}

// New returns the share that shard has of the arrivals which p wants before
// length is over. It panics on a shard that Validate refuses, and when there
// are more arrivals than a Count holds with room to spare.
func New(p profile.Constant, length time.Duration, shard Shard) Schedule {
	if shard == (Shard{}) {
		shard.Of = 1
	}
	if _, fault := shard.Validate(); fault != "" {
		panic("bug: shard " + fault)
	}
	if p.Cumulative(length) >= profile.Arrivals(arrivalsMax) {
		panic(fmt.Sprintf("bug: more than %d arrivals", arrivalsMax))
	}
	s := Schedule{profile: p, length: length, shard: shard}
	s.whole = s.before(length)
	return s
}

// Length is how long the schedule lasts.
func (s Schedule) Length() time.Duration { return s.length }

// Arrivals is the number of arrivals in this shard's share.
func (s Schedule) Arrivals() uint64 { return s.share(s.whole) }

// Due is when arrival i (from 0) of this shard is due.
func (s Schedule) Due(i uint64) time.Duration {
	return s.due(i*uint64(s.shard.Of) + uint64(s.shard.Index))
}

// Rate is this shard's rate at t in arrivals per second; 0 outside the run.
func (s Schedule) Rate(t time.Duration) float64 {
	if t < 0 || t >= s.length {
		return 0
	}
	return s.profile.Rate(t) / float64(s.shard.Of)
}

// Before is how many of this shard's arrivals are due before t.
func (s Schedule) Before(t time.Duration) uint64 {
	if t >= s.length {
		return s.Arrivals()
	}
	return s.share(s.before(t))
}

// due is when arrival k of the whole schedule is due.
func (s Schedule) due(k uint64) time.Duration {
	return s.profile.Inverse(profile.Arrivals(k) + profile.Half)
}

// before is how many arrivals of all shards are due before t. The cumulative
// rate says it but for its rounding, which is settled by looking.
func (s Schedule) before(t time.Duration) uint64 {
	n := uint64((s.profile.Cumulative(t) + profile.Half) / profile.One)
	for n > 0 && s.due(n-1) >= t {
		n--
	}
	for s.due(n) < t {
		n++
	}
	return n
}

// share is how many of the first n arrivals of all shards are this shard's.
func (s Schedule) share(n uint64) uint64 {
	index, of := uint64(s.shard.Index), uint64(s.shard.Of)
	return (n + of - 1 - index) / of
}

// A Lane deals the arrivals of one loop out, in order. It is the loop's queue
// as well: what is due and was not yet taken is what waits.
//
// Owned by its loop.
type Lane struct {
	schedule Schedule
	next     uint64 // the arrival of this shard to be taken next
	stride   uint64
	end      uint64 // arrivals of this shard; cut shorter by Cut
	due      time.Duration
}

// Lane returns the share that loop number i of n has of the schedule.
func (s Schedule) Lane(i, n int) Lane {
	l := Lane{schedule: s, next: uint64(i), stride: uint64(n), end: s.Arrivals()}
	l.due = s.Due(l.next)
	return l
}

// Due is when the next arrival is due; false when there is none left.
func (l *Lane) Due() (time.Duration, bool) { return l.due, l.next < l.end }

// Take takes the next arrival off the lane.
func (l *Lane) Take() {
	l.next += l.stride
	l.due = l.schedule.Due(l.next)
}

// Waiting is how many arrivals due before t have not been taken.
func (l *Lane) Waiting(t time.Duration) uint64 {
	n := min(l.schedule.Before(t), l.end)
	if n <= l.next {
		return 0
	}
	return (n - l.next + l.stride - 1) / l.stride
}

// Cut ends the lane at t: arrivals due at t or later will not come.
func (l *Lane) Cut(t time.Duration) { l.end = min(l.end, l.schedule.Before(t)) }

// Drop empties the lane and returns how many arrivals were left on it.
func (l *Lane) Drop() uint64 {
	if l.next >= l.end {
		return 0
	}
	n := (l.end - l.next + l.stride - 1) / l.stride
	l.end = l.next
	return n
}
