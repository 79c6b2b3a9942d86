package limit

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// A Config is a limit as people and programs write it, in the one JSON form of
// settings, rules, the REST interface, the store and the advisor:
//
//	{"algorithm":"fixed","limit":100,"window":60}
//	{"algorithm":"sliding","limit":500,"window":60}
//	{"algorithm":"token","capacity":50,"fillRate":5}
//
// The fields that the algorithm needs must be greater than zero. The others may
// be there too: they are the last values known, for a later switch of the
// algorithm. Zero is absent.
type Config struct {
	Algorithm Algorithm `json:"algorithm"`
	Limit     int64     `json:"limit,omitempty"`    // permits per window
	Window    float64   `json:"window,omitempty"`   // seconds
	Capacity  int64     `json:"capacity,omitempty"` // tokens
	FillRate  float64   `json:"fillRate,omitempty"` // tokens per second
}

const (
	// exactMax bounds every number and product: a float64, which is what a script
	// inside Redis computes with, holds all integers up to it.
	exactMax = 1 << 53
	// spanMax bounds windows and the time a bucket takes to fill, in microseconds:
	// 100 years. Sums of a few of them with an instant stay exact.
	spanMax = 100 * 365 * 24 * 3600 * second
	// second is a second in microseconds.
	second = 1_000_000
	// picoPerToken is how many parts of a token the finest fillRate adds in a
	// microsecond: a fillRate of n micro-tokens per second adds n of them.
	picoPerToken = 1_000_000_000_000
)

// Validate returns all [Faults] of the configuration, or nil. Besides what is
// missing or negative it refuses what cannot be held exactly; [Config.Rounded]
// makes that the nearest which can.
func (c Config) Validate() error {
	faults := c.signs()
	switch c.Algorithm {
	case Fixed, Sliding:
		faults = append(faults, c.missing(field{"limit", float64(c.Limit)}, field{"window", c.Window})...)
		if len(faults) == 0 {
			faults = c.windowFaults()
		}
	case Token:
		faults = append(faults, c.missing(field{"capacity", float64(c.Capacity)}, field{"fillRate", c.FillRate})...)
		if len(faults) == 0 {
			faults = c.tokenFaults()
		}
	default:
		faults = append(faults, Fault{"algorithm", "is missing; must be one of fixed, sliding, token"})
	}
	if len(faults) == 0 {
		return nil
	}
	return faults
}

// Merge returns c with what it leaves out taken from last, the values known so
// far.
func (c Config) Merge(last Config) Config {
	c.Algorithm = or(c.Algorithm, last.Algorithm)
	c.Limit = or(c.Limit, last.Limit)
	c.Window = or(c.Window, last.Window)
	c.Capacity = or(c.Capacity, last.Capacity)
	c.FillRate = or(c.FillRate, last.FillRate)
	return c
}

// Rounded returns c with window and fillRate at the nearest values that can be
// held exactly, for rates that were computed rather than chosen, such as 100/3
// per second. Other faults stay.
func (c Config) Rounded() Config {
	switch c.Algorithm {
	case Fixed:
		c.Window = math.Round(c.Window*second) / second
	case Sliding:
		c.Window = math.Round(c.Window*second) / second
		if window, ok := micro(c.Window); ok {
			unit := resolution(window)
			c.Window = float64((window+unit/2)/unit*unit) / second
		}
	case Token:
		c.FillRate = c.roundedRate()
	}
	return c
}

// roundedRate is the fillRate with as many decimals as capacity leaves room for.
func (c Config) roundedRate() float64 {
	for scale := float64(second); scale >= 1; scale /= 10 {
		rounded := math.Round(c.FillRate*scale) / scale
		rate, ok := micro(rounded)
		if ok && rate > 0 && c.Capacity <= capacityMax(rate) {
			return rounded
		}
	}
	return c.FillRate
}

// A field is one of the configuration's numbers.
type field struct {
	path  string
	value float64
}

// signs finds the fields that are negative or no numbers, needed or not.
func (c Config) signs() (faults Faults) {
	for _, f := range []field{{"limit", float64(c.Limit)}, {"window", c.Window}, {"capacity", float64(c.Capacity)}, {"fillRate", c.FillRate}} {
		if !(f.value >= 0) || math.IsInf(f.value, 0) {
			faults = append(faults, Fault{f.path, "must be greater than 0, is " + decimal(f.value)})
		}
	}
	return faults
}

// missing finds the fields that the algorithm needs and that are absent.
func (c Config) missing(fields ...field) (faults Faults) {
	for _, f := range fields {
		if f.value == 0 {
			faults = append(faults, Fault{f.path, fmt.Sprintf("is missing or 0; algorithm %v needs it, greater than 0", c.Algorithm)})
		}
	}
	return faults
}

// windowFaults finds what cannot be held exactly, of numbers greater than 0.
func (c Config) windowFaults() Faults {
	window, exact := micro(c.Window)
	switch {
	case c.Window > spanMax/second:
		return Faults{{"window", fmt.Sprintf("must be at most %d seconds (100 years), is %s",
			spanMax/second, decimal(c.Window))}}
	case !exact:
		return Faults{{"window", "must be whole microseconds (6 decimals), is " + decimal(c.Window)}}
	}
	unit := int64(1)
	if c.Algorithm == Sliding {
		unit = resolution(window)
	}
	if window%unit != 0 {
		return Faults{{"window", fmt.Sprintf("must be a multiple of %v when it is that long, is %s seconds",
			time.Duration(unit)*time.Microsecond, decimal(c.Window))}}
	}
	if limitMax := limitMax(c.Algorithm, window); c.Limit > limitMax {
		return Faults{{"limit", fmt.Sprintf("must be at most %d to be counted exactly in a window of %s seconds, is %d",
			limitMax, decimal(c.Window), c.Limit)}}
	}
	return nil
}

// tokenFaults finds what cannot be held exactly, of numbers greater than 0.
func (c Config) tokenFaults() Faults {
	rate, exact := micro(c.FillRate)
	switch {
	case c.FillRate > exactMax/second:
		return Faults{{"fillRate", fmt.Sprintf("must be at most %d per second, is %s", exactMax/second, decimal(c.FillRate))}}
	case !exact:
		return Faults{{"fillRate", "must have at most 6 decimals to be held exactly, is " + decimal(c.FillRate) + c.near()}}
	}
	if capacityMax := capacityMax(rate); c.Capacity > capacityMax {
		return Faults{{"capacity", fmt.Sprintf("must be at most %d to be counted exactly with a fillRate of %s, is %d%s",
			capacityMax, decimal(c.FillRate), c.Capacity, c.near())}}
	}
	if float64(c.Capacity)/float64(rate) > spanMax/second/second {
		return Faults{{"fillRate", fmt.Sprintf("must fill a capacity of %d within 100 years, is %s", c.Capacity, decimal(c.FillRate))}}
	}
	return nil
}

// near tells a rate near fillRate that could be held exactly, if there is one.
func (c Config) near() string {
	near := c.roundedRate()
	if near == c.FillRate {
		return ""
	}
	return "; a fillRate of " + decimal(near) + " could be"
}

// micro returns v in millionths, and whether that is v exactly: whether v is the
// float64 nearest to a decimal with at most six places.
func micro(v float64) (millionths int64, exact bool) {
	scaled := math.Round(v * second)
	if !(math.Abs(scaled) <= exactMax) {
		return 0, false
	}
	return int64(scaled), scaled/second == v
}

// decimal is v without an exponent.
func decimal(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// or is v, or otherwise when v is zero.
func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}
