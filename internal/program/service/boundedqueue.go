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
func (q *BoundedQueue[T]) Enter(c share.Client, item func() T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || !q.line.Admits(c) {
		q.refused++
		return false
	}
	q.line.Enter(c, item())
	q.arrived.Signal()
	return true
}

// Next waits for the next item to work on. It returns false when the queue is closed and empty.
func (q *BoundedQueue[T]) Next() (item T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		if item, ok = q.line.Next(); ok || q.closed {
			return item, ok
		}
		q.arrived.Wait()
	}
}

// Leave gives back the place of an item of c that Next has returned.
func (q *BoundedQueue[T]) Leave(c share.Client) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.line.Leave(c)
}

// Refused returns how many items were refused.
func (q *BoundedQueue[T]) Refused() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.refused
}

// Close refuses all further items. Those that wait are still returned by Next.
func (q *BoundedQueue[T]) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.arrived.Broadcast()
}
