package lane

import (
	"sync"
	"sync/atomic"
	"time"
)

// A breaker is open while the store is unavailable. The outcome of a batch counts only if the
// batch was sent after the last change: one that was in flight when the breaker opened says
// nothing about the time after it closed.
//
// Safe for concurrent use: mu guards changes, isOpen is read without.
type breaker struct {
	isOpen atomic.Bool
	misses int // late batches in a row that open it; does not change

	mu     sync.Mutex
	since  time.Time // of the last change
	missed int       // late batches in a row
	miss   time.Time // when the last of them was given up
}

// failed records that a batch sent at sent met an error which means that the store is
// unavailable. It reports whether that opened the breaker.
func (b *breaker) failed(now, sent time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !sent.Before(b.since) && b.change(now, true)
}

// late records that a batch sent at sent had no answer by now. It reports whether that opened
// the breaker. Batches that were in flight together count as one, because otherwise a few
// lanes could open the breaker at a single moment.
func (b *breaker) late(now, sent time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if sent.Before(b.miss) {
		return false
	}
	b.miss = now
	b.missed++
	return b.missed >= b.misses && !sent.Before(b.since) && b.change(now, true)
}

// answered records that a batch was answered in time.
func (b *breaker) answered() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.missed = 0
}

// back records that the store decides again. It reports whether that closed the breaker.
func (b *breaker) back(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.change(now, false)
}

func (b *breaker) change(now time.Time, open bool) bool {
	if b.isOpen.Load() == open {
		return false
	}
	b.isOpen.Store(open)
	b.since, b.missed = now, 0
	return true
}
