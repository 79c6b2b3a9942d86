package every

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done, began, calls := make(chan struct{}), time.Now(), 0
		Interval(done, time.Second, func(now time.Time) {
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

func TestSparse(t *testing.T) {
	var s LogThrottle
	began := time.Unix(1e9, 0)
	for _, step := range []struct {
		at     time.Duration
		missed int
		ok     bool
	}{
		{0, 0, true}, {0, 0, false}, {time.Minute - 1, 0, false}, {-time.Hour, 0, false}, {time.Minute, 3, true},
		{2*time.Minute - 1, 0, false},
		{-1, 0, true}, // after Reset
	} {
		if step.at == -1 {
			s.Reset()
		}
		if missed, ok := s.Allow(began.Add(step.at), time.Minute); missed != step.missed || ok != step.ok {
			t.Errorf("at %v: %d, %v, want %d, %v", step.at, missed, ok, step.missed, step.ok)
		}
	}
}
