package limit

import "math/bits"

// token, gcra and leaky store how far a key is ahead of an even pace: the permits taken
// and not yet regained. They are counted in parts of a permit, chosen so that a whole
// number of parts is regained in each microsecond and nothing is rounded. For gcra and
// leaky this is the time from now to the theoretical arrival time tat, at which the key
// is as new:
//
//	parts = max(0, tat − at)·gain, and an interval has quantum parts
//
// token divides a token, and leaky an interval of 1/fillRate, as finely as the rate
// needs: see partsOf. gcra divides an interval of window/limit into as many parts as
// the window has microseconds, of which limit pass in each: whatever the limit is, a
// part is the same share of a permit.
//
// When the limit changes, token and gcra still owe as many permits as before, whatever
// the new capacity or burst: a raise takes effect at once, and no permit is given twice.
// leaky keeps tat, rounded up to a microsecond: places until then are booked, and a later
// request must not leave earlier. The length of the queue is measured by its time, so
// after a change it counts as many requests as would leave by tat at the new rate. The
// old rate applies until the first call under the new limit.
//
// A token bucket that became much smaller and slower could owe more than its capacity for
// a long time. Therefore its State keeps, as b, the instant at which it would have been
// full at the old rate if nothing more were taken, or 0 if it is full. From then on the
// bucket owes at most its capacity. This forgives no more than the faster rate would have given back, so
// alternating limits give no permit twice.

// settleQueue accounts for the time up to now.
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

// carry converts a key kept under another limit of this kind to l. It is ahead by at most
// 2^53 parts, which is more than any limit has room for.
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
	case v.a == 0: // nothing to forgive
		v.b = 0
	case v.b == 0:
		v.b = now + wait
	case now >= v.b:
		v.a, v.b = min(v.a, l.full), 0
	default:
		v.b = min(v.b, now+wait)
	}
}

// drained returns max(0, parts − elapsed·gain), for any elapsed.
func drained(parts, elapsed, gain int64) int64 {
	high, low := bits.Mul64(uint64(elapsed), uint64(gain))
	if high != 0 || low >= uint64(parts) {
		return 0
	}
	return parts - int64(low)
}

// slot returns the instant at which the last request to book cost permits leaves.
func (l *Limit) slot(v *view, cost int64) int64 {
	return v.at + ceiling(v.a-cost*l.quantum, l.gain)
}

// book stores that instant in d.
func (l *Limit) book(now int64, v *view, cost int64, d *Decision) {
	slot := l.slot(v, cost)
	d.Delay = span(now, slot)
	if slot > v.at {
		d.Slot = slot
	}
}

// patient returns how many requests of cost permits get a slot within delay microseconds,
// including the one that passes at once.
func (l *Limit) patient(v *view, cost, delay int64) int64 {
	most := l.within(delay)
	if v.a > most {
		return 0
	}
	return quotient(most-v.a, cost*l.quantum) + 1
}

// patientAt returns the instant at which the tail of the queue is at most delay
// microseconds away.
func (l *Limit) patientAt(v *view, delay int64) int64 {
	if most := l.within(delay); v.a > most {
		return v.at + ceiling(v.a-most, l.gain)
	}
	return v.at
}

// within returns how many parts pass in delay microseconds, at most 2^53.
func (l *Limit) within(delay int64) int64 {
	if delay > exactMax/l.gain {
		return exactMax
	}
	return delay * l.gain
}

// ceiling returns ⌈x/y⌉ for 0 ≤ x ≤ 2^53 and 0 < y ≤ 2^53.
func ceiling(x, y int64) int64 {
	if x == 0 {
		return 0
	}
	return quotient(x-1, y) + 1
}

// A token is divided into as many equal parts as make the refill of one microsecond a
// whole number of parts: with a fillRate of 5 per second a token has 200,000 parts and
// every microsecond adds one. So nothing is ever rounded, however often a key is asked.

// partsOf returns the number of parts of a token, and the number of parts added per
// microsecond, for a rate in millionths of a token per second. gain/quantum is rate/10^12
// in lowest terms.
func partsOf(rate int64) (quantum, gain int64) {
	common := gcd(rate, picoPerToken)
	return picoPerToken / common, rate / common
}

// rescaled converts parts from a division of a token into from parts to one into to
// parts, rounded up, at most 2^53. Both divide 10^12, so no product exceeds that.
func rescaled(parts, from, to int64) int64 {
	whole, rest := parts/from, parts%from
	if whole > exactMax/to {
		return exactMax
	}
	common := gcd(from, to)
	return min(whole*to+ceiling(rest*(to/common), from/common), exactMax)
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
