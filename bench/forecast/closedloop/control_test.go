package closedloop

import (
	"math"
	"strings"
	"testing"
	"time"

	"weir/proxy/limit"
)

// No strategy is much better than the perfect gate, and the real gate is hardly worse.
// Without a gate a target that loses part of its capacity is overloaded.
func TestGateDoesAlmostAsWellAsThePerfectOne(t *testing.T) {
	s := steady(320, 600, func(s *Scenario) {
		s.Target.Stages = []Stage{{Factor: 1}, {From: 200, Factor: 0.6}, {From: 400, Factor: 1}}
	})
	perfect := mustRun(t, s, perfectLimit())
	for _, c := range everybody() {
		if r := mustRun(t, s, c); float64(r.Good) > 1.02*float64(perfect.Good) {
			t.Errorf("%s: %d good, the perfect gate %d", c.Name, r.Good, perfect.Good)
		}
	}
	if r := mustRun(t, s, gateOnly()); r.Regret(perfect) > 0.03 || r.Overload > 10 {
		t.Errorf("the gate loses %.3f, and the target is overloaded for %d s", r.Regret(perfect), r.Overload)
	}
	if r := mustRun(t, s, static(0.9)); r.Overload < 150 {
		t.Errorf("without a gate the target is overloaded for %d s: the test shows nothing", r.Overload)
	}
}

// Snapshots are sent on time except for jitter, some are lost, their answers are applied a
// second later, and their numbers are correct.
func TestSnapshotsTellWhatHappened(t *testing.T) {
	s := steady(100, 6000, nil)
	var seen []Snapshot
	flip := Strategy{"", func(*Scenario) Control {
		return Control{Initial: tokens(80), Advise: func(n Snapshot) (limit.Config, bool) {
			seen = append(seen, n)
			return tokens(80), true
		}}
	}}
	r := mustRun(t, s, flip)
	if lost := 200 - len(seen); lost < 0 || lost > 12 {
		t.Errorf("of about 200 snapshots %d arrived", len(seen))
	}
	last := 0.0
	for _, n := range seen {
		if step := n.Elapsed - last; math.Abs(step/n.Interval.Seconds()-1) > 0.01 && step < 50 {
			t.Errorf("at %.1f s: %.1f s after the last, the interval is %v", n.Elapsed, step, n.Interval)
		}
		if d := n.Interval.Seconds() - 30; math.Abs(d) > 3.001 {
			t.Errorf("an interval of %v", n.Interval)
		}
		if math.Abs(n.Observed-100) > 12 || math.Abs(n.Forwarded-80) > 3 ||
			math.Abs(n.Rejected-(1-n.Forwarded/n.Observed)) > 1e-9 {
			t.Errorf("at %.0f s: %.1f/s observed, %.1f/s forwarded, %.3f refused", n.Elapsed, n.Observed, n.Forwarded,
				n.Rejected)
		}
		if n.P95 < 0.1 || n.P95 > 0.2 || n.Errors != 0 {
			t.Errorf("at %.0f s: p95 %v s, errors %.3f", n.Elapsed, n.P95, n.Errors)
		}
		last = n.Elapsed
	}
	if r.Updates != 0 {
		t.Errorf("the same limit again counts as %d updates", r.Updates)
	}
}

// Recommendations pass the proxy's guard rails, and what these clip is reported.
func TestGuardRailsHold(t *testing.T) {
	for _, test := range []struct {
		name string
		to   limit.Config
		rate float64 // in force then
		part string  // of the report; empty: none
	}{
		{"up", tokens(140), 140, ""},
		{"too far up", tokens(500), 400, "too large a step"},
		{"too low", tokens(4), 8, "out of range"},
	} {
		s := steady(50, 45, nil)
		s.Record = true
		r := mustRun(t, s, Strategy{"", func(*Scenario) Control {
			return Control{Initial: tokens(100), Advise: func(Snapshot) (limit.Config, bool) { return test.to, true }}
		}})
		if last := r.Timeline[len(r.Timeline)-1].Limit; test.name != "too low" && last != test.rate {
			t.Errorf("%s: the limit is %v", test.name, last)
		}
		if (len(r.Violations) > 0) != (test.part != "") || test.part != "" && !strings.Contains(r.Violations[0], test.part) {
			t.Errorf("%s: %q, want %q", test.name, r.Violations, test.part)
		}
	}
}

// A request with a long service time is not overload: it did not wait at the target.
func TestLongRequestsAreNoOverload(t *testing.T) {
	r := mustRun(t, steady(20, 600, func(s *Scenario) { s.Target.Workers, s.Target.ServiceCV = 64, 8 }), unprotected())
	if r.TimedOut == 0 || r.Overload > 0 {
		t.Errorf("%d requests took too long, and the target is overloaded for %d s", r.TimedOut, r.Overload)
	}
}

// While the gate binds, snapshots are sent every two seconds and report it.
func TestSnapshotsOfTheGate(t *testing.T) {
	var calm, bound int
	answered := 0.0
	mustRun(t, steady(320, 240, func(s *Scenario) {
		for i := range 90 {
			s.Demand.Rates[i] = 80
		}
	}), Strategy{"", func(s *Scenario) Control {
		return Control{Initial: tokens(1000), Gate: true, Advise: func(n Snapshot) (limit.Config, bool) {
			switch good := n.Ended * (1 - n.Errors) / n.Interval.Seconds(); {
			case n.Elapsed < 85:
				calm++
				if n.GateShare > 0.08 || math.Abs(good-80) > 10 || n.Interval < 20*time.Second {
					t.Errorf("at %.0f s: %+v", n.Elapsed, n)
				}
			case n.Elapsed > 125:
				bound++
				answered += good
				if n.GateShare < 0.5 || n.Interval > 3*time.Second {
					t.Errorf("at %.0f s: %+v", n.Elapsed, n)
				}
			}
			return limit.Config{}, false
		}}
	}})
	if calm < 2 || bound < 40 {
		t.Fatalf("%d snapshots while the gate was idle, %d while it bound", calm, bound)
	}
	if mean := answered / float64(bound); math.Abs(mean-160) > 12 {
		t.Errorf("%.0f good answers a second while the gate bound, the target can do 160", mean)
	}
}

// An invalid limit ends the run with an error.
func TestImpossibleLimit(t *testing.T) {
	s := steady(50, 10, nil)
	if _, err := Run(s, Control{Initial: limit.Config{Algorithm: limit.Token}}); err == nil ||
		!strings.Contains(err.Error(), "capacity") {
		t.Errorf("got %v", err)
	}
}
