package gate_test

import (
	"testing"
	"time"

	"weir/proxy/targets/gate"
)

// A limit that does not bind falls as soon as answers come clearly more rarely while no place is
// free. Answers whose last byte came long after the first, and pauses in which nothing was at the
// target, do not make it fall.
func TestSlumps(t *testing.T) {
	alone := gate.Response{Alone: true} // nothing is at the target until the next
	// Each has 45 answers while no place is free. Usually one comes each millisecond.
	for name, c := range map[string]struct {
		last   gate.Response // before them
		answer func(i int) (after time.Duration, a gate.Response)
		falls  bool
	}{
		"as usual":    {alone, func(int) (time.Duration, gate.Response) { return ms, gate.Response{} }, false},
		"more slowly": {alone, func(int) (time.Duration, gate.Response) { return 2 * ms, gate.Response{} }, true},
		"a slow body first": {alone, func(i int) (time.Duration, gate.Response) {
			if i == 0 {
				return ms, gate.Response{Ago: 200 * ms}
			}
			return ms, gate.Response{}
		}, false},
		"a slow body first, of a busy target": {gate.Response{}, func(i int) (time.Duration, gate.Response) {
			if i == 0 {
				return ms, gate.Response{Ago: 200 * ms}
			}
			return ms, gate.Response{}
		}, false},
		"slow bodies": {alone, func(int) (time.Duration, gate.Response) { return ms, gate.Response{Ago: 50 * ms} }, false},
		"after a pause": {alone, func(i int) (time.Duration, gate.Response) {
			if i == 0 {
				return 10 * sec, gate.Response{}
			}
			return ms, gate.Response{}
		}, false},
		"after a pause, one from before it first": {alone, func(i int) (time.Duration, gate.Response) {
			if i == 0 {
				return 10 * sec, gate.Response{Ago: 10 * sec}
			}
			return ms, gate.Response{}
		}, false},
		"a target that works on what timed out": {gate.Response{Alone: true, Refused: true},
			func(i int) (time.Duration, gate.Response) {
				if i == 0 {
					return sec, gate.Response{}
				}
				return ms, gate.Response{}
			}, true},
		"more slowly, on a clock set back": {alone, func(i int) (time.Duration, gate.Response) {
			if i == 0 {
				return -sec, gate.Response{}
			}
			return 2 * ms, gate.Response{}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			g, now := gate.New(gate.Config{}), time.Unix(1000, 0)
			tell := func(after time.Duration, a gate.Response) {
				now = now.Add(after)
				a.Sent, a.InFlight = now.Add(-10*ms-a.Ago), 10
				g.Answered(now, &a)
			}
			for range 5000 {
				tell(ms, gate.Response{})
			}
			tell(ms, c.last)
			before := g.Limit()
			for i := range 45 {
				after, a := c.answer(i)
				a.Crowded = true
				tell(after, a)
			}
			if fell := g.Limit() < before; fell != c.falls {
				t.Errorf("the limit was %d and is %d", before, g.Limit())
			}
		})
	}
}
