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
	alone := gate.Sample{Alone: true} // nothing is at the target until the next
	// Each has 45 answers while no place is free. Usually one comes each millisecond.
	for name, c := range map[string]struct {
		last   gate.Sample // before them
		answer func(i int) (after time.Duration, a gate.Sample)
		falls  bool
	}{
		"as usual":    {alone, func(int) (time.Duration, gate.Sample) { return ms, gate.Sample{} }, false},
		"more slowly": {alone, func(int) (time.Duration, gate.Sample) { return 2 * ms, gate.Sample{} }, true},
		"a slow body first": {alone, func(i int) (time.Duration, gate.Sample) {
			if i == 0 {
				return ms, gate.Sample{Ago: 200 * ms}
			}
			return ms, gate.Sample{}
		}, false},
		"a slow body first, of a busy target": {gate.Sample{}, func(i int) (time.Duration, gate.Sample) {
			if i == 0 {
				return ms, gate.Sample{Ago: 200 * ms}
			}
			return ms, gate.Sample{}
		}, false},
		"slow bodies": {alone, func(int) (time.Duration, gate.Sample) { return ms, gate.Sample{Ago: 50 * ms} }, false},
		"after a pause": {alone, func(i int) (time.Duration, gate.Sample) {
			if i == 0 {
				return 10 * sec, gate.Sample{}
			}
			return ms, gate.Sample{}
		}, false},
		"after a pause, one from before it first": {alone, func(i int) (time.Duration, gate.Sample) {
			if i == 0 {
				return 10 * sec, gate.Sample{Ago: 10 * sec}
			}
			return ms, gate.Sample{}
		}, false},
		"a target that works on what timed out": {gate.Sample{Alone: true, Refused: true},
			func(i int) (time.Duration, gate.Sample) {
				if i == 0 {
					return sec, gate.Sample{}
				}
				return ms, gate.Sample{}
			}, true},
		"more slowly, on a clock set back": {alone, func(i int) (time.Duration, gate.Sample) {
			if i == 0 {
				return -sec, gate.Sample{}
			}
			return 2 * ms, gate.Sample{}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			g, now := gate.New(gate.Config{}), time.Unix(1000, 0)
			tell := func(after time.Duration, a gate.Sample) {
				now = now.Add(after)
				a.Sent, a.InFlight = now.Add(-10*ms-a.Ago), 10
				g.Answered(now, &a)
			}
			for range 5000 {
				tell(ms, gate.Sample{})
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
