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
func (p WireParams) Limit() (Limit, error) {
	l, err := p.hard()
	if err != nil {
		return Limit{}, err
	}
	grace := p.Grace.Microseconds()
	switch {
	case l.permits != p.Permits || l.burst != p.Burst || l.WindowOrRate() != p.WindowOrRate:
		return Limit{}, errNumbers
	case p.Overshoot == 0 && p.Grace == 0:
		return l, nil
	case p.Algorithm == Off || p.Overshoot < 1 || grace < 1 || grace > spanMax || p.Grace%time.Microsecond != 0,
		p.Overshoot > l.burstMax()-l.burst:
		return Limit{}, errNumbers
	}
	l.overshoot, l.grace = p.Overshoot, grace
	return l, nil
}

// hard returns the limit without its overshoot. Its numbers may differ from n.
func (p WireParams) hard() (Limit, error) {
	if p.WindowOrRate < 0 || p.WindowOrRate > exactMax {
		return Limit{}, errNumbers
	}
	c := Config{Algorithm: p.Algorithm, Limit: p.Permits, Window: float64(p.WindowOrRate) / second, Burst: p.Burst}
	switch p.Algorithm {
	case Fixed, Sliding:
		return newCounted(c)
	case Token, Leaky:
		return New(Config{Algorithm: p.Algorithm, Capacity: p.Permits, FillRate: float64(p.WindowOrRate) / second})
	case SlidingLog, GCRA, Off:
		return New(c)
	}
	return Limit{}, errNumbers
}
