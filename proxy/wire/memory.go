package wire

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

// memory watches how much memory the process uses. Every connection's share is
// bounded, but their number times that may be more than there is: before the
// process dies it turns new requests away.
//
// Safe for concurrent use: what is shared is atomic.
type memory struct {
	budget   int64 // bytes; 0: no bound
	shedding atomic.Bool
	sheds    atomic.Uint64 // times that shedding began
}

// short reports whether requests are to be turned away.
func (m *memory) short() bool { return m.shedding.Load() }

// watch looks until stop is closed.
func (m *memory) watch(stop <-chan struct{}) {
	if m.budget <= 0 {
		return
	}
	before := debug.SetMemoryLimit(-1) // GOMEMLIMIT, perhaps
	debug.SetMemoryLimit(min(before, int64(memoryTight*float64(m.budget))))
	defer debug.SetMemoryLimit(before)
	every.Pause(stop, memoryStep, func(time.Time) {
		m.judge(memoryInUse())
		if m.short() {
			runtime.GC() // what was shed is garbage, and nothing else may ask for a collection
		}
	})
}

// judge holds the bytes in use against the budget.
func (m *memory) judge(used int64) {
	switch share := float64(used) / float64(m.budget); {
	case share >= memoryShort && !m.shedding.Load():
		m.shedding.Store(true)
		m.sheds.Add(1)
	case share <= memoryEnough:
		m.shedding.Store(false)
	}
}

// memoryInUse is what the Go runtime has from the system, without what it has
// given back or could give back.
func memoryInUse() int64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64() - samples[1].Value.Uint64() - samples[2].Value.Uint64())
}
