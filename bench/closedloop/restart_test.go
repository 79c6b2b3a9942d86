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
			sum += mustRun(t, s, Contestant{"", func(*Scenario) Control {
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
	c := Advisor().New(s)
	if _, err := Run(s, c); err != nil {
		t.Fatal(err)
	}
	if most := *c.GateMax; most < 2*8 || most > 8*8 {
		t.Errorf("gates of a target with 8 workers are bounded by %v", most)
	}
}
