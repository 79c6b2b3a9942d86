package policy

import "math"

// The algorithms, as in the limit configuration.
const (
	Fixed      = "fixed"
	Sliding    = "sliding"
	Token      = "token"
	SlidingLog = "sliding_log"
	GCRA       = "gcra"
	Leaky      = "leaky"
	Off        = "off"
)

// A Limit is a limit configuration in its JSON form. Fields that the algorithm does not
// use may be zero.
type Limit struct {
	Algorithm string  `json:"algorithm"`
	Limit     float64 `json:"limit,omitempty"`    // permits per window, a whole number
	Window    float64 `json:"window,omitempty"`   // seconds
	Capacity  float64 `json:"capacity,omitempty"` // tokens, or places in a queue; a whole number
	FillRate  float64 `json:"fillRate,omitempty"` // permits per second
	Burst     float64 `json:"burst,omitempty"`    // gcra: how many may pass at once; 0 is 1
}

// A LimitField is one of a limit's numbers, with its JSON name.
type LimitField struct {
	Name   string
	Value  float64
	Needed bool // required by the algorithm, greater than 0
}

// Numbers returns all numbers.
func (l Limit) Numbers() [5]LimitField {
	window := l.Algorithm == Fixed || l.Algorithm == Sliding || l.Algorithm == SlidingLog || l.Algorithm == GCRA
	bucket := l.Algorithm == Token || l.Algorithm == Leaky
	return [...]LimitField{{"limit", l.Limit, window}, {"window", l.Window, window}, {"capacity", l.Capacity, bucket},
		{"fillRate", l.FillRate, bucket}, {"burst", l.Burst, false}}
}

// Rate returns how many permits per second l admits in the long run: +Inf if it is off, 0
// if it is invalid.
func (l Limit) Rate() float64 {
	switch l.Algorithm {
	case Fixed, Sliding, SlidingLog, GCRA:
		if usable(l.Limit) && usable(l.Window) {
			return l.Limit / l.Window
		}
	case Token, Leaky:
		if usable(l.Capacity) && usable(l.FillRate) {
			return l.FillRate
		}
	case Off:
		return math.Inf(1)
	}
	return 0
}

const (
	numberMax  = 1e12 // of a snapshot or a limit: far above real values, far below where squares overflow
	permitsMin = 10   // least permits in a window that is changed, so that rounding changes the rate little
)

func usable(v float64) bool { return v > 1e-6 && v < numberMax }

// valid reports whether the policy can start from l. Fields that the algorithm does not
// use must be valid numbers too, since they are passed on.
func (l Limit) valid() bool {
	for _, n := range l.Numbers() {
		if !within(n.Value, numberMax) {
			return false
		}
	}
	return l.Algorithm == Off || usable(l.Rate())
}

// scaled returns l with another sustained rate, rounded towards the one before, so that a
// step stays in its bounds. Its burst scales with the rate. Windows keep their length,
// unless no whole number of permits lies between the two rates and within the bounds.
func (s Settings) scaled(l Limit, rate float64) Limit {
	before := l.Rate()
	switch l.Algorithm {
	case Token, Leaky: // to four digits
		if l.Algorithm == Token {
			l.Capacity = min(max(1, math.Round(l.Capacity*rate/before)), numberMax)
		}
		scale := math.Pow(10, 3-math.Floor(math.Log10(rate)))
		l.FillRate = min(max(towards(before*scale, rate*scale)/scale, s.LimitMin), s.LimitMax)
	default:
		if l.Algorithm == GCRA {
			l.Burst = min(math.Round(l.Burst*rate/before), numberMax)
		}
		l.Limit = towards(before*l.Window, rate*l.Window)
		if at := l.Limit / l.Window; l.Limit < 1 || (at-before)*(rate-before) < 0 || at < s.LimitMin || at > s.LimitMax {
			l.Limit = max(1, math.Round(rate*max(l.Window, permitsMin/rate)))
			l.Window = l.Limit / rate
		}
	}
	return l
}

// towards rounds v to a whole number towards from.
func towards(from, v float64) float64 {
	if v > from {
		return math.Floor(v)
	}
	return math.Ceil(v)
}
