package postgres

import "sync"

// An inbox keeps what waits to be written.
//
// Safe for concurrent use: mu guards all.
type inbox[T any] struct {
	mu      *sync.Mutex
	pending []T
	bytes   int64
	ended   bool
	wake    chan struct{} // has room for one
}

func newInbox[T any]() inbox[T] {
	return inbox[T]{mu: new(sync.Mutex), wake: make(chan struct{}, 1)}
}

func (b *inbox[T]) ring() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// add adds one, unless the inbox has ended or holds most already, or bytesMax.
func (b *inbox[T]) add(one T, bytes int64, most int, bytesMax int64) (added, ended bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended || len(b.pending) >= most || b.bytes+bytes > bytesMax {
		return false, b.ended
	}
	b.pending = append(b.pending, one)
	b.bytes += bytes
	b.ring()
	return true, false
}

// take takes all out.
func (b *inbox[T]) take() (all []T, ended bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all, b.pending, b.bytes = b.pending, nil, 0
	return all, b.ended
}

// close has nothing more be added.
func (b *inbox[T]) close() {
	b.mu.Lock()
	b.ended = true
	b.mu.Unlock()
	b.ring()
}
