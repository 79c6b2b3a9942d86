package policy

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"
)

var rails = Settings{LimitMin: 5, LimitMax: 5000}

func with(hint float64) Settings {
	s := rails
	s.CapacityHint = hint
	return s
}

// near fails unless the rate in force is between low and high times the capacity.
func (w *world) near(t *testing.T, name string, low, high float64) {
	t.Helper()
	if x := w.limit.Rate() / w.capacity(w.now); x < low || x > high {
		t.Errorf("%s: the limit is %.2f of the capacity, want %.2f to %.2f", name, x, low, high)
	}
}

func TestFindsTheCapacity(t *testing.T) {
	for _, c := range []struct {
		name  string
		hint  float64
		start float64
	}{
		{"known, from below", 160, 60},
		{"known, from above", 160, 400},
		{"hint half of it", 80, 80},
		{"hint twice as much", 320, 320},
		{"unknown, from below", 0, 40},
		{"unknown, from above", 0, 300},
	} {
		for _, width := range []float64{1, 8, 64} {
			w := steady(160, 320)
			w.width = width
			w.limit.FillRate = c.start
			set := with(c.hint)
			if width == 1 { // is slower already at half its load: the SLO must be configured
				set.SLO = time.Duration(3 * worldBase * float64(time.Second))
			}
			p := New(set)
			w.run(p, 40, nil)
			knee := kneeOf(width)
			w.near(t, fmt.Sprint(c.name, ", width ", width), 0.7*knee, 1.02*knee)
			w.reset()
			w.run(p, 60, nil)
			if share := w.good / (w.capacity(0) * 60 * w.dt * knee); share < 0.7 {
				t.Errorf("%s, width %v: %.0f %% of what could have been answered well", c.name, width, 100*share)
			}
		}
	}
}

// kneeOf is the load at which the p95 of a world is three times its base.
func kneeOf(width float64) float64 {
	for u := 0.3; u < 1; u += 0.001 {
		if 1+math.Pow(u, math.Sqrt(2*(width+1))-1)/(width*(1-u)) >= 3 {
			return u
		}
	}
	return 1
}

func TestProbesOnlyAsFarAsDemandNeeds(t *testing.T) {
	w := steady(1000, 120)
	w.limit.FillRate = 50
	w.run(New(rails), 100, nil)
	if r := w.limit.Rate(); r < 120 || r > 160 {
		t.Errorf("with a demand of 120/s the limit went to %.0f/s", r)
	}
}

func TestUnusedHeadroomChangesNothing(t *testing.T) {
	w := steady(1000, 10)
	w.limit.FillRate = 500
	p := New(rails)
	w.run(p, 200, func(s Snapshot, r Recommendation) {
		if r.Limit != s.Limit {
			t.Fatalf("at a demand of 10/s: %v: %s", r.Limit, r.Reason)
		}
	})
}

func TestDoesNotOscillate(t *testing.T) {
	w := steady(160, 320)
	p := New(with(160))
	w.run(p, 40, nil)
	low, high := math.Inf(1), 0.0
	w.run(p, 200, func(_ Snapshot, r Recommendation) {
		low, high = min(low, r.Rate()), max(high, r.Rate())
	})
	if high > 1.2*low {
		t.Errorf("at a steady overload the limit moves between %.0f and %.0f/s", low, high)
	}
}

func TestRecoversFromADrop(t *testing.T) {
	w := steady(160, 320)
	p := New(with(160))
	w.run(p, 40, nil)
	w.capacity = from(w.now, 160, 96)
	w.run(p, 3, nil)
	w.near(t, "three snapshots after the drop", 0.3, 1)
	w.run(p, 8, nil)
	w.reset()
	w.run(p, 12, nil)
	if share := w.good / (96 * 12 * w.dt); share < 0.7 {
		t.Errorf("after the drop: %.0f %% of what could have been answered", 100*share)
	}
	w.capacity = func(float64) float64 { return 160 }
	w.run(p, 20, nil)
	w.near(t, "when the capacity is back", 0.85, 1)
}

func TestFollowsAStepUp(t *testing.T) {
	w := steady(160, 600)
	p := New(with(160))
	w.run(p, 40, nil)
	w.capacity = func(float64) float64 { return 320 }
	w.run(p, 24, nil)
	w.near(t, "twelve minutes after twice as much came", 0.8, 1)
}

func TestFollowsADrift(t *testing.T) {
	w := steady(160, 400)
	p := New(with(160))
	w.run(p, 20, nil)
	begin := w.now
	w.capacity = func(now float64) float64 { return 160 * math.Exp(-0.02*(now-begin)/60) }
	w.reset()
	best := 0.0
	w.run(p, 60, func(Snapshot, Recommendation) { best += w.capacity(w.now) * w.dt })
	if share := w.good / best; share < 0.75 {
		t.Errorf("while the capacity falls by 2 %% a minute: %.0f %% of it answered well", 100*share)
	}
}

func TestRaisesAheadOfARamp(t *testing.T) {
	w := steady(1000, 0)
	w.limit.FillRate = 120
	w.demand = ramp(1200, 1500, 100, 600)
	w.foresee = true
	w.run(New(with(1000)), 60, nil)
	if share := w.refused / w.offered; share > 0.001 {
		t.Errorf("%.2f %% refused in a ramp that was foreseen", 100*share)
	}
	blind := steady(1000, 0)
	blind.limit.FillRate = 120
	blind.demand = w.demand
	blind.run(New(with(1000)), 60, nil)
	if blind.refused < 10*w.refused || blind.refused == 0 {
		t.Errorf("refused %.0f without a forecast, %.0f with: the test shows nothing", blind.refused, w.refused)
	}
}

