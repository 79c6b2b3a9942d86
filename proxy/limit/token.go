package limit

import "math/bits"

// Tokens are divided into as many equal parts as make the refill of one
// microsecond a whole number of parts: with a fillRate of 5 per second a token
// has 200,000 parts and every microsecond adds one. So nothing is ever rounded,
// however often a key is asked.

// partsOf returns the number of parts of a token, and the number of parts added
// per microsecond, for a rate in millionths of a token per second: gain/quantum
// is rate/10^12 in lowest terms.
func partsOf(rate int64) (quantum, gain int64) {
	common := gcd(rate, picoPerToken)
	return picoPerToken / common, rate / common
}

// capacityMax is the largest capacity whose parts are counted exactly.
func capacityMax(rate int64) int64 {
	quantum, _ := partsOf(rate)
	return exactMax / quantum
}

// settleToken refills the bucket up to now.
func (l *Limit) settleToken(now int64, v *view) {
	if v.tag != l.tag || v.b != l.permits {
		v.adopted = v.tag != 0
		v.State = l.adopt(now, &v.State)
		return
	}
	v.a = refilled(v.a, l.full, now-v.at, l.gain)
}

// refilled is min(full, parts + elapsed·gain), whatever elapsed is.
func refilled(parts, full, elapsed, gain int64) int64 {
	high, low := bits.Mul64(uint64(elapsed), uint64(gain))
	if high != 0 || low >= uint64(full-parts) {
		return full
	}
	return parts + int64(low)
}

// filledAt is the first instant, not before v.at, at which the bucket holds that
// many parts.
func (l *Limit) filledAt(v *view, parts int64) int64 {
	if parts <= v.a {
		return v.at
	}
	return v.at + quotient(parts-v.a-1, l.gain) + 1
}

// adopt turns a State that was not kept under l into one that is: a full bucket,
// unless it was a bucket before and is not full by now.
func (l *Limit) adopt(now int64, s *State) State {
	parts := l.full
	if tagAlgorithm(s.tag) == Token {
		quantum, gain := partsOf(tagNumber(s.tag))
		full := s.b * quantum
		if had := refilled(s.a, full, now-s.at, gain); had < full {
			parts = l.rescaled(had, quantum)
		}
	}
	return State{tag: l.tag, a: parts, b: l.permits}
}

// rescaled converts parts of which a token has from into parts of l, rounded
// down, at most a full bucket of them. Both quantums divide 10^12, so that no
// product goes beyond that, or beyond a full bucket.
func (l *Limit) rescaled(parts, from int64) int64 {
	to := l.quantum
	whole, rest := parts/from, parts%from
	if whole > l.full/to {
		return l.full
	}
	common := gcd(from, to)
	return min(whole*to+rest*(to/common)/(from/common), l.full)
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
