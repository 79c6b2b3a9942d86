package forecast

import (
	"math/rand/v2"
	"testing"
)

func TestDetector(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	for _, c := range []struct {
		name   string
		slots  int
		error  func(i int) float64
		alarms int // at least
		most   int
		up     bool
	}{
		{"one spike is no shift", 100, func(i int) float64 { return []float64{0, 50}[b2i(i == 50)] }, 0, 0, false},
		{"errors of one size on both sides", 1000, func(i int) float64 { return 1 - 2*float64(i%2) }, 0, 0, false},
		{"a shift upwards", 12, func(i int) float64 { return 1.5 }, 1, 1, true},
		{"a shift downwards", 12, func(i int) float64 { return -1.5 }, 1, 1, false},
		{"nothing for long", 500, func(int) float64 { return 0 }, 0, 0, false},
		{"noise gives an alarm now and then at most", 1000, func(int) float64 { return r.NormFloat64() }, 0, 12, false},
		{"alarms keep their distance", 60, func(int) float64 { return 3 }, 5, 6, true},
	} {
		var d detector
		alarms := 0
		for i := range c.slots {
			if d.learn(float64(60*i+60), c.error(i)) {
				alarms++
			}
		}
		if alarms < c.alarms || alarms > c.most || c.alarms > 0 && d.up != c.up {
			t.Errorf("%s: %d alarms, the last upwards: %v; want %d to %d", c.name, alarms, d.up, c.alarms, c.most)
		}
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
