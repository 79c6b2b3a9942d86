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
	// memoryStep is how often the memory in use is held against the budget.
	memoryStep = 200 * time.Millisecond
	// The garbage collector is asked to stay below memoryTight of the budget;
	// requests are shed above memoryShort, until it is below memoryEnough.
	memoryTight  = 0.80
	memoryShort  = 0.92
	memoryEnough = 0.85
)

// A Memory watches how much memory the process uses. Every connection's share is
// bounded, but their number times that may be more than there is: before the
// process dies it turns new requests away.
//
// Safe for concurrent use: what is shared is atomic.
type Memory struct {
	Budget   int64         // bytes; 0: no bound
	Shedding atomic.Bool   // requests are to be turned away
	Sheds    atomic.Uint64 // times that shedding began
}

// Watch looks until stop is closed.
func (m *Memory) Watch(stop <-chan struct{}) {
	if m.Budget <= 0 {
		return
	}
	before := debug.SetMemoryLimit(-1) // GOMEMLIMIT, perhaps
	debug.SetMemoryLimit(min(before, int64(memoryTight*float64(m.Budget))))
	defer debug.SetMemoryLimit(before)
	every.Pause(stop, memoryStep, func(time.Time) {
		m.judge(InUse())
		if m.Shedding.Load() {
			runtime.GC() // what was shed is garbage, and nothing else may ask for a collection
		}
	})
}

// judge holds the bytes in use against the budget.
func (m *Memory) judge(used int64) {
	switch share := float64(used) / float64(m.Budget); {
	case share >= memoryShort && !m.Shedding.Load():
		m.Shedding.Store(true)
		m.Sheds.Add(1)
	case share <= memoryEnough:
		m.Shedding.Store(false)
	}
}

// InUse is what the Go runtime has from the system, without what it has
// given back or could give back.
func InUse() int64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64() - samples[1].Value.Uint64() - samples[2].Value.Uint64())
}
