package backtest

import (
	"math"
	"testing"
	"time"
)

// steady is a method that always says the same band around the last value.
type steady struct{ last float64 }

func (s *steady) Observe(_ time.Time, _ time.Duration, rate float64) { s.last = rate }

func (s *steady) Ahead(time.Duration) Said {
	return Said{s.last - 1, s.last, s.last + .5, s.last + 1, s.last + 3}
}

func trace(rates ...float64) *Trace {
	return &Trace{Name: "t", Start: time.Unix(0, 0).UTC(), Step: time.Minute, Rates: rates}
}

// Scores of forecasts known by heart: errors of the last value +1, -4, +2.
func TestScore(t *testing.T) {
	r, err := Replay(trace(5, 6, 2, 4), &steady{}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	s := r.Score(0, Span{0, 4})
	near := func(name string, got, want float64) {
		if math.Abs(got-want) > 1e-12 {
			t.Errorf("%s is %g, want %g", name, got, want)
		}
	}
	near("N", float64(s.N), 3)
	near("WAPE", s.WAPE, 7./12)
	near("RMSE", s.RMSE, math.Sqrt(21./3))
	near("MASE", s.MASE, 1)
	near("share within", s.Within, 1./3) // +1 lies on the edge, and counts
	near("below q50", s.Below[1], 1./3)
	near("below q95", s.Below[3], 2./3)
	near("below q99", s.Below[4], 1)
	near("width", s.Width, 6./12)
	near("pinball of the median", s.Pinball[1], 3.5/12)
	near("pinball of q95", s.Pinball[3], (.05*0+.05*5+.95*1)/12)
	near("interval score", s.Interval, (3*2+20*(0+3+1))/7.)
}

// What was not recorded is neither an origin nor a target, and the forecast for after
// it counts from the newest that was.
func TestReplayGaps(t *testing.T) {
	nan := math.NaN()
	seen := []time.Duration{}
	m := &spy{&steady{}, &seen}
	r, err := Replay(trace(nan, 5, nan, nan, 9), m, 2*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if r.Said[0][0].Q50 == r.Said[0][0].Q50 {
		t.Error("something was said before anything was known")
	}
	want := []time.Duration{2 * time.Minute, 3 * time.Minute, 4 * time.Minute, 2 * time.Minute}
	for i, d := range want {
		if seen[i] != d {
			t.Fatalf("asked for %v, want %v", seen, want)
		}
	}
	if s := r.Score(0, Span{0, 5}); s.N != 0 {
		t.Errorf("%d forecasts were scored, and none has both ends", s.N)
	}
	if _, err := Replay(trace(1), m, 90*time.Second); err == nil {
		t.Error("a horizon between slots is no error")
	}
}

type spy struct {
	*steady
	asked *[]time.Duration
}

func (s *spy) Ahead(d time.Duration) Said {
	*s.asked = append(*s.asked, d)
	return s.steady.Ahead(d)
}

// Every stage of a cold start counts its own origins.
func TestColdStart(t *testing.T) {
	rates := make([]float64, 600)
	for i := range rates {
		rates[i] = float64(i % 3)
	}
	r, err := Replay(trace(rates...), &steady{}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	var n []int
	for _, s := range r.ColdStart(0) {
		n = append(n, s.Score.N)
	}
	if len(n) != 4 || n[0] != 5 || n[1] != 25 || n[2] != 330 || n[3] != 239 {
		t.Errorf("stages of %v forecasts, want 5 25 330 239", n)
	}
}

// clairvoyant says what will be, or what was.
type clairvoyant struct {
	rates []float64
	i     int
	sees  bool
}

func (c *clairvoyant) Observe(time.Time, time.Duration, float64) { c.i++ }

func (c *clairvoyant) Ahead(d time.Duration) Said {
	i := c.i - 1
	if c.sees {
		i = min(i+int(d/time.Minute), len(c.rates)-1)
	}
	y := c.rates[i]
	return Said{y, y, y, y, y}
}

func TestSpikes(t *testing.T) {
	rates := make([]float64, 400)
	for i := range rates {
		rates[i] = 50
		if i%100 > 90 && i%100 < 94 {
			rates[i] = 200
		}
	}
	for _, sees := range []bool{true, false} {
		r, err := Replay(trace(rates...), &clairvoyant{rates: rates, sees: sees}, 10*time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		s := r.Spikes(0, Span{0, 400}, true)
		want := Spikes{Rises: 4}
		if sees {
			want.Announced = 4
		}
		if s.Rises != want.Rises || s.Announced != want.Announced || (s.FalseAlarms == 0) != sees {
			t.Errorf("sees %v: %+v, want %+v", sees, s, want)
		}
	}
}
