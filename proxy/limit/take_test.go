package limit_test

import (
	"testing"
	"time"
	"unsafe"

	"weir/internal/test/testkit"
	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
)

const (
	ms  = time.Millisecond
	sec = time.Second
)

// A step is one call, at a time after the epoch of the tests. Without deny all n
// asks, 1 if n is 0, must be admitted; with it, the last is refused with that
// RetryAfter and granted were admitted before.
type step struct {
	at      time.Duration
	cost, n int64
	granted int64
	deny    time.Duration
	left    int64
	reset   time.Duration
	limit   *limit.Config // from here on
}

func run(t *testing.T, c limit.Config, steps []step) {
	t.Helper()
	l := limittest.Must(c)
	var s limit.State
	for i, step := range steps {
		if step.limit != nil {
			l = limittest.Must(*step.limit)
		}
		n := max(step.n, 1)
		want := limit.Decision{
			Allowed:    step.deny == 0,
			Remaining:  step.left,
			Limit:      l.Permits(),
			RetryAfter: step.deny,
			ResetAfter: step.reset,
		}
		wantGranted := step.granted
		if step.deny == 0 {
			wantGranted = n
		}
		granted, d := l.Take(limittest.Epoch+step.at.Microseconds(), &s, step.cost, n)
		if granted != wantGranted || d != want {
			t.Errorf("step %d at %v:\n got %d, %+v\nwant %d, %+v", i, step.at, granted, d, wantGranted, want)
		}
	}
}

func TestFixed(t *testing.T) {
	run(t, limit.Config{Algorithm: limit.Fixed, Limit: 3, Window: 10}, []step{
		{at: 4 * sec, cost: 0, left: 3}, // a look at a new key
		{at: 4 * sec, cost: 1, left: 2, reset: 6 * sec},
		{at: 5 * sec, cost: 2, left: 0, reset: 5 * sec},
		{at: 5 * sec, cost: 1, deny: 5 * sec, left: 0, reset: 5 * sec},
		{at: 10*sec - 1*time.Microsecond, cost: 1, deny: time.Microsecond, reset: time.Microsecond},
		{at: 10 * sec, cost: 1, left: 2, reset: 10 * sec},
		{at: 11 * sec, cost: 3, deny: 9 * sec, left: 2, reset: 9 * sec}, // refused, so nothing is consumed
		{at: 11 * sec, cost: 2, left: 0, reset: 9 * sec},
		{at: 12 * sec, cost: 4, deny: limit.Never, left: 0, reset: 8 * sec},
		{at: 50 * sec, cost: 1, n: 5, granted: 3, deny: 10 * sec, left: 0, reset: 10 * sec},
		{at: 99 * sec, cost: 1, n: 2, left: 1, reset: 1 * sec},
		{at: 95 * sec, cost: 1, left: 0, reset: 5 * sec}, // time may step back
		{at: 95 * sec, cost: 1, deny: 5 * sec, left: 0, reset: 5 * sec},
		{at: 89 * sec, cost: 1, deny: 11 * sec, left: 0, reset: 11 * sec}, // it never mints permits
		{at: 80 * sec, cost: 1, deny: 10 * sec, left: 0, reset: 10 * sec}, // by more than a window: all count from now
		{at: 89 * sec, cost: 1, deny: 1 * sec, left: 0, reset: 1 * sec},   // and not again
		{at: 90 * sec, cost: 1, left: 2, reset: 10 * sec},
	})
}

// 7 per window, 5 before and 3 now, 30 % into the window: 5·0.7 + 3 = 6.5 count,
// so that one more goes.
func TestSlidingWeighsThePreviousWindow(t *testing.T) {
	run(t, limit.Config{Algorithm: limit.Sliding, Limit: 7, Window: 10}, []step{
		{at: 9 * sec, cost: 1, n: 5, left: 2, reset: 9*sec + 1*time.Microsecond},
		{at: 10 * sec, cost: 1, n: 2, left: 0, reset: 15*sec + 1*time.Microsecond},
		{at: 12*sec + 1*time.Microsecond, cost: 1, left: 1, reset: 14666666 * time.Microsecond},
		{at: 13 * sec, cost: 0, left: 1, reset: 13666667 * time.Microsecond},
		{at: 13 * sec, cost: 1, left: 0, reset: 14500001 * time.Microsecond},
		{at: 13 * sec, cost: 1, deny: 1000001 * time.Microsecond, left: 0, reset: 14500001 * time.Microsecond},
	})
}

