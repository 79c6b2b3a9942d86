package gatetest_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"weir/proxy/targets/gate"
	"weir/proxy/targets/gate/gatetest"
)

// A target at 90 % of its capacity that suddenly loses a part of it is soon protected, and soon
// used again when it has recovered: within 200 ms, ten answer times and three windows, the
// largest of these. The wants are what is answered in time in the second after that, relative to
// a limit that was right all the time. The goal is .95. It is missed where a worker alone takes
// about as long as clients wait, or longer.
func TestReacts(t *testing.T) {
	targets := map[string]gatetest.World{
		"8 workers":  {Workers: 8, Service: 8 * ms, InTime: 100 * ms},
		"15 workers": {Workers: 15, Service: 10 * ms, InTime: 100 * ms},
		"64 workers": {Workers: 64, Service: 40 * ms, InTime: 200 * ms},
	}
	for name, w := range targets {
		for lost, want := range map[float64]float64{.3: .94, .5: .93, .7: .87, .9: .55} {
			t.Run(fmt.Sprintf("%s, %.0f %%", name, 100*lost), func(t *testing.T) {
				t.Parallel()
				w := w
				const begins, ends = 8 * sec, 14 * sec
				w.Length, w.CV, w.Queue, w.Gates, w.Wait = ends+3*sec, 1, 1000, 1, gate.WaitDefault
				capacity := float64(w.Workers) / w.Service.Seconds()
				w.Stages = []gatetest.Stage{{Load: .9 * capacity}, {From: begins, Speed: 1 - lost}, {From: ends, Speed: 1}}
				second := func(r *gatetest.Result, at time.Duration, speed float64) float64 {
					at += max(200*ms, time.Duration(10/speed*float64(w.Service)), time.Duration(3*20/(capacity*speed)*float64(sec)))
					return r.Ratio(at, at+sec)
				}
				var have, possible [2]float64
				for seed := range 8 * seeds {
					w.Seed = seed
					play := func(limit int, sum *[2]float64) {
						w.Limit = limit
						r := gatetest.Play(w)
						sum[0] += second(r, begins, 1-lost)
						sum[1] += second(r, ends, 1)
					}
					play(0, &have)
					play(w.Workers+int(math.Sqrt(float64(w.Workers))), &possible)
				}
				if r := have[0] / possible[0]; r < want {
					t.Errorf("after the loss: %.3f, want %.2f", r, want)
				}
				if r := have[1] / possible[1]; r < .95 {
					t.Errorf("after the recovery: %.3f, want .95", r)
				}
			})
		}
	}
}
