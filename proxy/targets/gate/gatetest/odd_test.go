package gatetest_test

import (
	"fmt"
	"testing"
	"time"

	"weir/proxy/targets/gate/gatetest"
)

// An answer time that no target can keep, or that each keeps, is no reason to shed what the
// target can answer, nor to leave it without protection.
func TestOddSLO(t *testing.T) {
	t.Parallel()
	for _, slo := range []time.Duration{1, 10 * time.Hour} {
		for seed := range seeds {
			w := steady(seed)
			w.SLO, w.Length = slo, 20*sec
			if r := gatetest.Play(w); r.Needless > 0 {
				t.Errorf("an SLO of %v, seed %d: of %d requests %d are shed needlessly", slo, seed, r.Offered, r.Needless)
			}
			w = usual()
			w.Seed, w.SLO = seed, slo
			if r := gatetest.Play(w); r.Ratio(2*sec, w.Length) < .98 || r.Ratio(10*sec, 20*sec) < .96 {
				t.Errorf("an SLO of %v, seed %d: answered in time ÷ possible: %.3f over all, want .98; %.3f in "+
					"the bad time, want .96", slo, seed, r.Ratio(2*sec, w.Length), r.Ratio(10*sec, 20*sec))
			}
		}
	}
}

// A target that answers nothing for a while is used again when it does.
func TestMute(t *testing.T) {
	t.Parallel()
	const from, back = 10 * sec, 20 * sec
	for _, load := range []float64{1000, 2000} {
		for _, timeout := range []time.Duration{2 * sec, 9 * sec} {
			for seed := range seeds {
				w := usual()
				w.Seed, w.Timeout, w.Length = seed, timeout, back+timeout+10*sec
				w.Stages = []gatetest.Stage{{Load: load}, {From: from, Mute: true}, {From: back}}
				r := gatetest.Play(w)
				again := back + timeout // when nothing is waited for any longer
				if soon, later := r.Ratio(again, again+sec), r.Ratio(again+sec, w.Length); soon < .93 || later < .95 {
					t.Errorf("%.0f/s, a timeout of %v, seed %d: answered in time ÷ possible: %.3f in the first second, want .93; "+
						"%.3f later, want .95", load, timeout, seed, soon, later)
				}
				if before, after := r.Limit(8*sec, from), r.Limit(w.Length-2*sec, w.Length); after < .7*before ||
					after > 1.4*before {
					t.Errorf("%.0f/s, a timeout of %v, seed %d: the limit was %.1f and is %.1f", load, timeout, seed, before, after)
				}
			}
		}
	}
}

// When the clock is set forward or back while requests are in flight nothing is shed that can be
// answered, and under overload the target is protected, and used when it has more workers soon after.
func TestClockJumps(t *testing.T) {
	const at, more, length = 10 * sec, 11 * sec, 16 * sec
	for _, jump := range []time.Duration{-24 * time.Hour, -sec, -10 * ms, 10 * ms, sec, time.Hour, 3650 * 24 * time.Hour} {
		t.Run(fmt.Sprint(jump), func(t *testing.T) {
			t.Parallel()
			for seed := range many * seeds {
				w := steady(seed)
				w.Length, w.Stages = length, append(w.Stages, gatetest.Stage{From: at, Clock: jump})
				if r := gatetest.Play(w); r.Needless > 0 {
					t.Errorf("seed %d: of %d requests %d are shed needlessly", seed, r.Offered, r.Needless)
				}
				w.Stages = []gatetest.Stage{{Load: 2000}, {From: at, Clock: jump}, {From: more, Load: 5000, Workers: 60}}
				r := gatetest.Play(w)
				if soon, later := r.Ratio(at, more), r.Ratio(more, length); soon < .91 || later < .92 {
					t.Errorf("seed %d: answered in time ÷ possible: %.3f, want .91; when it has more workers %.3f, want .92", seed,
						soon, later)
				}
			}
		})
	}
}

