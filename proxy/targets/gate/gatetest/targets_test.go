package gatetest_test

import (
	"fmt"
	"testing"

	"weir/proxy/targets/gate/gatetest"
)

// Of three targets, each with a gate, one becomes slow, smaller, dead or mute for ten seconds.
// Then the others get what it cannot take, nothing waits while one of them has a place, and
// nothing is shed as long as they can take everything. Without gates .02 to .08 of what is too
// much for the others is answered in time.
func TestThreeTargets(t *testing.T) {
	for _, c := range []struct {
		name  string
		load  float64 // per second; the three can do 1,500 together
		stage gatetest.Stage
		calm  bool // nothing is shed
		want  float64
	}{
		{"all well", 1350, gatetest.Stage{}, true, .98},
		{"slow", 1000, gatetest.Stage{Speed: .3}, true, .95},
		{"slow, too much for the others", 1400, gatetest.Stage{Speed: .3}, false, .94},
		{"smaller", 1000, gatetest.Stage{Workers: 2}, true, .97},
		{"dead", 900, gatetest.Stage{Down: true}, true, .96},
		{"dead, too much for the others", 1400, gatetest.Stage{Down: true}, false, .95},
		{"mute", 900, gatetest.Stage{Mute: true}, true, .95},
		{"mute, too much for the others", 1400, gatetest.Stage{Mute: true}, false, .94},
		{"slow, too much for all", 2000, gatetest.Stage{Speed: .3}, false, .95},
	} {
		for _, loops := range []int{1, 4} {
			t.Run(fmt.Sprintf("%s, %d loops", c.name, loops), func(t *testing.T) {
				t.Parallel()
				for seed := range seeds {
					w := usual()
					w.Seed, w.Warm, w.Length, w.Targets, w.Workers, w.Timeout, w.Loops = seed, 2*sec, 20*sec, 3, 5, 5*sec, loops
					c.stage.Target, c.stage.From = 2, 8*sec
					w.Stages = []gatetest.Stage{{Load: c.load}, c.stage, {Target: 2, From: 18 * sec, Speed: 1, Workers: 5}}
					r := gatetest.Play(w)
					if got := r.Ratio(8*sec, 18*sec); got < c.want {
						t.Errorf("seed %d: answered in time ÷ possible: %.3f, want %.2f", seed, got, c.want)
					}
					if c.calm && r.Shed > 0 {
						t.Errorf("seed %d: of %d requests %d are shed", seed, r.Offered, r.Shed)
					}
					if loops == 1 && r.Detained > 0 { // a place may be meant for another loop
						t.Errorf("seed %d: %d requests wait though a target has a place", seed, r.Detained)
					}
				}
			})
		}
	}
}

// Three targets that refuse at once what they cannot take, and become slower together, stay in use:
// if all but one were taken out of use for their refusals, a third of the answers would be left.
func TestTargetsThatRefuse(t *testing.T) {
	for _, load := range []float64{1000, 2000} {
		for _, loops := range []int{1, 2, 4} {
			t.Run(fmt.Sprintf("%.0f per second, %d loops", load, loops), func(t *testing.T) {
				t.Parallel()
				for seed := range seeds {
					w := usual()
					w.Seed, w.Length, w.Targets, w.Workers, w.Loops, w.Queue = seed, 20*sec, 3, 5, loops, 0
					w.Stages = []gatetest.Stage{{Load: load}, {From: 8 * sec, Speed: .5}, {From: 18 * sec, Speed: 1}}
					if got := gatetest.Play(w).Ratio(2*sec, w.Length); got < .94 {
						t.Errorf("seed %d: answered in time ÷ possible: %.3f, want .94", seed, got)
					}
				}
			})
		}
	}
}
