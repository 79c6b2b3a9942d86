// Package every calls functions periodically.
package every

import "time"

// Pause calls do with each pause until done is closed. A call that takes longer than a
// pause is followed by the next at once.
func Pause(done <-chan struct{}, pause time.Duration, do func(now time.Time)) {
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
