package limittest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"weir/proxy/limit"
)

// A Step is one call at Now, microseconds since the epoch, under Limit.
type Step struct {
	Now   int64
	Limit *limit.Limit
	limit.Charge
}

func (s Step) String() string {
	overshoot, grace := s.Limit.Overshoot()
	return fmt.Sprintf("at %d: %+v of %+v, overshoot %d for %v", s.Now, s.Charge, s.Limit.Config(), overshoot, grace)
}

// An Answer is the result of a step.
type Answer struct {
	Granted  int64
	Decision limit.Decision
}

// Epoch is the earliest instant at which histories begin. It is the start of a window for
// each window that divides a day.
const Epoch = int64(1_768_780_800_000_000) // 2026-01-19 00:00 UTC

// Must returns the limit with a configuration, and panics if it is invalid.
func Must(c limit.Config) *limit.Limit {
	l, err := limit.New(c)
	if err != nil {
		panic(err)
	}
	return &l
}

// Soft returns the limit with a configuration and an overshoot, and panics if it is invalid.
func Soft(c limit.Config, overshoot, grace float64) *limit.Limit {
	l, err := Must(c).WithSoft(limit.Soft{Overshoot: overshoot, For: grace})
	if err != nil {
		panic(err)
	}
	return &l
}

// Limits returns hard and soft limits of all algorithms but off, in each resolution, small
// enough to be reached in short histories.
func Limits() []*limit.Limit {
	return append(hard(), soft()...)
}

func hard() []*limit.Limit {
	return []*limit.Limit{
		Must(limit.Config{Algorithm: limit.Fixed, Limit: 1, Window: 1}),
		Must(limit.Config{Algorithm: limit.Fixed, Limit: 7, Window: 10}),
		Must(limit.Config{Algorithm: limit.Fixed, Limit: 20, Window: 0.000003}),
		Must(limit.Config{Algorithm: limit.Sliding, Limit: 1, Window: 3}),
		Must(limit.Config{Algorithm: limit.Sliding, Limit: 7, Window: 10}),
		Must(limit.Config{Algorithm: limit.Sliding, Limit: 20, Window: 0.000007}),
		Must(limit.Config{Algorithm: limit.Sliding, Limit: 13, Window: 90}),
		Must(limit.Config{Algorithm: limit.Sliding, Limit: 17, Window: 2 * 24 * 3600}),
		Must(limit.Config{Algorithm: limit.Token, Capacity: 1, FillRate: 0.5}),
		Must(limit.Config{Algorithm: limit.Token, Capacity: 10, FillRate: 3}),
		Must(limit.Config{Algorithm: limit.Token, Capacity: 12, FillRate: 33.333333}),
		Must(limit.Config{Algorithm: limit.Token, Capacity: 5, FillRate: 0.000007}),
		Must(limit.Config{Algorithm: limit.Token, Capacity: 40, FillRate: 2_500_000}),
		Must(limit.Config{Algorithm: limit.SlidingLog, Limit: 1, Window: 3}),
		Must(limit.Config{Algorithm: limit.SlidingLog, Limit: 7, Window: 10}),
		Must(limit.Config{Algorithm: limit.SlidingLog, Limit: 14, Window: 0.000007}),
		Must(limit.Config{Algorithm: limit.SlidingLog, Limit: 30, Window: 100}),
		Must(limit.Config{Algorithm: limit.GCRA, Limit: 1, Window: 3}),
		Must(limit.Config{Algorithm: limit.GCRA, Limit: 7, Window: 10, Burst: 5}),
		Must(limit.Config{Algorithm: limit.GCRA, Limit: 20, Window: 0.000007, Burst: 9}),
		Must(limit.Config{Algorithm: limit.GCRA, Limit: 1, Window: 24 * 3600, Burst: 3}),
		Must(limit.Config{Algorithm: limit.Leaky, Capacity: 1, FillRate: 0.5}),
		Must(limit.Config{Algorithm: limit.Leaky, Capacity: 6, FillRate: 33.333333}),
		Must(limit.Config{Algorithm: limit.Leaky, Capacity: 5, FillRate: 0.000007}),
		Must(limit.Config{Algorithm: limit.Leaky, Capacity: 20, FillRate: 2_500_000}),
	}
}

