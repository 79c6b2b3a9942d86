// Package every limits how often things are done: functions are called, and log lines written,
// once per interval.
package every

import "time"

// Pause calls do once per pause until done is closed. If a call takes longer than a pause,
// the next follows immediately.
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
