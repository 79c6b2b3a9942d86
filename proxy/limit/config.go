package limit

import (
	"cmp"
	"math"
)

// A Config is a limit in the JSON form that settings, rules, the REST interface, the
// store and the advisor share:
//
//	{"algorithm":"fixed","limit":100,"window":60}
//	{"algorithm":"sliding","limit":500,"window":60}
//	{"algorithm":"token","capacity":50,"fillRate":5}
//	{"algorithm":"sliding_log","limit":20,"window":60}
//	{"algorithm":"gcra","limit":1,"window":3,"burst":2}
//	{"algorithm":"leaky","capacity":50,"fillRate":5}
//	{"algorithm":"off"}
//
// The fields that the algorithm uses must be greater than zero, except that burst may be
// absent, which means 1. The other fields may be set too: they are the last known values,
// for a later switch of the algorithm. Zero means absent.
type Config struct {
	Algorithm Algorithm `json:"algorithm"`
	Limit     int64     `json:"limit,omitempty"`    // permits per window
	Window    float64   `json:"window,omitempty"`   // seconds
	Capacity  int64     `json:"capacity,omitempty"` // tokens; leaky: places in the queue
	FillRate  float64   `json:"fillRate,omitempty"` // tokens per second; leaky: requests of cost 1 that leave per second
	Burst     int64     `json:"burst,omitempty"`    // gcra: permits that may pass at once
}

const (
	// exactMax bounds every number and product. A float64, which scripts inside Redis
	// compute with, represents all integers up to it exactly.
	exactMax = 1 << 53
	// spanMax bounds windows and the time that a bucket takes to fill, in microseconds:
	// 100 years. Sums of an instant and a few such spans stay exact.
	spanMax = 100 * 365 * 24 * 3600 * second
	// second is a second in microseconds.
	second = 1_000_000
	// picoPerToken is how many parts a token has at the finest fillRate, if one part is
	// added per microsecond: a fillRate of n micro-tokens per second adds n parts.
	picoPerToken = 1_000_000_000_000
)

// Merge returns c with missing values taken from last, the values known so far. Only
// burst is different: if c gives the numbers that go with burst but not burst, it is 1.
func (c Config) Merge(last Config) Config {
	if c.Algorithm == GCRA && c.Limit != 0 {
		c.Burst = c.burst()
	}
	c.Algorithm = cmp.Or(c.Algorithm, last.Algorithm)
	c.Limit = cmp.Or(c.Limit, last.Limit)
	c.Window = cmp.Or(c.Window, last.Window)
	c.Capacity = cmp.Or(c.Capacity, last.Capacity)
	c.FillRate = cmp.Or(c.FillRate, last.FillRate)
	c.Burst = cmp.Or(c.Burst, last.Burst)
	return c
}

// Rounded returns c with window and fillRate rounded to the nearest values that can be
// represented exactly. It is meant for rates that were computed rather than chosen, such
// as 100/3 per second. Other faults remain.
func (c Config) Rounded() Config {
	switch c.Algorithm {
	case Fixed, Sliding, SlidingLog, GCRA:
		c.Window = math.Round(c.Window*second) / second
		if window, ok := micro(c.Window); ok && c.Algorithm == Sliding {
			unit := resolution(window)
			c.Window = float64((window+unit/2)/unit*unit) / second
		}
	case Token, Leaky:
		c.FillRate = c.roundedRate()
	}
	return c
}

// roundedRate returns fillRate with as many decimals as capacity leaves room for.
func (c Config) roundedRate() float64 {
	for scale := float64(second); scale >= 1; scale /= 10 {
		rounded := math.Round(c.FillRate*scale) / scale
		rate, ok := micro(rounded)
		if ok && rate > 0 && c.Capacity <= c.capacityMax(rate) {
			return rounded
		}
	}
	return c.FillRate
}

// burst returns Burst, or 1 if it is absent.
func (c Config) burst() int64 { return cmp.Or(c.Burst, 1) }

// capacityMax returns the largest capacity that is counted exactly.
func (c Config) capacityMax(rate int64) int64 {
	l := newRated(c.Algorithm, 0, rate)
	return l.burstMax()
}

// micro returns v in millionths, and whether v is the float64 nearest to a decimal with
// at most six places.
func micro(v float64) (millionths int64, exact bool) {
	scaled := math.Round(v * second)
	if !(math.Abs(scaled) <= exactMax) {
		return 0, false
	}
	return int64(scaled), scaled/second == v
}
