package limit

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

// capacityMax is the largest capacity whose parts are counted exactly.
func capacityMax(rate int64) int64 {
	quantum, _ := partsOf(rate)
	return exactMax / quantum
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
