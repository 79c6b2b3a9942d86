package lane

import (
	"sync"
	"sync/atomic"
	"time"
)

// A breaker knows whether the store is away. What is told about a batch counts only
// if the batch was sent after the last change: one that was under way when the
// store went says nothing about the time since it came back.
//
// Safe for concurrent use: mu guards what decides, away is read without.
type breaker struct {
	away   atomic.Bool
	misses int // batches in a row that open it; does not change

	mu     sync.Mutex
	since  time.Time // of the last change
	missed int       // batches in a row
	miss   time.Time // when the last of them was given up
}

// failed says that a batch sent at sent met an error which means that the store
// is away. It reports whether that is news.
func (b *breaker) failed(now, sent time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open(now, sent)
}

// late says that a batch sent at sent had no answer by now. It reports whether
// the store is away from now on. Batches that were under way together count as one,
// or a few lanes could open the breaker in one moment.
func (b *breaker) late(now, sent time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if sent.Before(b.miss) {
		return false
	}
	b.miss = now
	b.missed++
	return b.missed >= b.misses && b.open(now, sent)
}

// answered says that a batch was answered in time.
func (b *breaker) answered() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.missed = 0
}

// back says that the store decides again. It reports whether that is news.
func (b *breaker) back(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.change(now, false)
}

func (b *breaker) open(now, sent time.Time) bool {
	if sent.Before(b.since) {
		return false
	}
	return b.change(now, true)
}

func (b *breaker) change(now time.Time, away bool) bool {
	if b.away.Load() == away {
		return false
	}
	b.away.Store(away)
	b.since, b.missed = now, 0
	return true
}