// A full limit just before the end of a window leaves nothing for its beginning.
func TestSlidingDoesNotDoubleAroundABoundary(t *testing.T) {
	run(t, limit.Config{Algorithm: limit.Sliding, Limit: 100, Window: 10}, []step{
		{at: 9999 * ms, cost: 1, n: 100, left: 0, reset: 9901*ms + 1*time.Microsecond},
		{at: 10 * sec, cost: 1, n: 100, granted: 0, deny: time.Microsecond, left: 0, reset: 9900*ms + 1*time.Microsecond},
		{at: 10*sec + 50*ms, cost: 1, n: 100, granted: 1, deny: 50*ms + 1*time.Microsecond, left: 0,
			reset: 19850*ms - 9900*ms + 1*time.Microsecond},
	})
}

// In long windows sliding counts elapsed time in milliseconds, in those of more
// than a day in seconds.
func TestSlidingResolution(t *testing.T) {
	run(t, limit.Config{Algorithm: limit.Sliding, Limit: 2, Window: 100}, []step{
		{at: 100 * sec, cost: 2, left: 0, reset: 150*sec + 1*ms},
		{at: 200 * sec, cost: 1, deny: 1 * ms, left: 0, reset: 50*sec + 1*ms},
		{at: 200*sec + 999*time.Microsecond, cost: 1, deny: time.Microsecond, left: 0, reset: 50*sec + 1*time.Microsecond},
		{at: 200*sec + 1*ms, cost: 1, left: 0, reset: 100*sec + 0*ms},
	})
	run(t, limit.Config{Algorithm: limit.Sliding, Limit: 2, Window: 1_000_000}, []step{
		{at: 0, cost: 2, left: 0, reset: (1_000_000-780_800)*sec + 500_001*sec},
	})
}

func TestToken(t *testing.T) {
	run(t, limit.Config{Algorithm: limit.Token, Capacity: 10, FillRate: 4}, []step{
		{at: 0, cost: 10, left: 0, reset: 2500 * ms}, // starts full
		{at: 0, cost: 1, deny: 250 * ms, left: 0, reset: 2500 * ms},
		{at: 249 * ms, cost: 1, deny: 1 * ms, left: 0, reset: 2251 * ms},
		{at: 250 * ms, cost: 1, left: 0, reset: 2500 * ms},
		{at: 200 * ms, cost: 1, deny: 300 * ms, left: 0, reset: 2550 * ms}, // time may step back; it never mints permits
		{at: 875 * ms, cost: 1, n: 5, granted: 2, deny: 125 * ms, left: 0, reset: 2375 * ms},
		{at: 1 * sec, cost: 11, deny: limit.Never, left: 1, reset: 2250 * ms},
		{at: 9 * sec, cost: 0, left: 10},
		{at: 9 * sec, cost: 3, n: 2, left: 4, reset: 1500 * ms},
	})
}

// With a rate that no float64 represents, asking in each microsecond yields as much in the end as
// asking once.
func TestTokenLosesNothingToRounding(t *testing.T) {
	l := limittest.Must(limit.Config{Algorithm: limit.Token, Capacity: 3, FillRate: 0.3})
	var s limit.State
	l.Take(limittest.Epoch, &s, 3, 1)
	for now := int64(1); now < 10_000; now++ {
		l.Take(limittest.Epoch+now, &s, 1, 1)
	}
	want := time.Second*10/3 - 9_999*time.Microsecond + time.Microsecond
	if _, d := l.Take(limittest.Epoch+9_999, &s, 1, 1); d.RetryAfter != want.Truncate(time.Microsecond) {
		t.Errorf("RetryAfter %v, want %v", d.RetryAfter, want)
	}
}