func soft() []*limit.Limit {
	return []*limit.Limit{
		Soft(limit.Config{Algorithm: limit.Fixed, Limit: 7, Window: 10}, 0.3, 15),
		Soft(limit.Config{Algorithm: limit.Fixed, Limit: 2, Window: 1}, 0.5, 0.3),
		Soft(limit.Config{Algorithm: limit.Sliding, Limit: 7, Window: 10}, 0.4, 12),
		Soft(limit.Config{Algorithm: limit.Token, Capacity: 10, FillRate: 3}, 0.3, 2),
		Soft(limit.Config{Algorithm: limit.Token, Capacity: 4, FillRate: 33.333333}, 1, 0.01),
		Soft(limit.Config{Algorithm: limit.SlidingLog, Limit: 6, Window: 10}, 0.5, 7),
		Soft(limit.Config{Algorithm: limit.GCRA, Limit: 7, Window: 10, Burst: 5}, 0.6, 20),
		Soft(limit.Config{Algorithm: limit.Leaky, Capacity: 6, FillRate: 2}, 0.5, 3),
	}
}

// A walk generates random histories.
type walk struct {
	*rand.Rand
	now     int64
	latest  int64
	back    int64 // how far behind latest the clock may be: no further than a key takes to recover
	forward bool  // the clock never steps back
	debts   bool  // some asks have debt
}

// newWalk returns the walk of a seed for histories under some limits.
func newWalk(seed uint64, forward bool, limits ...*limit.Limit) *walk {
	r := rand.New(rand.NewPCG(seed, 1))
	w := &walk{Rand: r, now: Epoch + r.Int64N(1e12), back: math.MaxInt64, forward: forward}
	for _, l := range limits {
		w.back = min(w.back, turnover(l))
	}
	return w
}

// history returns a random history under one limit.
func (w *walk) history(l *limit.Limit, steps int) []Step {
	var h []Step
	for range steps {
		h = append(h, w.step(l))
	}
	return h
}

// step moves the clock and returns a call, often near an instant or a cost at which the
// limit's decision changes.
func (w *walk) step(l *limit.Limit) Step {
	span := turnover(l)
	switch w.IntN(8) {
	case 0, 1, 2:
	case 3:
		w.now++
	case 4:
		w.now += w.Int64N(span/l.Burst() + 2)
	case 5:
		w.now += w.Int64N(span + 1)
	case 6:
		w.now += span - w.now%span // the beginning of a window
	case 7:
		if w.forward {
			w.now += w.Int64N(3 * span)
		} else {
			w.now = max(w.latest-w.back, w.now-w.Int64N(2*span))
		}
	}
	w.latest = max(w.latest, w.now)
	s := Step{Now: w.now, Limit: l, Charge: RandomAsk(w.Rand, l)}
	if w.debts && w.IntN(3) == 0 {
		s.Debt = l.Debt(w.Int64N(4))
	}
	return s
}

// RandomAsk returns a random ask, mostly with a small cost and without conditions.
func RandomAsk(r *rand.Rand, l *limit.Limit) limit.Charge {
	charge := limit.Charge{Cost: r.Int64N(min(l.Burst(), 3)+1) + r.Int64N(2), N: 1 + r.Int64N(4)}
	if r.IntN(8) == 0 {
		overshoot, _ := l.Overshoot()
		charge.Cost = r.Int64N(l.Burst() + overshoot + 2)
	}
	if r.IntN(4) == 0 {
		charge.Reserve = l.Reserve(r.Int64N(600))
	}
	if r.IntN(4) == 0 {
		charge.MaxDelay = time.Duration(r.Int64N(turnover(l)+1)) * time.Microsecond
	}
	return charge
}

// turnover returns the time in which a limit admits about as much as it admits at once, in
// microseconds.
func turnover(l *limit.Limit) int64 {
	switch l.Algorithm() {
	case limit.Token, limit.GCRA:
		return int64(float64(l.Burst())/l.Rate()*1e6) + 1
	case limit.Leaky:
		return int64(float64(l.Burst()+1)/l.Rate()*1e6) + 1
	}
	return l.Window().Microseconds()
}
