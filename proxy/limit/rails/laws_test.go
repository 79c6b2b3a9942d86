package rails_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"weir/proxy/limit"
	"weir/proxy/limit/rails"
)

// A walk puts in force whatever the guard lets through, and holds each step
// against the laws.
type walk struct {
	t     testing.TB
	rails rails.Rails
	now   time.Time
	at    rails.LimitInForce
	steps int // changes
}

// advise is one recommendation, after a while.
func (w *walk) advise(after time.Duration, wanted limit.Config) {
	w.t.Helper()
	w.now = w.now.Add(after)
	v, err := w.rails.Judge(w.now, w.at, wanted)
	if err != nil || v.Unchanged {
		if err != nil && v.Config != (limit.Config{}) {
			w.t.Errorf("%+v: refused with %v, and to be put in force: %+v", wanted, err, v.Config)
		}
		return
	}
	old, err := limit.New(w.at.Config)
	if err != nil {
		w.t.Fatalf("in force: %v", err)
	}
	next, err := limit.New(v.Config)
	if err != nil {
		w.t.Fatalf("from %+v, %+v with %+v: %+v is invalid: %v", w.at.Config, wanted, w.rails, v.Config, err)
	}
	w.steps++
	rate, from := next.Rate(), min(max(old.Rate(), w.rails.Min), w.rails.Max)
	const slack = 1 + 1e-9
	switch {
	case !(rate >= w.rails.Min && rate <= w.rails.Max) || math.IsInf(rate, 0):
		w.t.Errorf("%+v: a rate of %v is not within %v … %v", wanted, rate, w.rails.Min, w.rails.Max)
	case rate > from*w.rails.Step*slack || rate < from/w.rails.Step/slack:
		w.t.Errorf("%+v: from %v to %v is more than a factor of %v", wanted, from, rate, w.rails.Step)
	case v.To != rate:
		w.t.Errorf("%+v: said to have a rate of %v, has %v", wanted, v.To, rate)
	case next.Algorithm() != old.Algorithm() && w.now.Sub(w.at.Switched) < w.rails.Dwell:
		w.t.Errorf("%+v: from %v to %v after %v", wanted, old.Algorithm(), next.Algorithm(), w.now.Sub(w.at.Switched))
	}
	before := 0.0
	if old.Algorithm() != limit.Off {
		before = float64(old.Burst()) / old.Rate()
	}
	if most := max(60*rate, 10, before*rate) + 1; float64(next.Burst()) > most*slack {
		w.t.Errorf("%+v: from %+v to %+v: %d may pass at once, want at most %v", wanted, w.at.Config, v.Config,
			next.Burst(), most)
	}
	if next.Algorithm() != old.Algorithm() {
		w.at.Switched = w.now
	}
	w.at.Config = v.Config
}

// wild draws a number of any size, now and then one that is none.
func wild(rng *rand.Rand) float64 {
	switch rng.IntN(60) {
	case 0:
		return math.NaN()
	case 1:
		return math.Inf(1 - 2*rng.IntN(2))
	case 2:
		return -math.Exp(20 * rng.NormFloat64())
	case 3:
		return 0
	}
	return math.Exp(6 * rng.NormFloat64())
}

// Whatever is recommended, and in whatever order.
func TestLaws(t *testing.T) {
	steps := 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 17))
		low := math.Exp(3 * rng.NormFloat64())
		w := &walk{t: t, now: epoch, rails: rails.Rails{Min: low, Max: low * math.Exp(8*rng.Float64()),
			Step:  1 + 5*rng.Float64()*rng.Float64(),
			Dwell: time.Duration(rng.IntN(10)) * time.Minute}}
		w.at = rails.LimitInForce{Config: limit.Config{Algorithm: limit.Fixed, Limit: 100, Window: 1}, Switched: epoch}
		if rng.IntN(10) == 0 {
			w.at.Config = limit.Config{Algorithm: limit.Off}
		}
		for range 200 {
			w.advise(time.Duration(rng.IntN(120))*time.Second, limit.Config{Algorithm: limit.Algorithm(rng.IntN(9)),
				Limit: int64(wild(rng)), Window: wild(rng), Capacity: int64(wild(rng)), FillRate: wild(rng),
				Burst: int64(wild(rng))})
		}
		steps += w.steps
	}
	if steps < 10_000 {
		t.Errorf("only %d recommendations led to a change: the laws were hardly asked", steps)
	}
}

func FuzzJudge(f *testing.F) {
	f.Add(5.0, 100_000.0, 4.0, byte(1), int64(100), 1.0, byte(3), int64(200), 50.0, int64(1), int64(60))
	f.Add(0.001, 0.002, 1.0, byte(3), int64(7), 0.0015, byte(5), int64(1), 1e-6, int64(1<<52), int64(0))
	f.Add(5.0, 5.0, 1.0, byte(7), int64(1), 1.0, byte(2), int64(1)<<60, 1e300, int64(-1), int64(1e9))
	f.Fuzz(func(t *testing.T, low, high, step float64, from byte, permits int64, seconds float64, to byte, many int64,
		number float64, burst, after int64) {
		r := rails.Rails{Min: low, Max: high, Step: step, Dwell: time.Minute}
		if !(low > 0 && high >= low && high <= 1e9 && step >= 1 && step <= 1e6) {
			return
		}
		inForce := limit.Config{Algorithm: limit.Algorithm(from), Limit: permits, Window: seconds, Capacity: permits,
			FillRate: seconds, Burst: 1}
		if inForce.Validate() != nil {
			return
		}
		w := &walk{t: t, rails: r, now: epoch, at: rails.LimitInForce{Config: inForce, Switched: epoch}}
		for range 3 { // the second time from within the bounds
			w.advise(time.Duration(min(max(after, 0), 1e6))*time.Second,
				limit.Config{Algorithm: limit.Algorithm(to), Limit: many, Window: number, Capacity: many, FillRate: number,
					Burst: burst})
		}
	})
}
