package gatetest_test

import (
	"fmt"
	"testing"
	"time"

	"weir/proxy/targets/gate/gatetest"
)

// A target that is not overloaded on average, but works slower or stands still again and again for a
// while, as one does that collects garbage, answers as many in time as without a gate, and none
// much later. What waits after a standstill is served in the order of arrival: whoever came
// first would otherwise wait longest, until its client has left.
func TestDips(t *testing.T) {
	for _, c := range []struct {
		dip      gatetest.Dip
		loads    []float64 // relative to what the target can do
		inTime   time.Duration
		all, one float64 // in time: of all worlds together, and of the worst
	}{
		{gatetest.Dip{Every: 2 * sec, For: 100 * ms}, []float64{.4, .6, .8}, 200 * ms, .998, .995},
		{gatetest.Dip{Every: 3 * sec, For: 200 * ms}, []float64{.4, .6, .8}, 300 * ms, .998, .995},
		{gatetest.Dip{Every: 5 * sec, For: 400 * ms}, []float64{.4, .6, .8}, 500 * ms, .998, .995},
		{gatetest.Dip{Every: 7 * sec, For: 800 * ms}, []float64{.4, .6}, 900 * ms, .998, .995},
		{gatetest.Dip{Every: 7 * sec, For: 1000 * ms}, []float64{.4}, 1100 * ms, .995, .99},
		{gatetest.Dip{Every: 3 * sec, For: 100 * ms, SlowBy: 6}, []float64{.4, .6, .8}, 200 * ms, .995, .99},
		{gatetest.Dip{Every: 3 * sec, For: 300 * ms, SlowBy: 6}, []float64{.4, .6}, 250 * ms, .99, .985},
		{gatetest.Dip{Every: 5 * sec, For: 500 * ms, SlowBy: 6}, []float64{.4}, 400 * ms, .99, .985},
		{gatetest.Dip{Every: 5 * sec, For: 500 * ms, SlowBy: 3}, []float64{.4, .6}, 300 * ms, .99, .985},
	} {
		for _, load := range c.loads {
			for _, loops := range []int{1, 4} {
				t.Run(fmt.Sprintf("%+v at %.1f, %d loops", c.dip, load, loops), func(t *testing.T) {
					t.Parallel()
					sum := 0.
					for seed := range seeds {
						w := usual()
						w.Seed, w.Loops, w.Length, w.InTime, w.Dip = seed, loops, 60*sec, c.inTime, c.dip
						w.Stages = []gatetest.Stage{{Load: load * 1500}}
						r := gatetest.Play(w)
						share := float64(r.InTime) / float64(r.Offered)
						if sum += share; share < c.one {
							t.Errorf("seed %d: %.4f of the requests were answered in time, want %.4f", seed, share, c.one)
						}
					}
					if mean := sum / float64(seeds); mean < c.all {
						t.Errorf("%.4f of the requests were answered in time, want %.4f", mean, c.all)
					}
				})
			}
		}
	}
}

// No request waits for longer than it may, whatever happens to the target.
func TestWaitMax(t *testing.T) {
	t.Parallel()
	for seed := range seeds {
		w := usual()
		w.Seed, w.Most, w.Dip = seed, 300*ms, gatetest.Dip{Every: 5 * sec, For: 800 * ms}
		w.Stages = []gatetest.Stage{{Load: 2500}}
		const served = 900 * ms // at a target that stands still for 800 ms
		if most := gatetest.Play(w).Quantile(1); most > w.Most+served {
			t.Errorf("seed %d: an answer took %v, want at most %v", seed, most, w.Most+served)
		}
	}
}

// A target that stands still again and again while more is asked than it can do is overloaded like
// any other: its queue is not served in order, or all would be too late.
func TestDipsUnderOverload(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		dip  gatetest.Dip
		load float64 // from the fifth to the twentieth second
		want float64
	}{
		{gatetest.Dip{Every: 500 * ms, For: 120 * ms}, 2300, .9},
		{gatetest.Dip{Every: 500 * ms, For: 120 * ms}, 1700, .9},
		{gatetest.Dip{Every: 400 * ms, For: 100 * ms}, 2300, .9},
		{gatetest.Dip{Every: 100 * ms, For: 60 * ms}, 1200, .9},
	} {
		for _, loops := range []int{1, 4} {
			for seed := range seeds {
				w := usual()
				w.Seed, w.Loops, w.Dip, w.InTime, w.Length = seed, loops, c.dip, 500*ms, 20*sec
				w.Stages = []gatetest.Stage{{Load: 600}, {From: 5 * sec, Load: c.load}}
				could := 1500 * (1 - c.dip.For.Seconds()/c.dip.Every.Seconds()) / min(1500, c.load)
				if r := gatetest.Play(w).Ratio(5*sec, w.Length) / could; r < c.want {
					t.Errorf("%+v, %.0f per second, %d loops, seed %d: answered in time ÷ possible: %.3f, want %.2f", c.dip,
						c.load, loops, seed, r, c.want)
				}
			}
		}
	}
}
