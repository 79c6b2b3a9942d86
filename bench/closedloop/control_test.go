package closedloop

import (
	"math"
	"strings"
	"testing"
	"time"

	"weir/proxy/limit"
)

// Who knows everything does best, and who knows it late loses by a change only.
func TestOraclesDoBest(t *testing.T) {
	s := steady(320, 600, func(s *Scenario) {
		s.Target.DenyCost = 0.02
		s.Target.Stages = []Stage{{Factor: 1}, {From: 200, Factor: 0.6}, {From: 400, Factor: 1}}
	})
	oracle := mustRun(t, s, Clairvoyant())
	for _, c := range []Contestant{Static("", 0.6), Static("", 0.9), Static("", 1), PromisedAIMD(), Vegas(), BBR(), PI(), Blind(), Prescient()} {
		if r := mustRun(t, s, c); float64(r.Good) > 1.01*float64(oracle.Good) {
			t.Errorf("%s: %d good, the oracle %d", c.Name, r.Good, oracle.Good)
		}
	}
	delayed := mustRun(t, s, Delayed())
	if regret := delayed.Regret(oracle); regret < 0 || regret > 0.25 {
		t.Errorf("the delayed oracle loses %.3f, want little more than a snapshot's delay", regret)
	}
	if oracle.Overload > 40 || oracle.Needless > 0 {
		t.Errorf("the oracle: %d s of overload, %d rejected needlessly", oracle.Overload, oracle.Needless)
	}
}

func TestCalibrate(t *testing.T) {
	few, err := calibrate(8, 200, 1)
	if err != nil {
		t.Fatal(err)
	}
	many, err := calibrate(64, 100, 1)
	if err != nil {
		t.Fatal(err)
	}
	if few < 0.92 || few >= many || many > 1 {
		t.Errorf("8 workers can be loaded to %.2f, 64 to %.2f", few, many)
	}
}

// Snapshots come on time but for jitter, some are lost, their answers are applied
// a second later, and they tell what happened.
func TestSnapshotsTellWhatHappened(t *testing.T) {
	s := steady(100, 6000, nil)
	var seen []Snapshot
	flip := Contestant{"", func(*Scenario) Control {
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
		if math.Abs(n.Observed-100) > 12 || math.Abs(n.Forwarded-80) > 3 || math.Abs(n.RejectedShare-(1-n.Forwarded/n.Observed)) > 1e-9 {
			t.Errorf("at %.0f s: %.1f/s observed, %.1f/s forwarded, %.3f refused", n.Elapsed, n.Observed, n.Forwarded, n.RejectedShare)
		}
		if n.P95 < 100*time.Millisecond || n.P95 > 200*time.Millisecond || n.Errors != 0 {
			t.Errorf("at %.0f s: p95 %v, errors %.3f", n.Elapsed, n.P95, n.Errors)
		}
		last = n.Elapsed
	}
	if r.Updates != 0 {
		t.Errorf("the same limit again counts as %d updates", r.Updates)
	}
}

// What the policy promises is held against what it does.
func TestViolationsAreFound(t *testing.T) {
	for _, test := range []struct {
		name string
		to   limit.Config
		part string // of the violation; empty: none
	}{
		{"a little up", tokens(120), ""},
		{"too far up", tokens(140), "up by at most a quarter"},
		{"down by half", tokens(50), ""},
		{"too far down", tokens(40), "down by at most a half"},
		{"too low", tokens(4), "allowed is 8.0 to 1600.0"},
		{"another algorithm", limit.Config{Algorithm: limit.Sliding, Limit: 100, Window: 1}, ""},
	} {
		s := steady(50, 100, nil)
		r := mustRun(t, s, Contestant{"", func(*Scenario) Control {
			return Control{Initial: tokens(100), Bound: true, Advise: func(Snapshot) (limit.Config, bool) { return test.to, true }}
		}})
		if (len(r.Violations) > 0) != (test.part != "") || test.part != "" && !strings.Contains(r.Violations[0], test.part) {
			t.Errorf("%s: %q, want %q", test.name, r.Violations, test.part)
		}
	}
}

// Two switches within ten minutes are one too many.
func TestSwitchesAreTimed(t *testing.T) {
	sliding := limit.Config{Algorithm: limit.Sliding, Limit: 100, Window: 1}
	for cycle, want := range map[time.Duration]bool{30 * time.Second: true, 12 * time.Minute: false} {
		s := steady(50, 3000, func(s *Scenario) { s.Cycle = cycle })
		r := mustRun(t, s, Contestant{"", func(*Scenario) Control {
			return Control{Initial: tokens(100), Bound: true, Advise: func(n Snapshot) (limit.Config, bool) {
				if n.Limit.Algorithm == limit.Token {
					return sliding, true
				}
				return tokens(100), true
			}}
		}})
		if (len(r.Violations) > 0) != want || r.Switches < 2 {
			t.Errorf("every %v: %d switches, violations %q", cycle, r.Switches, r.Violations)
		}
	}
}

// A limit that there cannot be ends the run with an error that says why.
func TestImpossibleLimit(t *testing.T) {
	s := steady(50, 10, nil)
	if _, err := Run(s, Control{Initial: limit.Config{Algorithm: limit.Token}}); err == nil || !strings.Contains(err.Error(), "capacity") {
		t.Errorf("got %v", err)
	}
}