// What was consumed stays so where only amounts change.
func TestLimitChangeKeepsConsumption(t *testing.T) {
	fixed := limit.Config{Algorithm: limit.Fixed, Limit: 10, Window: 10}
	lowered, raised, shorter := fixed, fixed, fixed
	lowered.Limit, raised.Limit, shorter.Window = 4, 12, 5
	run(t, fixed, []step{
		{at: 1 * sec, cost: 6, left: 4, reset: 9 * sec},
		{at: 2 * sec, limit: &lowered, cost: 1, deny: 8 * sec, left: 0, reset: 8 * sec},
		{at: 3 * sec, limit: &raised, cost: 1, left: 5, reset: 7 * sec},
		{at: 4 * sec, limit: &shorter, cost: 1, left: 9, reset: 1 * sec}, // another window: afresh
	})
	bucket := limit.Config{Algorithm: limit.Token, Capacity: 10, FillRate: 1}
	smaller, larger, faster := bucket, bucket, bucket
	smaller.Capacity, larger.Capacity, faster.FillRate = 3, 20, 2
	run(t, bucket, []step{
		{at: 0, cost: 5, left: 5, reset: 5 * sec},
		{at: 0, limit: &smaller, cost: 1, deny: 3 * sec, left: 0, reset: 5 * sec}, // two more are missing than it holds
		{at: 0, limit: &larger, cost: 0, left: 15, reset: 5 * sec},
		{at: 2 * sec, limit: &faster, cost: 0, left: 7, reset: 1500 * ms}, // the old rate until now
		{at: 3 * sec, cost: 0, left: 9, reset: 500 * ms},                  // the new one from then on
		{at: 3 * sec, limit: &fixed, cost: 1, left: 9, reset: 7 * sec},    // another algorithm: afresh
	})
}

// A bucket that becomes much smaller and slower is empty when it would have been full at
// the old rate, and not only when all that was taken has come back at the new one.
func TestSmallerBucketOwesNoLonger(t *testing.T) {
	large := limit.Config{Algorithm: limit.Token, Capacity: 1000, FillRate: 1000}
	small := limit.Config{Algorithm: limit.Token, Capacity: 10, FillRate: 1}
	smaller := limit.Config{Algorithm: limit.Token, Capacity: 5, FillRate: 0.5}
	run(t, large, []step{
		{at: 0, cost: 1000, left: 0, reset: 1 * sec},
		{at: 0, limit: &small, cost: 1, deny: 2 * sec, left: 0, reset: 1000 * sec},
		{at: 500 * ms, limit: &smaller, cost: 1, deny: 2500 * ms, left: 0, reset: 1999 * sec},
		{at: 500 * ms, limit: &small, cost: 1, deny: 1500 * ms, left: 0, reset: 999500 * ms},
		{at: 2 * sec, cost: 1, left: 0, reset: 10 * sec},
		{at: 2 * sec, limit: &large, cost: 0, left: 990, reset: 10 * ms},
		{at: 2 * sec, cost: 990, left: 0, reset: 1 * sec}, // takes turns
		{at: 2500 * ms, limit: &small, cost: 1, deny: 1500 * ms, left: 0, reset: 500 * sec},
		{at: 2500 * ms, limit: &large, cost: 0, left: 500, reset: 500 * ms},
	})
}

// A refused ask adopts a changed limit like any other, so that its RetryAfter is correct.
func TestRetryAfterHoldsAcrossALimitChange(t *testing.T) {
	slow := limit.Config{Algorithm: limit.Token, Capacity: 10, FillRate: 1}
	fast := limit.Config{Algorithm: limit.Token, Capacity: 10, FillRate: 4}
	run(t, slow, []step{
		{at: 0, cost: 10, left: 0, reset: 10 * sec},
		{at: 1 * sec, limit: &fast, cost: 5, deny: 1 * sec, left: 1, reset: 2250 * ms},
		{at: 2 * sec, cost: 5, left: 0, reset: 2500 * ms},
	})
}

func TestLimitOfZeroRefusesEverything(t *testing.T) {
	for _, a := range []limit.Algorithm{limit.Fixed, limit.Sliding} {
		l := testkit.Must(limit.WireParams{Algorithm: a, WindowOrRate: sec.Microseconds()}.Limit())(t)
		var s limit.State
		granted, d := l.Take(limittest.Epoch, &s, 1, 1)
		if want := (limit.Decision{RetryAfter: limit.Never}); granted != 0 || d != want {
			t.Errorf("got %d, %+v, want 0, %+v", granted, d, want)
		}
	}
}

