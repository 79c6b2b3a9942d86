package service

import (
	"sync"

	"weir/internal/net/share"
)

// A BoundedQueue is where items of clients wait for workers: a [share.RoundRobin] that several goroutines use.
// Each client has at most its share of the places.
//
// Safe for concurrent use: mu guards everything.
type BoundedQueue[T any] struct {
	mu      sync.Mutex
	arrived sync.Cond            // or closed
	line    *share.RoundRobin[T] // items that wait or are worked on
	refused uint64
	closed  bool
}

// NewBoundedQueue returns a BoundedQueue that holds as many items as capacity.
func NewBoundedQueue[T any](capacity int) *BoundedQueue[T] {
	r := &BoundedQueue[T]{line: share.NewRoundRobin[T](capacity)}
	r.arrived.L = &r.mu
	return r
}

// Enter lets an item of c wait, and reports whether it may. item makes it, and is only called if it may.
func (r *BoundedQueue[T]) Enter(c share.Client, item func() T) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || !r.line.Admits(c) {
		r.refused++
		return false
	}
	r.line.Enter(c, item())
	r.arrived.Signal()
	return true
}

// Next waits for the next item to work on. It returns false when the queue is closed and empty.
func (r *BoundedQueue[T]) Next() (item T, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		if item, ok = r.line.Next(); ok || r.closed {
			return item, ok
		}
		r.arrived.Wait()
	}
}

// Leave gives back the place of an item of c that Next has returned.
func (r *BoundedQueue[T]) Leave(c share.Client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.line.Leave(c)
}

// Refused returns how many items were refused.
func (r *BoundedQueue[T]) Refused() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused
}

// Close refuses all further items. Those that wait are still returned by Next.
func (r *BoundedQueue[T]) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.arrived.Broadcast()
}
