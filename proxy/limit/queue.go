package limit

import "math/bits"

// token, gcra and leaky keep how far a key is ahead of an even pace: what was taken
// and has not come back. It is counted in parts of a permit, of which a whole number
// comes back in each microsecond, so that nothing is rounded. For gcra and leaky this
// is the time from now to the theoretical arrival time, tat, when whoever comes then
// comes as to a new key:
//
//	parts = max(0, tat − at)·gain, and an interval has quantum parts
//
// token divides a token, and leaky an interval of 1/fillRate, as finely as the rate
// needs: see partsOf. gcra divides an interval of window/limit into as many parts as
// the window has microseconds, of which limit pass in each: whatever the limit is, a
// part is the same share of a permit.
//
// Under another limit token and gcra owe as many permits as before, whatever the
// capacity or the burst is now: a raise helps at once, and no permit is given twice.
// leaky keeps tat, rounded up to a microsecond: places until then are booked, and
// whoever comes later must not leave earlier. The queue's length is measured by its
// time, so that after a change the waiting count as many as would leave by tat at the
// new rate. Until the first call under the new limit the old rate counts.
//
// A token bucket that became much smaller and slower would lack more than it holds for
// long. Therefore its State keeps, as b, when it would have been full at the old rate
// if nothing were taken: from then on it is empty, and lacks no more. That is never
// more than the faster rate gives back, so that limits which take turns give nothing
// twice.

// settleQueue lets the time up to now pass.
func (l *Limit) settleQueue(now int64, v *view) {
	switch {
	case v.tag == l.tag && (l.algorithm != GCRA || v.b == l.permits):
		v.a = drained(v.a, now-v.at, l.gain)
		if l.algorithm == Token && v.b != 0 && now >= v.b {
			v.adopted = true
			v.a, v.b = min(v.a, drained(l.full, now-v.b, l.gain)), 0
		}
	case v.Kind() == l.Kind():
		v.adopted = true
		l.carry(now, v)
	default:
		v.State = State{tag: l.tag}
		if l.algorithm == GCRA {
			v.b = l.permits
		}
	}
	v.free = l.full - v.a
}

// carry turns a key that was kept under another limit of this kind into one that is
// kept under l. It is ahead by at most 2^53 parts, which is more than any limit has room
// for.
func (l *Limit) carry(now int64, v *view) {
	if l.algorithm == GCRA {
		v.a, v.b = drained(v.a, now-v.at, v.b), l.permits
		return
	}
	quantum, gain := partsOf(tagNumber(v.tag))
	ahead := drained(v.a, now-v.at, gain)
	v.tag = l.tag
	wait := ceiling(ahead, gain)
	if l.algorithm == Leaky {
		v.a = l.within(wait)
		return
	}
	v.a = rescaled(ahead, quantum, l.quantum)
	switch {
	case v.b == 0:
		v.b = now + wait
	case now >= v.b:
		v.a, v.b = min(v.a, l.full), 0
	default:
		v.b = min(v.b, now+wait)
	}
}

// drained is max(0, parts − elapsed·gain), whatever elapsed is.
func drained(parts, elapsed, gain int64) int64 {
	high, low := bits.Mul64(uint64(elapsed), uint64(gain))
	if high != 0 || low >= uint64(parts) {
		return 0
	}
	return parts - int64(low)
}

// slot returns when who was the last to book cost permits leaves.
func (l *Limit) slot(v *view, cost int64) int64 {
	return v.at + ceiling(v.a-cost*l.quantum, l.gain)
}

// book puts into d when the last to book cost permits leaves.
func (l *Limit) book(now int64, v *view, cost int64, d *Decision) {
	slot := l.slot(v, cost)
	d.Delay = span(now, slot)
	if slot > v.at {
		d.Slot = slot
	}
}

// patient returns how many requests of cost permits find a slot within delay
// microseconds; the first of them may wait so long, too.
func (l *Limit) patient(v *view, cost, delay int64) int64 {
	most := l.within(delay)
	if v.a > most {
		return 0
	}
	return quotient(most-v.a, cost*l.quantum) + 1
}

// patientAt returns when the tail of the queue is not more than delay microseconds
// away.
func (l *Limit) patientAt(v *view, delay int64) int64 {
	if most := l.within(delay); v.a > most {
		return v.at + ceiling(v.a-most, l.gain)
	}
	return v.at
}

// within is how many parts pass in so many microseconds, at most 2^53.
func (l *Limit) within(delay int64) int64 {
	if delay > exactMax/l.gain {
		return exactMax
	}
	return delay * l.gain
}

// Release gives back the place in the queue that a request of cost permits had
// booked: if l is leaky, slot is the instant at which it was to leave, that instant is
// still to come, and nobody has booked after it. Any other place stays booked, as
// those behind keep their times. It reports whether it gave one back.
func (l *Limit) Release(now int64, s *State, cost, slot int64) bool {
	if l.algorithm != Leaky || s.tag != l.tag || cost < 1 || cost > l.burst+l.overshoot {
		return false
	}
	var v view
	l.settle(now, s, &v)
	if v.a <= cost*l.quantum || l.slot(&v, cost) != slot {
		return false
	}
	s.at, s.a = v.at, v.a-cost*l.quantum
	return true
}

// ceiling is ⌈x/y⌉ for 0 ≤ x ≤ 2^53 and 0 < y ≤ 2^53.
func ceiling(x, y int64) int64 {
	if x == 0 {
		return 0
	}
	return quotient(x-1, y) + 1
}