// The largest numbers that are accepted are counted exactly too.
func TestExtremes(t *testing.T) {
	const most = 1 << 53
	const century = 100 * 365 * 24 * 3600
	for _, c := range []limit.Config{
		{Algorithm: limit.Fixed, Limit: most, Window: century},
		{Algorithm: limit.Sliding, Limit: most / 60_000_000, Window: 60},
		{Algorithm: limit.Sliding, Limit: most / 86_400_000, Window: 86_400},
		{Algorithm: limit.Sliding, Limit: most / century, Window: century},
		{Algorithm: limit.Token, Capacity: most, FillRate: 10_000_000},
		{Algorithm: limit.Token, Capacity: 9007, FillRate: 9_007_199_253.000001},
		{Algorithm: limit.Token, Capacity: 3153, FillRate: 0.000001},
		{Algorithm: limit.SlidingLog, Limit: limit.LogMax, Window: century},
		{Algorithm: limit.GCRA, Limit: 1, Window: century},
		{Algorithm: limit.GCRA, Limit: most, Window: 60, Burst: most / 60_000_000},
		{Algorithm: limit.GCRA, Limit: 7, Window: 86_400, Burst: most / 86_400_000_000},
		{Algorithm: limit.Leaky, Capacity: most - 1, FillRate: 10_000_000},
		{Algorithm: limit.Leaky, Capacity: 3152, FillRate: 0.000001},
	} {
		l := limittest.Must(c)
		var s limit.State
		var m limittest.Model
		for i, ask := range [][2]int64{{0, l.Burst() - 1}, {1, 2}, {1, 1}, {1, 1}, {1 << 40, 1}, {1 << 50, l.Burst()}} {
			granted, d := l.Take(limittest.Epoch+ask[0], &s, ask[1], 1)
			wantGranted, want := m.Take(limittest.Epoch+ask[0], l, limit.Charge{Cost: ask[1], N: 1})
			if granted != wantGranted || d != want {
				t.Errorf("%v, ask %d:\n got %d, %+v\nwant %d, %+v", c, i, granted, d, wantGranted, want)
			}
		}
		late := limit.Charge{Cost: l.Burst() + 1, N: 3, Debt: l.Debt(100)}
		granted, d := l.Decide(limittest.Epoch+1<<50, &s, late)
		wantGranted, want := m.Take(limittest.Epoch+1<<50, l, late)
		if granted != wantGranted || d != want || late.Debt > most {
			t.Errorf("%v, with debt:\n got %d, %+v\nwant %d, %+v", c, granted, d, wantGranted, want)
		}
	}
}

// The refill of decades does not wrap around: here it is 2^66 parts.
func TestLongIdleFillsTheBucket(t *testing.T) {
	l := limittest.Must(limit.Config{Algorithm: limit.Token, Capacity: 100, FillRate: 201.326592})
	var s limit.State
	l.Take(limittest.Epoch, &s, 100, 1)
	if _, d := l.Take(limittest.Epoch+1<<50, &s, 0, 1); d.Remaining != 100 {
		t.Errorf("after 35 years: %+v", d)
	}
}

// A wait that a time.Duration cannot hold is the longest one, not Never: it does
// end.
func TestWaitsDoNotOverflow(t *testing.T) {
	const century = 100 * 365 * 24 * 3600
	l := limittest.Must(limit.Config{Algorithm: limit.Sliding, Limit: 1000, Window: century})
	var s limit.State
	l.Take(2*century*1e6-1, &s, 1000, 1)
	_, d := l.Take(0, &s, 1000, 1)
	if d.RetryAfter < 290*365*24*time.Hour || d.RetryAfter == limit.Never || d.TTL() < d.ResetAfter {
		t.Errorf("stepping back from the year 2169: %+v, TTL %v", d, d.TTL())
	}
}

// RoomFor and Preview say what Take does, and change nothing.
func TestRoomAndPreview(t *testing.T) {
	l := limittest.Must(limit.Config{Algorithm: limit.Token, Capacity: 10, FillRate: 1})
	var s limit.State
	l.Take(limittest.Epoch, &s, 3, 1)
	before := s
	if room := l.RoomFor(limittest.Epoch, &s, limit.Charge{Cost: 2, N: 100}); room != 3 {
		t.Errorf("room for %d of cost 2 in 7 tokens, want 3", room)
	}
	if d := l.Preview(limittest.Epoch, &s, limit.Charge{Cost: 9}); d.Allowed || d.RetryAfter != 2*sec || d.Remaining != 7 {
		t.Errorf("peek for 9 in 7 tokens: %+v", d)
	}
	if d := l.Preview(limittest.Epoch, &s, limit.Charge{Cost: 7}); !d.Allowed || d.Remaining != 7 {
		t.Errorf("peek for 7 in 7 tokens: %+v", d)
	}
	if s != before {
		t.Errorf("the state changed from %+v to %+v", before, s)
	}
}

