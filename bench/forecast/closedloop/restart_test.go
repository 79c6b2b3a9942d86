package closedloop

import (
	"testing"

	"weir/proxy/limit"
)

// A gate that begins while the target is overloaded may take the queue that it causes for the
// usual answer time, in particular if the proxy is restarted twice. The bound that the advisor
// answers the first snapshot with ends that.
func TestBoundEndsTheOverloadOfARestart(t *testing.T) {
	overload := func(most float64) (sum int) {
		for seed := range uint64(20) {
			s := steady(800, 60, func(s *Scenario) { s.Seed, s.Restarts = seed+100, []int{10, 20} })
			sum += mustRun(t, s, Strategy{"", func(*Scenario) Control {
				return Control{Initial: limit.Config{Algorithm: limit.Off}, Gate: true, GateMax: &most,
					Advise: func(Snapshot) (limit.Config, bool) { return limit.Config{}, false }}
			}}).Overload
		}
		return sum
	}
	if without, with := overload(0), overload(40); without < 100 || with > without/2 {
		t.Errorf("20 targets are overloaded for %d s without a bound and for %d s with one, want half as long", without, with)
	}
}

// While nothing restarts, the bound of the first minute costs nothing, and the advisor learns a
// bound of a few times the target's workers.
func TestBoundIsAFewTimesTheWorkers(t *testing.T) {
	s := steady(150, 600, nil)
	c, free := Advisor().New(s), Advisor().New(s)
	most := c.GateMax
	free.GateMax = nil
	control := func(c Control) Strategy { return Strategy{"", func(*Scenario) Control { return c }} }
	bounded, unbounded := mustRun(t, s, control(c)), mustRun(t, s, control(free))
	if *most < 2*8 || *most > 8*8 {
		t.Errorf("gates of a target with 8 workers are bounded by %v", *most)
	}
	if bounded.Regret(unbounded) > 0.002 || bounded.Overload > unbounded.Overload {
		t.Errorf("with the bound %d good answers and %d s of overload, without %d and %d s", bounded.Good,
			bounded.Overload, unbounded.Good, unbounded.Overload)
	}
}

// A proxy's snapshots count only the answers to its own requests.
func TestSnapshotsAfterARestart(t *testing.T) {
	const restart = 20
	for _, gate := range []bool{false, true} {
		var first Snapshot
		s := steady(800, 30, func(s *Scenario) {
			s.Restarts = []int{restart}
			for k := restart; k < len(s.Demand.Rates); k++ {
				s.Demand.Rates[k] = 20
			}
		})
		mustRun(t, s, Strategy{"", func(*Scenario) Control {
			return Control{Initial: limit.Config{Algorithm: limit.Off}, Gate: gate,
				Advise: func(n Snapshot) (limit.Config, bool) {
					if n.Elapsed > restart && first.Elapsed == 0 {
						first = n
					}
					return limit.Config{}, false
				}}
		}})
		if admitted := first.Forwarded * first.Interval.Seconds(); first.Elapsed == 0 || first.Ended > admitted {
			t.Errorf("gate %t: of %.0f requests since the restart %.0f ended within %v", gate, admitted, first.Ended,
				first.Interval)
		}
	}
}
