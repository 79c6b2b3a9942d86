package wire

import (
	"log/slog"
	"net/netip"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"weir/internal/net/share"
	"weir/internal/timing/every"
)

const (
	// memoryStep is the interval between comparisons of the memory in use with the budget.
	memoryStep = 200 * time.Millisecond
	// The garbage collector's limit is memoryTight of the budget. From memoryNear the clients
	// that hold most are shed, until the use is at most memoryEnough. If that is not enough,
	// all requests are shed from memoryShort, likewise.
	memoryTight  = 0.80
	memoryEnough = 0.85
	memoryNear   = 0.88
	memoryShort  = 0.92
	// clientParts is the reciprocal of the part of the budget that every client may hold.
	clientParts = 256
	// refusedMax bounds the clients that are refused at the same time.
	refusedMax = 4096
	// warnEvery is the least time between two warnings.
	warnEvery = time.Minute
)

// A MemoryGuard compares the memory in use with a budget. The memory of each connection is
// bounded, but that of all connections together may exceed the budget. Then the clients that
// hold most give memory back, down to the level at which enough is free: what they have held
// for longest is ended, and their new requests are refused. Clients that hold less are served
// as usual. If no client holds more than a part of the budget, all new requests are refused.
//
// Safe for concurrent use: what is shared is atomic; the rest belongs to Watch.
type MemoryGuard struct {
	Budget int64 // bytes; 0: no bound
	// Held returns what each client holds, in bytes.
	Held func() *share.Usage
	// Shed ends what clients hold beyond the given part of that. It returns how many requests
	// and connections it has ended.
	Shed func(keep map[share.Client]float64) (ended int)
	Log  *slog.Logger

	Shedding       atomic.Bool   // all requests must be refused
	Sheds          atomic.Uint64 // how often that began
	ClientSheds    atomic.Uint64 // requests and connections that were ended
	ClientRefusals atomic.Uint64 // requests that were refused although not all are

	refused atomic.Pointer[map[share.Client]bool] // clients whose requests must be refused; nil: none
	near    bool                                  // the use was near the budget, and has not been enough below it since
	short   bool                                  // at the last comparison it was memoryShort
	nearLog every.LogThrottle
	fullLog every.LogThrottle
}

// Refuses reports whether a new request of a client must be refused.
func (m *MemoryGuard) Refuses(client netip.Addr) bool {
	if m.Shedding.Load() {
		return true
	}
	refused := m.refused.Load()
	if refused == nil || !(*refused)[share.ClientOf(client)] {
		return false
	}
	m.ClientRefusals.Add(1)
	return true
}

// Watch checks the memory until stop is closed.
func (m *MemoryGuard) Watch(stop <-chan struct{}) {
	if m.Budget <= 0 {
		return
	}
	before := debug.SetMemoryLimit(-1) // perhaps from GOMEMLIMIT
	debug.SetMemoryLimit(min(before, int64(memoryTight*float64(m.Budget))))
	defer debug.SetMemoryLimit(before)
	every.Interval(stop, memoryStep, func(now time.Time) {
		used := memoryInUse()
		if m.near || used >= m.part(memoryNear) {
			runtime.GC() // what was ended is garbage, and without requests nothing else may start a collection
			used = memoryInUse()
		}
		m.judge(now, used)
	})
}

// part returns a part of the budget.
func (m *MemoryGuard) part(of float64) int64 { return int64(of * float64(m.Budget)) }

// judge compares the bytes in use with the budget.
func (m *MemoryGuard) judge(now time.Time, used int64) {
	again := m.short
	m.short = used >= m.part(memoryShort)
	switch {
	case used <= m.part(memoryEnough):
		m.near = false
		m.refused.Store(nil)
		m.Shedding.Store(false)
		return
	case !m.near && used < m.part(memoryNear):
		return
	}
	m.near = true
	enough := m.shedClients(now, used)
	// If shedding clients was not enough the last time, it may not be now.
	if m.short && (!enough || again) && !m.Shedding.Load() {
		m.Shedding.Store(true)
		m.Sheds.Add(1)
		if more, ok := m.fullLog.Allow(now, warnEvery); ok {
			m.Log.Warn("Memory budget is exceeded: all requests are refused", "usedBytes", used, "notLogged", more)
		}
	}
}

// shedClients sheds the clients that hold most, and reports whether that frees enough. If it
// does not, they are shed only if memory is short.
func (m *MemoryGuard) shedClients(now time.Time, used int64) (enough bool) {
	held := m.Held()
	level, least := held.FairShare(used-m.part(memoryEnough)), m.Budget/clientParts
	enough = level >= least
	if !enough && !m.short {
		return false
	}
	level = max(level, least)
	keep := make(map[share.Client]float64)
	for c, n := range held.All() {
		if n > level {
			keep[c] = float64(level) / float64(n)
		}
	}
	if len(keep) == 0 {
		return enough
	}
	m.refuse(keep)
	ended := m.Shed(keep)
	m.ClientSheds.Add(uint64(ended))
	if more, ok := m.nearLog.Allow(now, warnEvery); ok {
		most, bytes := held.Greediest()
		m.Log.Warn("Memory is near the budget: requests of the clients that hold most were ended", "usedBytes", used,
			"clients", len(keep), "ended", ended, "most", most, "mostBytes", bytes, "notLogged", more)
	}
	return enough
}

// refuse adds clients to those that are refused until enough memory is free.
func (m *MemoryGuard) refuse(clients map[share.Client]float64) {
	refused := make(map[share.Client]bool, len(clients))
	if before := m.refused.Load(); before != nil && len(*before)+len(clients) <= refusedMax {
		for c := range *before {
			refused[c] = true
		}
	}
	for c := range clients {
		refused[c] = true
	}
	m.refused.Store(&refused)
}

// memoryInUse returns the bytes that the Go runtime has from the system, without those that it has
// returned or could return.
func memoryInUse() int64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64() - samples[1].Value.Uint64() - samples[2].Value.Uint64())
}
