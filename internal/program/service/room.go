package service

import (
	"slices"
	"sync"

	"weir/internal/net/share"
)

// A room is where requests wait for workers.
//
// Safe for concurrent use: mu guards everything.
type room struct {
	mu      sync.Mutex
	arrived sync.Cond              // or closed
	line    *share.RoundRobin[job] // those that wait or are being answered
	refused uint64
	closed  bool
}

func newRoom(capacity int) *room {
	r := &room{line: share.NewRoundRobin[job](capacity)}
	r.arrived.L = &r.mu
	return r
}

// enter lets a request wait, whose bytes it copies, and reports whether it may.
func (r *room) enter(a job) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || !r.line.Admits(a.from.client()) {
		r.refused++
		return false
	}
	a.raw = slices.Clone(a.raw)
	r.line.Enter(a.from.client(), a)
	r.arrived.Signal()
	return true
}

// next waits for the next request to be answered. It returns false when the room is closed and
// empty.
func (r *room) next() (job, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		if a, ok := r.line.Next(); ok || r.closed {
			return a, ok
		}
		r.arrived.Wait()
	}
}

// leave gives back the place of a request that has been answered.
func (r *room) leave(a job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.line.Leave(a.from.client())
}

// refusals returns how many requests were refused.
func (r *room) refusals() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused
}

// close lets nobody in any more. Those that wait are still answered.
func (r *room) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.arrived.Broadcast()
}
