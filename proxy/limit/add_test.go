package limit_test

import (
	"testing"
	"time"

	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
)

// Each key has taken at three instants, and is given permits at another.
func TestAdd(t *testing.T) {
	fixed := limit.Config{Algorithm: limit.Fixed, Limit: 10, Window: 10}
	sliding := limit.Config{Algorithm: limit.Sliding, Limit: 10, Window: 10}
	token := limit.Config{Algorithm: limit.Token, Capacity: 10, FillRate: 0.5}
	log := limit.Config{Algorithm: limit.SlidingLog, Limit: 10, Window: 10}
	gcra := limit.Config{Algorithm: limit.GCRA, Limit: 1, Window: 2, Burst: 10}
	leaky := limit.Config{Algorithm: limit.Leaky, Capacity: 10, FillRate: 0.1}
	off := limit.Config{Algorithm: limit.Off}
	for _, test := range []struct {
		name    string
		cfg     limit.Config
		taken   [3]time.Duration // 3, 3 and 4 permits
		at      time.Duration
		n       int64
		changed bool
		left    int64
		reset   time.Duration
	}{
		{"some of a window", fixed, [3]time.Duration{0, 1 * sec, 2 * sec}, 3 * sec, 4, true, 4, 7 * sec},
		{"more than was taken", fixed, [3]time.Duration{0, 1 * sec, 2 * sec}, 3 * sec, 11, true, 10, 0},
		{"nothing", fixed, [3]time.Duration{0, 1 * sec, 2 * sec}, 3 * sec, 0, false, 0, 7 * sec},
		{"a window that is over", fixed, [3]time.Duration{0, 1 * sec, 2 * sec}, 10 * sec, 4, false, 10, 0},
		{"a clock that steps back", fixed, [3]time.Duration{10 * sec, 11 * sec, 12 * sec}, 9 * sec, 4, true, 4, 11 * sec},
		{"this window before the one before", sliding, [3]time.Duration{0, 1 * sec, 11 * sec}, 15 * sec, 2, true, 5,
			10000001 * time.Microsecond},
		{"the one before, too", sliding, [3]time.Duration{0, 1 * sec, 11 * sec}, 15 * sec, 5, true, 8,
			3000001 * time.Microsecond},
		{"both windows whole", sliding, [3]time.Duration{0, 1 * sec, 11 * sec}, 15 * sec, 7, true, 10, 0},
		{"tokens", token, [3]time.Duration{0, 0, 0}, 2 * sec, 4, true, 5, 10 * sec},
		{"a full bucket", token, [3]time.Duration{0, 0, 0}, 2 * sec, 1 << 62, true, 10, 0},
		{"a bucket that is full", token, [3]time.Duration{0, 0, 0}, 20 * sec, 1, false, 10, 0},
		{"some of the oldest", log, [3]time.Duration{0, 1 * sec, 2 * sec}, 3 * sec, 2, true, 2, 9 * sec},
		{"the oldest and some of the next", log, [3]time.Duration{0, 1 * sec, 2 * sec}, 3 * sec, 4, true, 4, 9 * sec},
		{"those that have not left", log, [3]time.Duration{0, 1 * sec, 2 * sec}, 11 * sec, 3, true, 9, 1 * sec},
		{"a whole log", log, [3]time.Duration{0, 1 * sec, 2 * sec}, 3 * sec, 10, true, 10, 0},
		{"a log that is over", log, [3]time.Duration{0, 1 * sec, 2 * sec}, 12 * sec, 1, false, 10, 0},
		{"intervals", gcra, [3]time.Duration{0, 0, 0}, 1 * sec, 4, true, 4, 11 * sec},
		{"all intervals", gcra, [3]time.Duration{0, 0, 0}, 1 * sec, 1<<63 - 1, true, 10, 0},
		{"places that others were told", leaky, [3]time.Duration{0, 0, 0}, 1 * sec, 4, false, 1, 99 * sec},
		{"no limit", off, [3]time.Duration{0, 0, 0}, 1 * sec, 4, false, limit.Unlimited, 0},
	} {
		l, s := limittest.Must(test.cfg), limit.State{}
		for i, at := range test.taken {
			if _, d := l.Take(limittest.Epoch+at.Microseconds(), &s, []int64{3, 3, 4}[i], 1); !d.Allowed {
				t.Fatalf("%s: step %d: %+v", test.name, i, d)
			}
		}
		now := limittest.Epoch + test.at.Microseconds()
		before := s.Append(nil)
		if changed := s.Add(now, test.n); changed != test.changed {
			t.Errorf("%s: changed %v, want %v", test.name, changed, test.changed)
		} else if !changed && string(s.Append(nil)) != string(before) {
			t.Errorf("%s: a key which could use nothing was written", test.name)
		}
		if d := l.Preview(now, &s, limit.Charge{Cost: 0}); d.Remaining != test.left || d.ResetAfter != test.reset {
			t.Errorf("%s: %d left for %v, want %d for %v", test.name, d.Remaining, d.ResetAfter, test.left, test.reset)
		}
	}
}

// What exceeds a soft limit is made good first, and that it was exceeded stays known.
func TestAddToSoft(t *testing.T) {
	l, s := limittest.Soft(limit.Config{Algorithm: limit.Token, Capacity: 10, FillRate: 0.1}, 0.5, 2), limit.State{}
	l.Take(limittest.Epoch, &s, 1, 15)
	now := limittest.Epoch + 3_000_000 // overshoot may be used no longer
	for _, step := range []struct{ n, room int64 }{{4, 0}, {1, 0}, {1, 1}, {100, 10}} {
		s.Add(now, step.n)
		if room := l.RoomFor(now, &s, limit.Charge{Cost: 1, N: 99}); room != step.room {
			t.Errorf("after %d more were given: room for %d, want %d", step.n, room, step.room)
		}
	}
}

// What a key is given counts under every limit of the kind.
func TestAddBeforeALimitChange(t *testing.T) {
	small := limittest.Must(limit.Config{Algorithm: limit.Token, Capacity: 4, FillRate: 0.1})
	large := limittest.Must(limit.Config{Algorithm: limit.Token, Capacity: 8, FillRate: 0.2})
	var s limit.State
	if s.Add(limittest.Epoch, 2) {
		t.Error("a key never seen could use some")
	}
	small.Take(limittest.Epoch, &s, 1, 3)
	if !s.Add(limittest.Epoch, 2) || large.RoomFor(limittest.Epoch, &s, limit.Charge{Cost: 1, N: 99}) != 7 {
		t.Errorf("room for %d, want 7", large.RoomFor(limittest.Epoch, &s, limit.Charge{Cost: 1, N: 99}))
	}
	defer func() {
		if recover() == nil {
			t.Error("a negative number of permits was given")
		}
	}()
	s.Add(limittest.Epoch, -1)
}
