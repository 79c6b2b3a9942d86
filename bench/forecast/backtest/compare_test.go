package backtest

import (
	"math"
	"testing"
	"time"
)

// The baselines against values worked out by hand.
func TestBaselines(t *testing.T) {
	y := make([]float64, 24*7*2+10) // hours
	for i := range y {
		y[i] = float64(i)
	}
	y[3] = math.NaN()
	held := hold(y)
	if held[3] != 2 {
		t.Fatalf("a missing slot is %g, want 2, the one before", held[3])
	}
	at := func(name string, k, i int) float64 {
		for _, b := range Baselines() {
			if b.Name == name {
				return b.Forecast(held, time.Hour, k)[i]
			}
		}
		t.Fatalf("no baseline %s", name)
		return 0
	}
	for _, c := range []struct {
		name    string
		k, i    int
		want    float64
		unknown bool
	}{
		{"last", 3, 200, 200, false},
		{"ses_0.5", 1, 2, (2*2 + 1*1 + 0) / 4., false},
		{"naive_day", 2, 200, 178, false},
		{"naive_day", 2, 5, 0, true},
		{"naive_week", 1, 200, 33, false},
		{"profile_ratio", 2, 200, 178 * 200 / 176., false},
		{"profile_ratio", 2, 5, 0, true},
	} {
		got := at(c.name, c.k, c.i)
		if c.unknown != (got != got) || !c.unknown && math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s %d slots ahead of slot %d: %g, want %g", c.name, c.k, c.i, got, c.want)
		}
	}
	if got := at("holt_damped", 1, 300); got < 299 || got > 301 {
		t.Errorf("holt_damped on a line: %g, want between 299 and 301", got)
	}
}

func TestCompare(t *testing.T) {
	r, err := Replay(trace(4, 6, 8), &steady{}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	ref := &Reference{Series: "t", Step: 60, Horizons: []int{60}, Rows: []ReferenceRow{
		{Index: 0, Truth: []float64{6}, Forecast: map[string][]float64{"prophet": {-3}, "theta": {5}, "prophet_lo95": {6}}},
		{Index: 1, Truth: []float64{8}, Forecast: map[string][]float64{"prophet": {8}, "theta": {8}, "prophet_lo95": {8}}},
	}}
	list, err := r.Compare(ref)
	if err != nil {
		t.Fatal(err)
	}
	c := list[0]
	if c.Own.WAPE != 4./14 || c.Best().Name != "theta" || c.Best().WAPE != 1./14 || len(c.Others) != 2 {
		t.Errorf("%+v: a bound is no forecast, and a negative one is 0", c)
	}
	if p, ok := c.Other("prophet"); !ok || p.WAPE != 6./14 {
		t.Errorf("prophet: %+v", p)
	}
	s := Summarise(list, 1.05, "prophet")
	if s.Rows != 1 || s.Above != 1 || s.Better != 0 || s.BetterThan != 1 || math.Abs(s.Mean-4) > 1e-12 {
		t.Errorf("summary %+v", s)
	}
	if ratio := c.RMSERatio(); math.Abs(ratio-math.Sqrt(8)) > 1e-12 {
		t.Errorf("the ratio of the RMSEs is %g", ratio)
	}
	ref.Rows[0].Index = 7
	if _, err := r.Compare(ref); err == nil {
		t.Error("an origin outside the trace is no error")
	}
	ref.Horizons[0] = 120
	if _, err := r.Compare(ref); err == nil {
		t.Error("a horizon that the run does not have is no error")
	}
}
