package policy

import "math"

// The algorithms, in the words of the limit configuration.
const (
	Fixed      = "fixed"
	Sliding    = "sliding"
	Token      = "token"
	SlidingLog = "sliding_log"
	GCRA       = "gcra"
	Leaky      = "leaky"
	Off        = "off"
)

// A Limit is a limit configuration in its JSON form. The fields that the
// algorithm does not use may be zero.
type Limit struct {
	Algorithm string  `json:"algorithm"`
	Limit     float64 `json:"limit,omitempty"`    // permits per window, a whole number
	Window    float64 `json:"window,omitempty"`   // seconds
	Capacity  float64 `json:"capacity,omitempty"` // tokens, or places in a queue; a whole number
	FillRate  float64 `json:"fillRate,omitempty"` // permits per second
	Burst     float64 `json:"burst,omitempty"`    // gcra: how many may come at once; 0 is 1
}

// Rate is how many permits per second l lets through in the long run: +Inf when
// it is off, 0 when it is not valid.
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

// numberMax bounds every number of a snapshot and of a limit: far above all that
// is real, far below where sums of squares overflow.
const numberMax = 1e12

func usable(v float64) bool { return v > 1e-6 && v < numberMax }

// valid says whether l is a limit that the policy can go on from. Fields that the
// algorithm does not use must be numbers too, since they are handed on.
func (l Limit) valid() bool {
	for _, v := range [...]float64{l.Limit, l.Window, l.Capacity, l.FillRate, l.Burst} {
		if !within(v, numberMax) {
			return false
		}
	}
	return l.Algorithm == Off || usable(l.Rate())
}

// windows are the lengths, in seconds, that a recommendation chooses from. A
// changed window makes a limiter count afresh, so there are few of them.
var windows = [...]float64{1, 2, 5, 10, 20, 30, 60}

// cut returns the limit of algorithm with the sustained rate and the burst. What
// is in force keeps its window or capacity where that is about as good.
func (s Settings) cut(algorithm string, rate, burst float64, inForce Limit) Limit {
	l := inForce
	l.Algorithm = algorithm
	switch algorithm {
	case Token:
		l.FillRate = s.fine(rate, inForce.Rate())
		l.Capacity = about(math.Max(1, math.Round(burst)), inForce.Capacity)
	case Leaky:
		l.FillRate = s.fine(rate, inForce.Rate())
	case GCRA:
		l.Limit, l.Window = s.whole(rate, gcraWindow(rate), inForce.Rate())
	case SlidingLog:
		l.Limit, l.Window = s.whole(rate, window(rate, inForce.Window, inForce.Window), inForce.Rate())
	case Sliding:
		l.Limit, l.Window = s.whole(rate, window(rate, burst/rate, inForce.Window), inForce.Rate())
	default:
		l.Limit, l.Window = s.whole(rate, window(rate, burst/(2*rate), inForce.Window), inForce.Rate())
	}
	return l
}

// permitsMin is how many permits a window holds at least, so that rounding to
// whole ones moves the rate by little.
const permitsMin = 10

// window returns the longest of windows that lets no more through at once than
// the wanted seconds' worth, or the shortest in which permitsMin fit. The one in
// force stays when it is no worse.
func window(rate, wanted, inForce float64) float64 {
	low := max(windows[0], permitsMin/rate)
	best := 0.0
	for _, w := range windows {
		if w >= low && (best == 0 || w <= wanted) {
			best = w
		}
	}
	if best == 0 {
		best = windows[len(windows)-1]
	}
	if inForce >= low && inForce <= max(best, wanted) {
		return inForce
	}
	return best
}

// gcraWindow is the window in which whole permits express the rate to 1 %; only
// their ratio means anything.
func gcraWindow(rate float64) float64 {
	for _, w := range windows {
		if rate*w >= 100 {
			return w
		}
	}
	return windows[len(windows)-1]
}

// whole returns the whole number of permits in window for rate, rounded towards
// the rate from, so that a step stays in its bounds. Where no whole number lies
// within the bounds, or none between the two rates, the window gives way.
func (s Settings) whole(rate, window, from float64) (permits, seconds float64) {
	permits = math.Round(rate * window)
	if at := permits / window; at > rate && rate > from {
		permits = math.Floor(rate * window)
	} else if at < rate && rate < from {
		permits = math.Ceil(rate * window)
	}
	at := permits / window
	between := at >= min(rate, from) && at <= max(rate, from) || math.Abs(at/rate-1) < 0.01
	if permits < 1 || !between || at < s.LimitMin || at > s.LimitMax {
		permits = max(1, math.Round(rate*max(window, permitsMin/rate)))
		window = permits / rate
	}
	return permits, window
}

// fine rounds a rate to four digits, towards the rate from and inside the bounds.
func (s Settings) fine(rate, from float64) float64 {
	scale := math.Pow(10, 3-math.Floor(math.Log10(rate)))
	round := math.Ceil
	if rate > from {
		round = math.Floor
	}
	return min(max(round(rate*scale)/scale, s.LimitMin), s.LimitMax)
}

// about returns what is in force when it is within a fifth of what is wanted.
func about(wanted, inForce float64) float64 {
	if inForce >= 1 && inForce == math.Round(inForce) && math.Abs(inForce-wanted) <= wanted/5 {
		return inForce
	}
	return wanted
}
