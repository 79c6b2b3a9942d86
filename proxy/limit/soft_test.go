package limit_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
	"weir/internal/data/strict"

	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
)

// taken is how many of n asks of cost 1 go, a time after the epoch.
type taken struct {
	at   time.Duration
	n    int64
	want int64
	wait time.Duration // RetryAfter of the last, if it was refused
}

func takeAll(t *testing.T, l *limit.Limit, steps []taken) {
	t.Helper()
	var s limit.State
	for i, step := range steps {
		granted, d := l.Take(limittest.Epoch+step.at.Microseconds(), &s, 1, step.n)
		if granted != step.want || d.RetryAfter != step.wait {
			t.Errorf("%v, step %d at %v: %d of %d, then %+v; want %d, RetryAfter %v",
				l.Config(), i, step.at, granted, step.n, d, step.want, step.wait)
		}
	}
}

// A window may be exceeded for 25 s; then it is hard until the key was within it for
// 25 s.
func TestSoftWindow(t *testing.T) {
	l := limittest.Soft(limit.Config{Algorithm: limit.Fixed, Limit: 10, Window: 10}, 0.2, 25)
	takeAll(t, l, []taken{
		{1 * sec, 10, 10, 0}, // within the limit: nothing begins
		{15 * sec, 20, 12, 5 * sec},
		{20 * sec, 20, 12, 10 * sec},
		{30 * sec, 20, 12, 10 * sec},  // until 40 s
		{40 * sec, 20, 10, 10 * sec},  // hard
		{50 * sec, 20, 10, 10 * sec},  // within the limit since 40 s
		{64 * sec, 20, 10, 1 * sec},   // not for 25 s yet
		{65 * sec, 20, 2, 5 * sec},    // now
		{70 * sec, 20, 12, 10 * sec},  // until 90 s
		{89 * sec, 20, 12, 1 * sec},   // who comes last
		{115 * sec, 20, 12, 5 * sec},  // within the limit since 90 s
		{1000 * sec, 11, 11, 0},       // one is enough to begin
		{1025 * sec, 11, 10, 5 * sec}, // hard
	})
}

// A bucket lends once, and what was lent must come back before the hard limit
// admits.
func TestSoftBucket(t *testing.T) {
	l := limittest.Soft(limit.Config{Algorithm: limit.Token, Capacity: 10, FillRate: 1}, 0.3, 5)
	takeAll(t, l, []taken{
		{0, 20, 13, 1 * sec},
		{4 * sec, 20, 4, 4 * sec}, // what is at 5 s is hard: from -3 tokens that takes until 8 s
		{7 * sec, 20, 0, 1 * sec},
		{9 * sec, 20, 2, 1 * sec},
	})
	gcra := limittest.Soft(limit.Config{Algorithm: limit.GCRA, Limit: 10, Window: 10, Burst: 10}, 0.3, 5)
	takeAll(t, gcra, []taken{
		{0, 20, 13, 1 * sec},
		{4 * sec, 20, 4, 4 * sec},
		{8 * sec, 20, 1, 1 * sec},
	})
}

func TestSoftLog(t *testing.T) {
	l := limittest.Soft(limit.Config{Algorithm: limit.SlidingLog, Limit: 4, Window: 10}, 0.5, 6)
	takeAll(t, l, []taken{
		{0, 3, 3, 0},
		{2 * sec, 9, 3, 8 * sec}, // soft until 8 s; within the limit at 10 s, when the first three leave
		{8 * sec, 9, 0, 2 * sec},
		{10 * sec, 9, 1, 2 * sec},
		{16 * sec, 9, 5, 4 * sec}, // within the limit for 6 s
	})
}

// Remaining is what is left of the limit, not of what may be exceeded.
func TestSoftDoesNotShow(t *testing.T) {
	l := limittest.Soft(limit.Config{Algorithm: limit.Fixed, Limit: 10, Window: 10}, 0.2, 25)
	var s limit.State
	for i, want := range []int64{9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0} {
		if _, d := l.Take(limittest.Epoch, &s, 1, 1); !d.Allowed || d.Remaining != want || d.Limit != 10 {
			t.Errorf("request %d: %+v, want %d remaining of 10", i+1, d, want)
		}
	}
}

