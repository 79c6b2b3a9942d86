package gates

import (
	"sync"
	"sync/atomic"
	"time"

	"weir/proxy/targets/gate"
)

// A Gate is the gate of one target, shared by all loops.
//
// Safe for concurrent use: mu guards the machine, everything else is an atomic word.
type Gate struct {
	gate.Places
	Waiting atomic.Int64                      // exchanges for this target that wait for a place at any target
	Shed    [ClassesMax]atomic.Uint64         // by class: exchanges that were shed
	usual   [gate.LatencyClasses]atomic.Int64 // by class of requests: usual answer times; 0: unknown

	mu      sync.Mutex
	machine *gate.Gate // nil: no request was sent to the target yet
}

// Begin creates the machine within the bounds of all, if there is none. Its first limit is first, or
// the upper bound if first is 0. Targets without requests need none: a name may have more addresses
// than are ever used.
func (g *Gate) Begin(all *Gates, first int) {
	if g.Limit() > 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.machine == nil {
		cfg := all.Bounds() // Advise changes them afterwards, or has changed them
		cfg.First = first
		g.machine = gate.New(cfg)
		g.SetLimit(g.machine.Limit())
	}
}

// Bound changes the upper bound of the limit, if there is a machine.
func (g *Gate) Bound(most int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.machine != nil {
		g.machine.Bound(most)
		g.SetLimit(g.machine.Limit())
	}
}

// lateMost bounds the answers that a loop keeps for later.
const lateMost = 16

// PendingResponses are the answers that a loop has not recorded yet, because another loop was recording one.
//
// Owned by its loop.
type PendingResponses []late

// A late is an answer that was to be recorded earlier.
type late struct {
	gate.Response
	at time.Time
}

// Answered records an answer. If another loop is recording one, the answer is kept until the
// loop's next call, so that loops do not wait for each other.
func (g *Gate) Answered(now time.Time, a *gate.Response, kept *PendingResponses) {
	a.Crowded, a.Alone = g.Free() <= 0, g.InFlight() <= 1
	if !g.mu.TryLock() {
		if len(*kept) < lateMost {
			*kept = append(*kept, late{*a, now})
			return
		}
		g.mu.Lock()
	}
	defer g.mu.Unlock() // loops continue after a panic
	for i := range *kept {
		l := &(*kept)[i]
		l.Ago += now.Sub(l.at)
		l.Alone = l.Alone && a.Alone
		g.machine.Answered(now, &l.Response)
	}
	*kept = (*kept)[:0]
	if g.machine.Answered(now, a) {
		for class := range g.usual {
			g.usual[class].Store(int64(g.machine.Usual(class)))
		}
	}
	if limit := g.machine.Limit(); limit != g.Limit() {
		g.SetLimit(limit)
	}
	g.SetDown(g.machine.Down())
	g.SetBusy(g.machine.Busy())
	g.SetStalled(g.machine.Stalled())
}

// Waits tells the machine that a request of a class waits for a place, and reports whether there are
// more places now. While another loop uses the machine it does nothing and returns false.
func (g *Gate) Waits(now time.Time, class int) bool {
	if !g.mu.TryLock() {
		return false
	}
	defer g.mu.Unlock()
	if g.machine == nil || !g.machine.Waits(now, class) {
		return false
	}
	g.SetLimit(g.machine.Limit())
	g.SetStalled(g.machine.Stalled())
	return true
}

// Usual returns how long answers to requests of a class usually take at present; 0: unknown.
func (g *Gate) Usual(class int) time.Duration { return time.Duration(g.usual[class].Load()) }

// Long is [gate.Gate.Long], as of the last decision of the machine.
func (g *Gate) Long(class int, took time.Duration) bool {
	usual := g.Usual(class)
	return usual > 0 && !g.Busy() && took > gate.LongFactor*usual
}

// State returns the state of the gate. It is zero if no request was sent to the target yet.
func (g *Gate) State() (l gate.State) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.machine != nil {
		l = g.machine.State()
	}
	return l
}
