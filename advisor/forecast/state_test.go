package forecast

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"weir/advisor/codec"
	"weir/advisor/series"
	"weir/internal/test/testkit"
)

// copied returns a copy of a history.
func copied(t *testing.T, h *series.History) *series.History {
	t.Helper()
	return testkit.Must(series.Decode(h.Encode()))(t)
}

// noisy returns a rate with a daily course, bursts and noise.
func noisy(r *rand.Rand) func(i int) float64 {
	return func(i int) float64 {
		y := 60 + 50*math.Sin(float64(i)/46) + 8*r.NormFloat64()
		if r.IntN(40) == 0 {
			y *= 3
		}
		return max(0, y)
	}
}

// A restored forecaster makes exactly the same forecasts from then on, also after changes of
// the width of slots; so does one that observed the same.
func TestRestoredSaysTheSame(t *testing.T) {
	rate := func() func(i int) float64 { return noisy(rand.New(rand.NewPCG(10, 10))) }
	for _, n := range []int{0, 1, 5, 400} {
		f, twin := New(Settings{}), New(Settings{})
		at := feed(f, epoch, 5*time.Minute, n, rate())
		feed(twin, epoch, 5*time.Minute, n, rate())
		g, err := Restore(Settings{}, copied(t, f.hist), f.Encode())
		if err != nil {
			t.Fatalf("after %d slots: %v", n, err)
		}
		for i, y := range []float64{5, 80, 80, 2, 90, 91, 92, 3, 4, 400, 80, 81, 0, 0} {
			step := 5 * time.Minute
			if i > 7 {
				step = time.Minute
			}
			at = at.Add(step)
			for _, one := range []*Forecaster{f, g, twin} {
				one.Observe(at, step, y)
			}
			restored, told := g.Outlook(time.Hour, 4*time.Minute), twin.Outlook(time.Hour, 4*time.Minute)
			for j, p := range f.Outlook(time.Hour, 4*time.Minute) {
				if p != restored[j] {
					t.Fatalf("after %d and %d slots: %+v, restored %+v", n, i, p, restored[j])
				}
				if p != told[j] {
					t.Fatalf("after %d and %d slots: %+v, the twin %+v", n, i, p, told[j])
				}
			}
		}
		if string(f.Encode()) != string(g.Encode()) {
			t.Errorf("after %d slots: the states differ", n)
		}
	}
}

// Any change of the bytes is an error.
func TestStateRefusals(t *testing.T) {
	f := New(Settings{})
	feed(f, epoch, time.Minute, 60, func(i int) float64 { return float64(i) })
	good := f.Encode()
	restore := func(b []byte) error {
		_, err := Restore(Settings{}, series.New(), b)
		return err
	}
	for _, at := range []int{0, len(stateWord), len(stateWord) + 2, len(good) / 3, len(good) - 2} {
		bad := append([]byte(nil), good...)
		bad[at]++
		if err := restore(bad); !errors.Is(err, codec.ErrMalformed) {
			t.Errorf("byte %d is wrong: %v", at, err)
		}
	}
	old := append([]byte(nil), good...)
	old[len(stateWord)]--
	if err := restore(old); !errors.Is(err, codec.ErrMalformed) {
		t.Errorf("the state of the version before: %v", err)
	}
	for _, n := range []int{0, 5, len(good) / 2, len(good) - 1} {
		if err := restore(good[:n]); !errors.Is(err, codec.ErrMalformed) {
			t.Errorf("%d bytes of %d: %v", n, len(good), err)
		}
	}
}

// The state is bounded for slots of any width.
func TestStateSize(t *testing.T) {
	for _, step := range []time.Duration{time.Second, time.Minute, time.Hour} {
		f := New(Settings{})
		feed(f, epoch, step, 250, func(i int) float64 { return float64(i % 5) })
		learnt := 0
		for _, k := range f.eng.classes {
			k.pending = k.pending[:cap(k.pending)] // as full as possible
		}
		learnt = len(f.Encode())
		if learnt > 2<<20 {
			t.Errorf("step %s: %d bytes besides the history", step, learnt)
		}
	}
}
