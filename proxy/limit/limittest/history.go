package limittest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"weir/proxy/limit"
)

// A Step is one call: N asks of Cost permits each at Now, microseconds since the
// epoch, under Limit.
type Step struct {
	Now     int64
	Limit   *limit.Limit
	Cost, N int64
}

func (s Step) String() string {
	c := s.Limit.Config()
	return fmt.Sprintf("at %d: %d × cost %d of %v", s.Now, s.N, s.Cost, c)
}

// An Answer is what came of a step.
type Answer struct {
	Granted  int64
	Decision limit.Decision
}

// Epoch is about where histories begin; it is the start of a window for every
// window that divides a day.
const Epoch = int64(1_768_780_800_000_000) // 2026-01-19 00:00 UTC

// Must returns the limit that c describes, for tests.
func Must(c limit.Config) *limit.Limit {
	l, err := limit.New(c)
	if err != nil {
		panic(err)
	}
	return &l
}

// Limits returns limits of all algorithms, small enough that short histories
// reach them, in each resolution.
func Limits() []*limit.Limit {
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
	}
}

// A walk makes random histories.
type walk struct {
	*rand.Rand
	now     int64
	forward bool // the clock never steps back
}

func newWalk(seed uint64, forward bool) *walk {
	r := rand.New(rand.NewPCG(seed, 1))
	return &walk{Rand: r, now: Epoch + r.Int64N(1e12), forward: forward}
}

// history is a random history of one limit.
func (w *walk) history(l *limit.Limit, steps int) []Step {
	var h []Step
	for range steps {
		h = append(h, w.step(l))
	}
	return h
}

// step moves the clock and makes a call that the limit has reason to think about.
func (w *walk) step(l *limit.Limit) Step {
	span := turnover(l)
	switch w.IntN(8) {
	case 0, 1, 2:
	case 3:
		w.now++
	case 4:
		w.now += w.Int64N(span/l.Permits() + 2)
	case 5:
		w.now += w.Int64N(span + 1)
	case 6:
		w.now += span - w.now%span // where windows begin
	case 7:
		if w.forward {
			w.now += w.Int64N(3 * span)
		} else {
			w.now -= w.Int64N(2 * span)
		}
	}
	cost := w.Int64N(min(l.Permits(), 3)+1) + w.Int64N(2)
	if w.IntN(8) == 0 {
		cost = w.Int64N(l.Permits() + 2)
	}
	return Step{Now: w.now, Limit: l, Cost: cost, N: 1 + w.Int64N(4)}
}

// turnover is the time in which a limit admits about its permits, in
// microseconds.
func turnover(l *limit.Limit) int64 {
	if l.Algorithm() == limit.Token {
		return int64(float64(l.Permits())/l.Rate()*1e6) + 1
	}
	return int64(l.Window() / time.Microsecond)
}
