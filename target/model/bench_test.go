package model

import (
	"testing"
	"time"
)

// overload drives a crowded service: each step brings two requests while one
// is finished, so that arrivals queue, are refused, time out, and are served.
func overload(m *Model[int]) func() {
	now := epoch
	out := make([]Completion[int], 0, 64)
	return func() {
		now = now.Add(250 * time.Microsecond)
		m.Arrive(now, 1)
		handle, _ := m.Arrive(now, 2)
		if now.UnixMicro()%1000 == 0 {
			m.Cancel(handle)
		}
		out = m.Expire(now, out[:0])
		m.Next()
	}
}

func crowded() Config {
	cfg := service(4, 64, ms, 12*ms)
	cfg.Dist = Exponential
	cfg.ErrorRate = 0.1
	return cfg
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	step := overload(newModel(t, crowded(), 1))
	for range 10_000 { // everything grows to its size
		step()
	}
	if n := testing.AllocsPerRun(10_000, step); n != 0 {
		t.Errorf("%v allocations per step", n)
	}
}

func BenchmarkOverload(b *testing.B) {
	step := overload(newModel(b, crowded(), 1))
	b.ReportAllocs()
	for b.Loop() {
		step()
	}
}
