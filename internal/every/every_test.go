package every

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done, began, calls := make(chan struct{}), time.Now(), 0
		Pause(done, time.Second, func(now time.Time) {
			if calls++; now.Sub(began) != time.Duration(calls)*time.Second {
				t.Errorf("call %d came after %v", calls, now.Sub(began))
			}
			if calls == 3 {
				close(done)
			}
		})
		if calls != 3 {
			t.Errorf("%d calls, want 3", calls)
		}
	})
}
