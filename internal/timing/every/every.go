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
func (s *LogThrottle) Allow(now time.Time, interval time.Duration) (missed int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.last.IsZero() && now.Sub(s.last) < interval {
		s.missed++
		return 0, false
	}
	missed, s.missed, s.last = s.missed, 0, now
	return missed, true
}

// Reset lets the next line through immediately.
func (s *LogThrottle) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last, s.missed = time.Time{}, 0
}
