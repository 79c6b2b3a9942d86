package limit

import (
	"errors"
	"time"
)

// WireParams are all the numbers of a limit, as integers, for passing a limit to another
// program.
type WireParams struct {
	Algorithm    Algorithm
	Permits      int64         // see [Limit.Permits]
	Burst        int64         // see [Limit.Burst]
	WindowOrRate int64         // see [Limit.WindowOrRate]
	Overshoot    int64         // see [Limit.Overshoot]
	Grace        time.Duration // see [Limit.Overshoot]; whole microseconds
}

// Params returns the numbers of the limit.
func (l *Limit) Params() WireParams {
	overshoot, grace := l.Overshoot()
	return WireParams{Algorithm: l.algorithm, Permits: l.permits, Burst: l.burst, WindowOrRate: l.WindowOrRate(),
		Overshoot: overshoot, Grace: grace}
}

// errNumbers is the error for numbers that no limit has, if there is no more specific
// one.
var errNumbers = errors.New("no limit has these numbers")

// Limit returns the limit that has these numbers. The error says why there is none.
func (n WireParams) Limit() (Limit, error) {
	l, err := n.hard()
	if err != nil {
		return Limit{}, err
	}
	grace := n.Grace.Microseconds()
	switch {
	case l.permits != n.Permits || l.burst != n.Burst || l.WindowOrRate() != n.WindowOrRate:
		return Limit{}, errNumbers
	case n.Overshoot == 0 && n.Grace == 0:
		return l, nil
	case n.Algorithm == Off || n.Overshoot < 1 || grace < 1 || grace > spanMax || n.Grace%time.Microsecond != 0,
		n.Overshoot > l.burstMax()-l.burst:
		return Limit{}, errNumbers
	}
	l.overshoot, l.grace = n.Overshoot, grace
	return l, nil
}

// hard returns the limit without its overshoot. Its numbers may differ from n.
func (n WireParams) hard() (Limit, error) {
	if n.WindowOrRate < 0 || n.WindowOrRate > exactMax {
		return Limit{}, errNumbers
	}
	c := Config{Algorithm: n.Algorithm, Limit: n.Permits, Window: float64(n.WindowOrRate) / second, Burst: n.Burst}
	switch n.Algorithm {
	case Fixed, Sliding:
		return newCounted(c)
	case Token, Leaky:
		return New(Config{Algorithm: n.Algorithm, Capacity: n.Permits, FillRate: float64(n.WindowOrRate) / second})
	case SlidingLog, GCRA, Off:
		return New(c)
	}
	return Limit{}, errNumbers
}