func TestDoesNotRaiseIntoAnOverload(t *testing.T) {
	w := steady(160, 0)
	w.demand = ramp(1200, 1500, 100, 800)
	w.foresee = true
	w.limit.FillRate = 140
	w.run(New(with(160)), 60, func(s Snapshot, r Recommendation) {
		if r.Rate() > 160 {
			t.Fatalf("%v: limit %.0f/s for a target of 160/s: %s", s.At, r.Rate(), r.Reason)
		}
	})
}

func TestIdentifiesAFaultAndRestores(t *testing.T) {
	for _, demand := range []float64{60, 320} {
		w := steady(160, demand)
		w.limit.FillRate = 150
		p := New(with(160))
		w.run(p, 40, nil)
		before := w.limit.Rate()
		w.faults = between(w.now, w.now+600, 0.2, 0)
		flagged := 0
		w.run(p, 20, func(_ Snapshot, r Recommendation) {
			if slices.Contains(r.Codes, BackendFault.Code) || p.State().Guard.Fault.Active {
				flagged++
			}
		})
		if flagged < 15 {
			t.Errorf("demand %v: a fault of 20 snapshots was flagged in %d", demand, flagged)
		}
		if after := w.limit.Rate(); after < 0.9*before {
			t.Errorf("demand %v: limit %.0f/s after the fault, %.0f/s before", demand, after, before)
		}
		w.run(p, 3, nil)
		if p.State().Guard.Fault.Active {
			t.Errorf("demand %v: the fault is flagged after it is gone", demand)
		}
	}
}

func TestLostSnapshotsDoNoHarm(t *testing.T) {
	w := steady(160, 320)
	w.lost = 5
	w.run(New(with(0)), 80, nil)
	w.near(t, "with every fifth snapshot lost", 0.8, 1)
}

// Behind a gate the limit finds the capacity within a few snapshots, stays a little above it,
// follows it, and costs hardly any answers.
func TestCeiling(t *testing.T) {
	for _, c := range []struct {
		name  string
		hint  float64
		start float64
	}{
		{"known", 160, 160},
		{"hint half of it", 80, 80},
		{"hint twice as much", 320, 320},
		{"unknown, from below", 0, 40},
		{"unknown, from above", 0, 300},
	} {
		w := steady(160, 600)
		w.gated, w.limit.FillRate = true, c.start
		p := New(with(c.hint))
		w.run(p, 8, nil)
		w.near(t, c.name, 1, 1.3)
		w.capacity = func(float64) float64 { return 90 }
		w.reset()
		w.run(p, 20, nil)
		w.near(t, c.name+", after a loss", 1, 1.3)
		w.capacity = func(float64) float64 { return 320 }
		w.run(p, 6, nil)
		w.near(t, c.name+", after a gain", 0.95, 1.7)
		if share := w.good / (w.dt * (20*90 + 6*320)); share < 0.78 {
			t.Errorf("%s: %.0f %% of what could have been answered", c.name, 100*share)
		}
		if q := p.State().Capacity.Q50; math.Abs(q/320-1) > 0.1 {
			t.Errorf("%s: a target of 320/s is believed to take %.0f/s", c.name, q)
		}
	}
}

// A target that refuses excess load at once is not faulty: the limit does not rise above the
// operator's hint, with a gate or without, and without one it falls.
func TestSheddingIsNoFault(t *testing.T) {
	for _, gated := range []bool{true, false} {
		w := steady(160, 300)
		w.sheds, w.gated, w.limit.FillRate = true, gated, 160
		p := New(with(160))
		w.run(p, 20, nil)
		w.capacity = func(float64) float64 { return 60 }
		w.run(p, 60, func(s Snapshot, r Recommendation) {
			if r.Rate() > 1.3*160 {
				t.Fatalf("gate %v: at %v the limit is %.0f/s: %s", gated, s.At, r.Rate(), r.Reason)
			}
		})
		if r := w.limit.Rate(); r > 1.3*60 {
			t.Errorf("gate %v: half an hour later the limit is %.0f/s for a target of 60/s", gated, r)
		}
	}
}

// While the store is unavailable everything is admitted. That does not lower the limit, and
// the answers are learned from.
func TestFailOpenIsNotBlamed(t *testing.T) {
	for _, gated := range []bool{true, false} {
		w := steady(160, 400)
		w.gated, w.limit.FillRate = gated, 120
		p := New(with(160))
		w.run(p, 20, nil)
		before := w.limit.Rate()
		for range 20 {
			kept := w.limit
			w.limit = Limit{Algorithm: Off}
			s := w.interval()
			w.limit = kept
			s.Limit, s.Mode = kept, FailOpen
			if r := p.Advise(s, DemandForecast{}); r.Limit != kept {
				t.Fatalf("gate %v: from %.0f to %.0f/s: %s", gated, kept.Rate(), r.Rate(), r.Reason)
			}
		}
		w.backlog = 0
		w.run(p, 3, nil)
		if after := w.limit.Rate(); after < 0.8*before {
			t.Errorf("gate %v: the limit is %.0f/s afterwards, it was %.0f/s", gated, after, before)
		}
	}
}