// A store that forgets a key after its TTL hands back what is full anyway.
func TestTTLNeverRefills(t *testing.T) {
	for _, l := range limittest.Limits() {
		var s limit.State
		_, d := l.Take(limittest.Epoch+1, &s, l.Burst(), 1)
		if d.TTL() < d.ResetAfter+sec || d.TTL() > d.ResetAfter+sec+ms {
			t.Errorf("%v: TTL %v, ResetAfter %v", l.Config(), d.TTL(), d.ResetAfter)
		}
		if d.TTL()%ms != 0 {
			t.Errorf("%v: TTL %v is not in whole milliseconds", l.Config(), d.TTL())
		}
	}
	if forever := (limit.Decision{ResetAfter: limit.Never}).TTL(); forever <= 0 {
		t.Errorf("TTL %v overflowed", forever)
	}
}

func TestMistakesPanic(t *testing.T) {
	l := limittest.Must(limit.Config{Algorithm: limit.Fixed, Limit: 1, Window: 1})
	for name, call := range map[string]func(){
		"a negative cost": func() { l.Take(0, new(limit.State), -1, 1) },
		"a negative n":    func() { l.Take(0, new(limit.State), 1, -1) },
		"the zero Limit":  func() { new(limit.Limit).Take(0, new(limit.State), 1, 1) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s did not panic", name)
				}
			}()
			call()
		}()
	}
}

// Scripts in other stores read and write these bytes.
func TestStateAsBytes(t *testing.T) {
	l := limittest.Must(limit.Config{Algorithm: limit.Sliding, Limit: 9, Window: 1})
	var s, back limit.State
	l.Take(1_500_000, &s, 3, 1)
	l.Take(2_000_007, &s, 4, 1)
	var b [limit.StateBytes]byte
	s.Put(&b)
	want := [limit.StateBytes]byte{
		0x40, 0x42, 0x0f, 0, 0, 0, 0, 2, // 1,000,000 µs, sliding
		0x87, 0x84, 0x1e, 0, 0, 0, 0, 0, // at 2,000,007
		4, 0, 0, 0, 0, 0, 0, 0, // in this window
		3, 0, 0, 0, 0, 0, 0, 0, // in the one before
	}
	if b != want {
		t.Errorf("got % x\nwant % x", b, want)
	}
	if back.Read(&b); back != s {
		t.Errorf("%+v was read back as %+v", s, back)
	}
}

func TestStateIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(limit.State{}); size > 56 {
		t.Errorf("a State takes %d bytes, more than 56", size)
	}
}

func TestTakeDoesNotAllocate(t *testing.T) {
	for _, l := range limittest.Limits() {
		var s limit.State
		now := limittest.Epoch
		if n := testing.AllocsPerRun(100, func() { now++; l.Take(now, &s, 1, 2) }); n != 0 {
			t.Errorf("%v: %v allocations", l.Config(), n)
		}
	}
}

// From the largest bucket that there is to the finest: no product overflows.
func TestLimitChangeAtTheExtremes(t *testing.T) {
	const now = 1_800_000_000_000_000
	large := testkit.Must(limit.New(limit.Config{Algorithm: limit.Token, Capacity: 1 << 53, FillRate: 1_000_000_000}))(t)
	fine := testkit.Must(limit.New(limit.Config{Algorithm: limit.Token, Capacity: 5, FillRate: 0.000007}))(t)
	var s limit.State
	if granted, _ := large.Take(now, &s, 1<<52, 1); granted != 1 {
		t.Fatalf("the large bucket granted %d, want 1", granted)
	}
	if granted, _ := fine.Take(now, &s, 1, 6); granted != 0 {
		t.Errorf("of 6 asks %d were granted, of a bucket that lacks far more than it holds", granted)
	}
	var full limit.State
	large.Take(now, &full, 3, 1)
	if granted, _ := fine.Take(now, &full, 1, 6); granted != 2 {
		t.Errorf("of a bucket of 5 that lacks 3, %d were granted", granted)
	}
}
