package limit

// gcra and leaky keep how far a key is ahead of an even pace: the time from now to
// its theoretical arrival time, tat, when whoever comes then comes as to a new key.
// It is counted in parts of a permit's interval, of which a whole number passes in
// each microsecond, so that nothing is rounded. A State holds
//
//	parts = max(0, tat − at)·gain, and an interval has quantum parts
//
// gcra divides an interval of window/limit into as many parts as the window has
// microseconds, of which limit pass in each: whatever the limit is, a part is the
// same share of a permit. So when the limit changes, as many permits are owed as
// before, and tat moves with the interval: a raise helps at once, and no permit is
// given twice. When burst changes tat is kept.
//
// leaky divides an interval of 1/fillRate as token divides a token. When fillRate
// changes, tat is kept, rounded up to a microsecond: places until then are booked,
// and whoever comes later must not leave earlier. The queue's length is measured by
// its time, so that after a change the waiting count as many as would leave by tat
// at the new rate.

// settleQueue lets the time up to now pass.
func (l *Limit) settleQueue(now int64, v *view) {
	switch {
	case v.tag == l.tag:
		v.a = drained(v.a, now-v.at, l.gain)
	case l.algorithm == Leaky && tagAlgorithm(v.tag) == Leaky:
		v.adopted = true
		v.tag, v.a = l.tag, l.requeued(v, now-v.at)
	default:
		v.adopted = v.tag != 0
		v.State = State{tag: l.tag}
	}
	v.free = l.full - v.a
}

// drained is max(0, parts − elapsed·gain), whatever elapsed is.
func drained(parts, elapsed, gain int64) int64 {
	return parts - refilled(0, parts, elapsed, gain)
}

// requeued is how far a queue is ahead under l that was kept at another rate. It is
// at most 2^53 parts: longer than any queue.
func (l *Limit) requeued(v *view, elapsed int64) int64 {
	_, gain := partsOf(tagNumber(v.tag))
	micros := ceiling(drained(v.a, elapsed, gain), gain)
	if micros > exactMax/l.gain {
		return exactMax
	}
	return micros * l.gain
}

// slot returns when who was the last to book cost permits leaves.
func (l *Limit) slot(v *view, cost int64) int64 {
	return v.at + ceiling(v.a-cost*l.quantum, l.gain)
}

// book tells who was the last to book cost permits when to leave.
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
// those behind were told when they leave. It reports whether it gave one back.
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