// A class from which some is kept back is refused first, also of what may be exceeded.
func TestSoftKeepsBack(t *testing.T) {
	l := limittest.Soft(limit.Config{Algorithm: limit.Fixed, Limit: 10, Window: 10}, 0.2, 25)
	var s limit.State
	low := limit.Charge{Cost: 1, N: 20, Reserve: l.Reserve(300)}
	if granted, d := l.Decide(limittest.Epoch, &s, low); granted != 9 || d.Remaining != 0 || d.RetryAfter != 10*sec {
		t.Errorf("the low class: %d, %+v, want 9 of 12 and nothing remaining", granted, d)
	}
	if granted, _ := l.Take(limittest.Epoch, &s, 1, 20); granted != 3 {
		t.Errorf("the high class: %d, want the 3 that are left", granted)
	}
}

// When the limit is not soft any longer, what was exceeded is made good as under any
// lowered limit.
func TestSoftEnds(t *testing.T) {
	c := limit.Config{Algorithm: limit.Token, Capacity: 10, FillRate: 1}
	soft, hard := limittest.Soft(c, 0.5, 60), limittest.Must(c)
	var s limit.State
	soft.Take(limittest.Epoch, &s, 1, 15)
	if _, d := hard.Take(limittest.Epoch, &s, 1, 1); d.Allowed || d.RetryAfter != 6*sec || d.ResetAfter != 15*sec {
		t.Errorf("5 below nothing: %+v", d)
	}
	c.FillRate = 2.5
	faster := limittest.Must(c)
	if _, d := faster.Take(limittest.Epoch+2_000_000, &s, 1, 1); d.Allowed || d.RetryAfter != 1600*ms {
		t.Errorf("3 below nothing at another rate: %+v", d)
	}
}

func TestWithSoft(t *testing.T) {
	fixed := limit.Config{Algorithm: limit.Fixed, Limit: 100, Window: 60}
	for _, test := range []struct {
		config    limit.Config
		overshoot float64
		grace     float64
		want      string // path: words; else the permits
		permits   int64
	}{
		{fixed, 0.2, 30, "", 20},
		{fixed, 0.019, 0.000001, "", 1},
		{fixed, 10, 3153600000, "", 1000},
		{limit.Config{Algorithm: limit.GCRA, Limit: 100, Window: 1, Burst: 5}, 0.2, 1, "", 1},
		{limit.Config{Algorithm: limit.Off}, 0.2, 1, "", 0},
		{fixed, 0.009, 30, "overshoot: at least one permit of the 100 at once, is 0.009", 0},
		{limit.Config{Algorithm: limit.GCRA, Limit: 1, Window: 3}, 0.5, 30, "overshoot: at least one permit", 0},
		{fixed, 0, 30, "overshoot: from 0.001 to 10", 0},
		{fixed, 0.0001, 30, "overshoot: at most 3 decimals", 0},
		{fixed, 10.001, 30, "overshoot: is 10.001", 0},
		{fixed, -1, 30, "overshoot: is -1", 0},
		{fixed, math.NaN(), 30, "overshoot: is NaN", 0},
		{fixed, 0.2, 0, "for: greater than 0", 0},
		{fixed, 0.2, 0.0000001, "for: 6 decimals", 0},
		{fixed, 0.2, 4e9, "for: at most 3153600000", 0},
		{fixed, 0.2, math.Inf(1), "for: is +Inf", 0},
		{limit.Config{Algorithm: limit.Fixed, Limit: 1 << 53, Window: 1}, 0.2, 1, "overshoot: at most 0 permits beyond", 0},
		{limit.Config{Algorithm: limit.SlidingLog, Limit: 65000, Window: 1}, 0.2, 1,
			"overshoot: at most 536 permits beyond the 65000", 0},
		{limit.Config{Algorithm: limit.Leaky, Capacity: 9006, FillRate: 33.333333}, 0.2, 1,
			"overshoot: at most 0 permits", 0},
	} {
		l, err := limittest.Must(test.config).WithSoft(limit.Soft{Overshoot: test.overshoot, For: test.grace})
		if permits, _ := l.Overshoot(); test.want == "" && (err != nil || permits != test.permits) {
			t.Errorf("%v with %v for %v: %d permits, %v", test.config, test.overshoot, test.grace, permits, err)
		}
		if test.want == "" {
			continue
		}
		path, words, _ := strings.Cut(test.want, ": ")
		if faults, ok := errors.AsType[strict.Faults](err); !ok || faults[0].Path != path ||
			!strings.Contains(faults[0].Message, words) {
			t.Errorf("%v with %v for %v: %v, want %s", test.config, test.overshoot, test.grace, err, test.want)
		}
	}
}
