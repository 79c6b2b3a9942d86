package gatetest_test

import (
	"fmt"
	"testing"
	"time"

	"weir/proxy/targets/gate/gatetest"
)

// idle is a target that is asked for far less than it could do: 200 requests per second, each for
// 5 ms. From the tenth second on others ask for something that it has to wait for, which
// costs it nothing.
func idle(seed uint64, good, slow gatetest.Source, rate float64) gatetest.World {
	w := usual()
	w.Seed, w.Workers, w.Service, w.Warm, w.InTime = seed, 10_000, 5*ms, 10*sec, sec // a usual time-out of clients
	good.SlowBy = 1
	w.Sources = []gatetest.Source{good, slow}
	part := rate / (200 + rate)
	w.Stages = []gatetest.Stage{{Load: 200, Parts: []float64{1, 0}},
		{From: 10 * sec, Load: 200 + rate, Parts: []float64{1 - part, part}}}
	return w
}

// However many requests clients send that take long by themselves, the others are answered: in
// the first two seconds, and ever after. A gate that took them for a target that stands still would
// shed everything for as long as they take.
func TestSlowPath(t *testing.T) {
	one := gatetest.Source{Keys: 1}
	many := gatetest.Source{Keys: 300}
	for name, c := range map[string]struct {
		good, slow gatetest.Source
		want       float64
	}{
		"one client":                        {gatetest.Source{Keys: 10}, one, .95},
		"one client, beside one":            {one, one, .95},
		"one client, on a route of its own": {gatetest.Source{Keys: 10}, gatetest.Source{Keys: 1, Route: 1, Class: 1}, .95},
		"one key of the only client": {gatetest.Source{Keys: 10, Within: true},
			gatetest.Source{Keys: 1, Within: true}, .85},
		"many clients":               {gatetest.Source{Keys: 10}, many, .9},
		"many clients, on one route": {gatetest.Source{Keys: 10}, gatetest.Source{Keys: 300, Route: 1, Class: 1}, .9},
		"the same clients, on a route": {gatetest.Source{Keys: 10, Within: true},
			gatetest.Source{Keys: 10, Within: true, Route: 1, Class: 1}, .9},
	} {
		for _, rate := range []float64{4, 100} {
			for _, takes := range []time.Duration{300 * ms, 9 * sec} {
				for loops := 1; loops <= 4; loops += 3 {
					t.Run(fmt.Sprintf("%s, %.0f per second for %v, %d loops", name, rate, takes, loops), func(t *testing.T) {
						t.Parallel()
						for seed := range seeds {
							c.slow.Waits = takes
							w := idle(seed, c.good, c.slow, rate)
							w.Loops = loops
							for _, length := range []time.Duration{12 * sec, 40 * sec} {
								w.Length = length
								good := gatetest.Play(w).Sources[0]
								if share := float64(good.InTime) / float64(good.Offered); share < c.want {
									t.Errorf("seed %d: in %v the others have %.3f of their answers in time, want %.2f: %+v", seed,
										length-10*sec, share, c.want, good)
								}
							}
						}
					})
				}
			}
		}
	}
}

// The same holds for requests that are never answered: that they fail says nothing of the others.
func TestUnansweredPath(t *testing.T) {
	for name, c := range map[string]struct {
		keys int
		want float64
	}{"one client": {1, .95}, "many clients, some with the hashes of the others": {600, .88}} {
		for _, rate := range []float64{20, 100} {
			for _, timeout := range []time.Duration{sec, 5 * sec, 10 * sec} {
				for loops := 1; loops <= 4; loops += 3 {
					t.Run(fmt.Sprintf("%s, %.0f per second for %v, %d loops", name, rate, timeout, loops), func(t *testing.T) {
						t.Parallel()
						for seed := range seeds {
							w := idle(seed, gatetest.Source{Keys: 1 + 9*int(seed%2)}, gatetest.Source{Keys: c.keys, Never: true}, rate)
							w.Loops, w.Timeout = loops, timeout
							if seed == 0 {
								w.Service = ms
							}
							for _, span := range [][2]time.Duration{{11 * sec, 13 * sec}, {10*sec + timeout, 12*sec + timeout},
								{11 * sec, 70 * sec}} {
								w.Warm, w.Length = span[0], span[1]
								good := gatetest.Play(w).Sources[0]
								if share := float64(good.InTime) / float64(good.Offered); share < c.want {
									t.Errorf("seed %d: from %v to %v the others have %.3f of their answers in time, want %.2f: %+v", seed,
										span[0], span[1], share, c.want, good)
								}
							}
						}
					})
				}
			}
		}
	}
}

// Requests of one client that keep the workers of a small target busy for long do not keep the
// others from being served, though the gate cannot know how many workers there are. The goal is .95.
func TestSlowWork(t *testing.T) {
	for _, c := range []struct{ good, bad, slowBy, all, one float64 }{
		{200, 60, 200, .93, .8}, {200, 20, 200, .93, .8}, {200, 100, 60, .95, .8}, {50, 60, 200, .85, .6},
		{50, 20, 60, .97, .95}, {20, 60, 200, .8, .5},
	} {
		for loops := 1; loops <= 4; loops += 3 {
			t.Run(fmt.Sprintf("%.0f per second, beside %.0f that take %.0f times as long, %d loops", c.good, c.bad, c.slowBy,
				loops), func(t *testing.T) {
				t.Parallel()
				sum, worlds := 0., 2*seeds
				for seed := range worlds {
					w := usual()
					w.Seed, w.Loops, w.Workers, w.Service, w.Warm, w.InTime, w.Length = seed, loops, 8, 5*ms, 10*sec, sec, 40*sec
					w.Sources = []gatetest.Source{{Keys: 10, SlowBy: 1}, {Keys: 1, SlowBy: c.slowBy}}
					part := c.bad / (c.good + c.bad)
					w.Stages = []gatetest.Stage{{Load: c.good, Parts: []float64{1, 0}},
						{From: 10 * sec, Load: c.good + c.bad, Parts: []float64{1 - part, part}}}
					good := gatetest.Play(w).Sources[0]
					share := float64(good.InTime) / float64(good.Offered)
					if sum += share; share < c.one {
						t.Errorf("seed %d: the others have %.3f of their answers in time, want %.2f: %+v", seed, share, c.one, good)
					}
				}
				if mean := sum / float64(worlds); mean < c.all {
					t.Errorf("the others have %.3f of their answers in time, want %.2f", mean, c.all)
				}
			})
		}
	}
}