// A few per cent of refusals do not keep a target that becomes slow from being protected.
func TestRefusalsOfASlowTarget(t *testing.T) {
	t.Parallel()
	for seed := range 2 * seeds {
		w := usual()
		w.Seed, w.Workers, w.Length, w.InTime = seed, 40, 60*sec, 300*ms
		w.Stages = []gatetest.Stage{{Load: 3600, Errors: .02}, {From: 10 * sec, Errors: .3},
			{From: 10200 * ms, Errors: .02, Speed: .2}}
		if got := gatetest.Play(w).Ratio(14*sec, 60*sec); got < .9 {
			t.Errorf("seed %d: %.3f of what is possible is answered in time, want .9", seed, got)
		}
	}
}

// A few per cent of refusals that do not depend on how many requests are in flight, such as those of
// a limit that the application has for each user, do not keep the limit down that more of them
// brought about.
func TestLastingRefusals(t *testing.T) {
	for _, workers := range []int{40, 100} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			t.Parallel()
			for seed := range 4 * seeds {
				w := usual()
				w.Seed, w.Workers, w.Length = seed, workers, 40*sec
				w.Stages = []gatetest.Stage{{Load: 90 * float64(workers), Errors: .03}, {From: 10 * sec, Errors: .3},
					{From: 12 * sec, Errors: .03}}
				if got := gatetest.Play(w).Ratio(25*sec, 40*sec); got < .97 {
					t.Errorf("seed %d: %.3f of what is possible is answered in time, want .97", seed, got)
				}
			}
		})
	}
}

// When a target's cache is flushed, its answers take thirty times as long, until the cache is full
// again. The limit does not stay below the number of workers: they would be idle, and the cache
// would be empty for longer. Nor does it rise far above it while most answers are quick again:
// the others would be too late. A limit that is right all the time has .935.
func TestFlush(t *testing.T) {
	for cv, want := range map[float64]float64{0: .926, .5: .928, 1: .924} {
		for _, loops := range []int{1, 4} {
			t.Run(fmt.Sprintf("deviation %.1f, %d loops", cv, loops), func(t *testing.T) {
				t.Parallel()
				sum, worlds := 0., 4*many
				for seed := range worlds {
					w := usual()
					w.Seed, w.Loops, w.Workers, w.Service, w.CV, w.InTime, w.Trip = seed, loops, 8, 40*ms, cv, 250*ms, ms/10
					w.Length, w.Cache, w.Stages = 26*sec, 2500, []gatetest.Stage{{Load: 1000}, {From: 8 * sec, Flush: true}}
					r := gatetest.Play(w)
					sum += float64(r.InTime) / float64(r.Offered)
				}
				if mean := sum / float64(worlds); mean < want {
					t.Errorf("%.4f of the requests were answered in time, want %.3f", mean, want)
				}
			})
		}
	}
}

// When a target's cache is flushed that is too large to be full again soon, about half of the requests
// wait for workers for as long as the load lasts. The limit does not rise without end.
func TestColdCache(t *testing.T) {
	for _, c := range []struct {
		workers       int
		load          float64
		keys          int
		takes, inTime time.Duration
		want          float64
	}{
		{8, 2000, 1e6, 10 * ms, 100 * ms, .73},
		{4, 300, 1e5, 40 * ms, 250 * ms, .67},
		{32, 2000, 1e6, 40 * ms, 250 * ms, .78},
	} {
		t.Run(fmt.Sprintf("%d workers, %v", c.workers, c.takes), func(t *testing.T) {
			t.Parallel()
			sum, worlds := 0., 3*many
			for seed := range worlds {
				w := usual()
				w.Seed, w.Workers, w.Service, w.InTime, w.Trip, w.Cache = seed, c.workers, c.takes, c.inTime, ms/10, c.keys
				w.Length, w.Stages = 26*sec, []gatetest.Stage{{Load: c.load}, {From: 8 * sec, Flush: true}}
				r := gatetest.Play(w)
				sum += float64(r.InTime) / float64(r.Offered)
			}
			if mean := sum / float64(worlds); mean < c.want {
				t.Errorf("%.4f of the requests were answered in time, want %.2f", mean, c.want)
			}
		})
	}
}
