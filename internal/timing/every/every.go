// Package every limits how often something is done. Functions are called and log lines written at
// most once per interval, and several wake-ups that are requested together count once.
package every

import (
	"sync"
	"time"
)

// Interval calls do once per pause until done is closed. If a call takes longer than a pause,
// the next follows immediately.
func Interval(done <-chan struct{}, pause time.Duration, do func(now time.Time)) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case now := <-tick.C:
			do(now)
		}
	}
}

// Notify wakes the goroutine that receives from bell, now or when it next receives. The capacity of
// bell is 1, so that it wakes once for all that has rung before.
func Notify(bell chan<- struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// A LogThrottle limits log lines that every request could cause to one per interval, and counts the
// others. Its zero value lets the first line through.
//
// Safe for concurrent use: mu guards everything.
type LogThrottle struct {
	mu     sync.Mutex
	last   time.Time
	missed int
}

// Allow reports whether a line may be written, and how many were not since the last one.
func (t *LogThrottle) Allow(now time.Time, interval time.Duration) (missed int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.last.IsZero() && now.Sub(t.last) < interval {
		t.missed++
		return 0, false
	}
	missed, t.missed, t.last = t.missed, 0, now
	return missed, true
}

// Reset lets the next line through immediately.
func (t *LogThrottle) Reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last, t.missed = time.Time{}, 0
}
