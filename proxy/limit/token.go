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
		l.adoptToken(now, v)
	} else {
		v.a = refilled(v.a, l.full, now-v.at, l.gain)
	}
	v.free = v.a
}

// refilled is min(full, parts + elapsed·gain), whatever elapsed is.
func refilled(parts, full, elapsed, gain int64) int64 {
	high, low := bits.Mul64(uint64(elapsed), uint64(gain))
	if high != 0 || low >= uint64(full-parts) {
		return full
	}
	return parts + int64(low)
}

// adoptToken turns a State that was not kept under l into one that is: a full
// bucket, unless it was a bucket before and is not full by now.
func (l *Limit) adoptToken(now int64, v *view) {
	parts := l.full
	if tagAlgorithm(v.tag) == Token {
		quantum, gain := partsOf(tagNumber(v.tag))
		full := v.b * quantum
		if had := refilled(v.a, full, now-v.at, gain); had < full {
			parts = l.rescaled(had, quantum)
		}
	} else {
		v.rest = Rest{}
	}
	v.tag, v.a, v.b = l.tag, parts, l.permits
}

// rescaled converts parts of which a token has from into parts of l, rounded
// down, at most a full bucket of them, and at least as many as make a full bucket
// with 2^53 more: overshoot can leave a bucket below 0. Both quantums divide 10^12,
// so that no product goes beyond that, or beyond 2^53.
func (l *Limit) rescaled(parts, from int64) int64 {
	to, least := l.quantum, l.full-exactMax
	whole, rest := parts/from, parts%from
	if rest < 0 {
		whole, rest = whole-1, rest+from
	}
	switch {
	case whole > l.full/to:
		return l.full
	case whole < least/to:
		return least
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
