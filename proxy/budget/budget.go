// Package budget reports whether the process exceeds its memory budget.
package budget

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"weir/internal/every"
)

const (
	// memoryStep is the interval between comparisons of the memory in use with the budget.
	memoryStep = 200 * time.Millisecond
	// The garbage collector's limit is memoryTight of the budget. Requests are shed from
	// memoryShort until the use is at most memoryEnough.
	memoryTight  = 0.80
	memoryShort  = 0.92
	memoryEnough = 0.85
)

// A Memory compares the memory in use with a budget. The memory of each connection is
// bounded, but that of all connections together may exceed the budget; then new requests are
// refused.
//
// Safe for concurrent use: what is shared is atomic.
type Memory struct {
	Budget   int64         // bytes; 0: no bound
	Shedding atomic.Bool   // requests must be refused
	Sheds    atomic.Uint64 // how often shedding began
}

// Watch checks the memory until stop is closed.
func (m *Memory) Watch(stop <-chan struct{}) {
	if m.Budget <= 0 {
		return
	}
	before := debug.SetMemoryLimit(-1) // perhaps from GOMEMLIMIT
	debug.SetMemoryLimit(min(before, int64(memoryTight*float64(m.Budget))))
	defer debug.SetMemoryLimit(before)
	every.Pause(stop, memoryStep, func(time.Time) {
		m.judge(InUse())
		if m.Shedding.Load() {
			runtime.GC() // without requests nothing else may start a collection
		}
	})
}

// judge compares the bytes in use with the budget.
func (m *Memory) judge(used int64) {
	switch share := float64(used) / float64(m.Budget); {
	case share >= memoryShort && !m.Shedding.Load():
		m.Shedding.Store(true)
		m.Sheds.Add(1)
	case share <= memoryEnough:
		m.Shedding.Store(false)
	}
}

// InUse returns the bytes that the Go runtime has from the system, without those that it has
// returned or could return.
func InUse() int64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64() - samples[1].Value.Uint64() - samples[2].Value.Uint64())
}
