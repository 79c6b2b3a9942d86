package backtest

import (
	"math"
	"testing"
	"time"

	"weir/advisor/forecast"
)

// steady forecasts the same band around the last value.
type steady struct{ last float64 }

func (s *steady) Observe(_ time.Time, _ time.Duration, rate float64) { s.last = rate }

func (s *steady) Ahead(time.Duration) forecast.Point {
	return forecast.Point{Q05: s.last - 1, Q50: s.last, Q80: s.last + .5, Q95: s.last + 1, Q99: s.last + 3}
}

func trace(rates ...float64) *Trace {
	return &Trace{Name: "t", Start: time.Unix(0, 0).UTC(), Step: time.Minute, Rates: rates}
}

// Scores of known forecasts: errors of the last value +1, -4, +2.
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
	if r.Forecasts[0][0].Q50 == r.Forecasts[0][0].Q50 {
		t.Error("there is a forecast before the first slot")
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

func (s *spy) Ahead(d time.Duration) forecast.Point {
	*s.asked = append(*s.asked, d)
	return s.steady.Ahead(d)
}

// Each stage of a cold start counts its own origins.
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

// clairvoyant forecasts the true value, or the last one.
type clairvoyant struct {
	rates []float64
	i     int
	sees  bool
}

func (c *clairvoyant) Observe(time.Time, time.Duration, float64) { c.i++ }

func (c *clairvoyant) Ahead(d time.Duration) forecast.Point {
	i := c.i - 1
	if c.sees {
		i = min(i+int(d/time.Minute), len(c.rates)-1)
	}
	y := c.rates[i]
	return forecast.Point{Q05: y, Q50: y, Q80: y, Q95: y, Q99: y}
}

func TestSpikes(t *testing.T) {
	rates := make([]float64, 400)
	for i := range rates {
		rates[i] = 50
		if i%100 > 90 && i%100 < 94 {
			rates[i] = 200
		}
	}
	for name, test := range map[string]struct {
		says Method
		want Spikes
	}{
		"who sees them":          {&clairvoyant{rates: rates, sees: true}, Spikes{4, 4, 10 * time.Minute, 4, 4, .03}},
		"who says them too late": {&clairvoyant{rates: rates}, Spikes{Rises: 4, Alarms: 4, InAlarm: .03}},
		"who is always in alarm": {always(1000), Spikes{Rises: 4, Alarms: 1, InAlarm: 1}},
	} {
		r, err := Replay(trace(rates...), test.says, 10*time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		s := r.Spikes(0, Span{0, 400})
		if math.Abs(s.InAlarm-test.want.InAlarm) > .01 {
			t.Errorf("%s: in alarm %.3f of the time, want %.3f", name, s.InAlarm, test.want.InAlarm)
		}
		if s.InAlarm = test.want.InAlarm; s != test.want {
			t.Errorf("%s: %+v, want %+v", name, s, test.want)
		}
	}
}

// always forecasts the same rate.
type always float64

func (a always) Observe(time.Time, time.Duration, float64) {}
func (a always) Ahead(time.Duration) forecast.Point {
	return forecast.Point{Q05: float64(a), Q50: float64(a), Q80: float64(a), Q95: float64(a), Q99: float64(a)}
}
