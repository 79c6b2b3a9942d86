package gates

import (
	"sync"
	"sync/atomic"
	"time"

	"weir/proxy/gate"
)

// A Gate is that of one target, for all loops.
//
// Safe for concurrent use: mu guards the machine, everything else is an atomic word.
type Gate struct {
	gate.Places
	Waiting atomic.Int64              // exchanges that were to go there, and wait for a place at any target
	Shed    [ClassesMax]atomic.Uint64 // by class: exchanges that waited for a place in vain

	mu      sync.Mutex
	machine *gate.Gate // nil: the target was never asked
}

// Begin has the gate learn, if it does not yet. A target that is never asked needs no
// machine: a name may have more addresses than are ever asked.
func (g *Gate) Begin(cfg gate.Config) {
	if g.Limit() > 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.machine == nil {
		g.machine = gate.New(cfg)
		g.SetLimit(g.machine.Limit())
	}
}

// lateMost is how many answers a loop keeps for later at most.
const lateMost = 16

// Late are the answers that a loop has not reported yet, because another one was reporting.
//
// Owned by its loop.
type Late []gate.Answer

// Answered records an answer. A loop that finds another one there comes back
// with its next answer, so that loops do not wait for each other.
func (g *Gate) Answered(now time.Time, a *gate.Answer, late *Late) {
	if !g.mu.TryLock() {
		if len(*late) < lateMost {
			if a.At.IsZero() {
				a.At = now
			}
			*late = append(*late, *a)
			return
		}
		g.mu.Lock()
	}
	defer g.mu.Unlock()
	if len(*late) > 0 {
		for i := range *late {
			g.machine.Answered(now, &(*late)[i])
		}
		*late = (*late)[:0]
	}
	g.machine.Answered(now, a)
	if limit := g.machine.Limit(); limit != g.Limit() {
		g.SetLimit(limit)
	}
}

// Look returns what the gate knows; the zero Look: the target was never asked.
func (g *Gate) Look() (l gate.Look) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.machine != nil {
		l = g.machine.Look()
	}
	return l
}
