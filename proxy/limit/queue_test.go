package limit_test

import (
	"testing"
	"time"

	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
)

func TestGCRA(t *testing.T) {
	once := limit.Config{Algorithm: limit.GCRA, Limit: 1, Window: 3}
	run(t, once, []step{
		{at: 0, cost: 0, left: 1},
		{at: 0, cost: 1, left: 0, reset: 3 * sec},
		{at: 1 * sec, cost: 1, deny: 2 * sec, left: 0, reset: 2 * sec},
		{at: 3*sec - 1*time.Microsecond, cost: 1, deny: time.Microsecond, left: 0, reset: time.Microsecond},
		{at: 3 * sec, cost: 1, left: 0, reset: 3 * sec},
		{at: 2 * sec, cost: 1, deny: 4 * sec, left: 0, reset: 4 * sec}, // time may step back; it never mints permits
		{at: 60 * sec, cost: 2, deny: limit.Never, left: 1},
	})
	// 3 in 10 seconds are no whole number of microseconds apart
	run(t, limit.Config{Algorithm: limit.GCRA, Limit: 3, Window: 10, Burst: 2}, []step{
		{at: 0, cost: 1, n: 5, granted: 2, deny: 3_333_334 * time.Microsecond, left: 0, reset: 6_666_667 * time.Microsecond},
		{at: 3_333_334 * time.Microsecond, cost: 1, left: 0, reset: 6_666_666 * time.Microsecond},
		{at: 10 * sec, cost: 0, left: 2},
	})
}

// The permits that are owed stay owed: a raise helps at once, and gives nothing
// twice. With another burst tat is kept.
func TestGCRALimitChange(t *testing.T) {
	slow := limit.Config{Algorithm: limit.GCRA, Limit: 10, Window: 10, Burst: 5}
	fast, wide, other := slow, slow, slow
	fast.Limit, wide.Burst, other.Window = 20, 8, 5
	run(t, slow, []step{
		{at: 0, cost: 4, left: 1, reset: 4 * sec},
		{at: 0, limit: &wide, cost: 0, left: 4, reset: 4 * sec},
		{at: 0, limit: &fast, cost: 0, left: 1, reset: 2 * sec}, // four are owed still
		{at: 1 * sec, cost: 2, left: 1, reset: 2 * sec},
		{at: 1 * sec, limit: &slow, cost: 0, left: 1, reset: 4 * sec},
		{at: 1 * sec, limit: &other, cost: 0, left: 5}, // another window: afresh
	})
}

// queued is a step of a queue: with delay the ask is admitted and waits so long.
func queued(t *testing.T, l *limit.Limit, s *limit.State, at time.Duration, charge limit.Charge, want limit.Decision) {
	t.Helper()
	charge.N = 1
	want.Limit = l.Permits()
	if want.Delay > 0 {
		want.Slot = limittest.Epoch + (at + want.Delay).Microseconds()
	}
	if _, d := l.Decide(limittest.Epoch+at.Microseconds(), s, charge); d != want {
		t.Errorf("at %v, %+v:\n got %+v\nwant %+v", at, charge, d, want)
	}
}

func TestLeakyQueues(t *testing.T) {
	l := limittest.Must(limit.Config{Algorithm: limit.Leaky, Capacity: 3, FillRate: 4})
	var s limit.State
	one := limit.Charge{Cost: 1}
	queued(t, l, &s, 0, one, limit.Decision{Allowed: true, Remaining: 3, ResetAfter: 250 * ms}) // goes at once
	queued(t, l, &s, 0, one, limit.Decision{Allowed: true, Remaining: 2, ResetAfter: 500 * ms, Delay: 250 * ms})
	queued(t, l, &s, 0, limit.Charge{Cost: 2}, limit.Decision{Allowed: true, Remaining: 0, ResetAfter: 1 * sec,
		Delay: 500 * ms})
	queued(t, l, &s, 0, one, limit.Decision{Remaining: 0, RetryAfter: 250 * ms, ResetAfter: 1 * sec}) // full
	queued(t, l, &s, 100*ms, limit.Charge{Cost: 1, MaxDelay: 700 * ms}, limit.Decision{Remaining: 0, RetryAfter: 200 * ms,
		ResetAfter: 900 * ms})
	queued(t, l, &s, 300*ms, limit.Charge{Cost: 1, MaxDelay: 700 * ms},
		limit.Decision{Allowed: true, Remaining: 0, ResetAfter: 950 * ms, Delay: 700 * ms})
	// room, but too far back
	queued(t, l, &s, 900*ms, limit.Charge{Cost: 1, MaxDelay: 100 * ms}, limit.Decision{Remaining: 2, RetryAfter: 250 * ms,
		ResetAfter: 350 * ms})
	queued(t, l, &s, 1*sec, limit.Charge{Cost: 1, Reserve: 2},
		limit.Decision{Allowed: true, Remaining: 0, ResetAfter: 500 * ms, Delay: 250 * ms})
	queued(t, l, &s, 1*sec, limit.Charge{Cost: 4}, limit.Decision{Remaining: 2, RetryAfter: limit.Never,
		ResetAfter: 500 * ms})
	// a clock that steps back waits longer
	queued(t, l, &s, 900*ms, one, limit.Decision{Allowed: true, Remaining: 1, ResetAfter: 850 * ms, Delay: 600 * ms})
}

// When the rate changes, places until tat stay booked, and later requests leave later.
func TestLeakyRateChange(t *testing.T) {
	slow := limittest.Must(limit.Config{Algorithm: limit.Leaky, Capacity: 10, FillRate: 1})
	fast := limittest.Must(limit.Config{Algorithm: limit.Leaky, Capacity: 10, FillRate: 3})
	var s limit.State
	slow.Take(limittest.Epoch, &s, 1, 3)
	queued(t, fast, &s, 0, limit.Charge{Cost: 1},
		limit.Decision{Allowed: true, Remaining: 1, ResetAfter: 3333334 * time.Microsecond, Delay: 3 * sec})
	queued(t, slow, &s, 0, limit.Charge{Cost: 1}, limit.Decision{Allowed: true, Remaining: 6,
		ResetAfter: 4333334 * time.Microsecond, Delay: 3333334 * time.Microsecond})
	huge := limittest.Must(limit.Config{Algorithm: limit.Leaky, Capacity: 1 << 50, FillRate: 1_000_000_000})
	queued(t, huge, &s, 0, limit.Charge{Cost: 1}, limit.Decision{Allowed: true, Remaining: 1<<50 - 4333334000,
		ResetAfter: 4333335 * time.Microsecond, Delay: 4333334 * time.Microsecond})
}

func TestRelease(t *testing.T) {
	l := limittest.Must(limit.Config{Algorithm: limit.Leaky, Capacity: 3, FillRate: 0.3})
	var s limit.State
	if l.Refund(limittest.Epoch, &s, 1, limittest.Epoch) {
		t.Error("a key never seen gave a place back")
	}
	var slots []int64
	for range 4 {
		_, d := l.Take(limittest.Epoch, &s, 1, 1)
		slots = append(slots, d.Slot)
	}
	if want := limittest.Epoch + 6_666_667; slots[0] != 0 || slots[2] != want {
		t.Fatalf("slots %v, want 0 for who goes at once and %d for the third", slots, want)
	}
	before := s
	for _, try := range [][2]int64{{1, slots[2]}, {2, slots[3]}, {0, slots[3]}, {1, 0}, {1 << 62, slots[3]},
		{1, slots[3] + 1}} {
		if l.Refund(limittest.Epoch, &s, try[0], try[1]) || s != before {
			t.Errorf("cost %d at %d gave a place back", try[0], try[1])
		}
	}
	if !l.Refund(limittest.Epoch+5, &s, 1, slots[3]) {
		t.Error("the last place was not given back")
	}
	if _, d := l.Take(limittest.Epoch+5, &s, 1, 1); d.Slot != slots[3] {
		t.Errorf("the next leaves at %d, want %d", d.Slot, slots[3])
	}
	if l.Refund(slots[3], &s, 1, slots[3]) {
		t.Error("a place was given back whose slot has come")
	}
}

func TestOff(t *testing.T) {
	l := limittest.Must(limit.Config{Algorithm: limit.Off})
	var s limit.State
	want := limit.Decision{Allowed: true, Remaining: limit.Unlimited, Limit: limit.Unlimited}
	for _, charge := range []limit.Charge{{}, {N: 1 << 40}, {Cost: 1 << 62, N: 1 << 62, Reserve: 1 << 62}} {
		if granted, d := l.Decide(limittest.Epoch, &s, charge); granted != charge.N || d != want {
			t.Errorf("%+v: %d, %+v", charge, granted, d)
		}
		if room, d := l.RoomFor(limittest.Epoch, &s, charge), l.Preview(limittest.Epoch, &s, charge); room != charge.N ||
			d != want {
			t.Errorf("%+v: room for %d, %+v", charge, room, d)
		}
	}
	if s != (limit.State{}) {
		t.Errorf("off keeps %+v", s)
	}
}

// What is kept back is rounded up, so that a share of a small limit is not nothing.
func TestReserveOfAShare(t *testing.T) {
	gcra := limittest.Must(limit.Config{Algorithm: limit.GCRA, Limit: 100, Window: 1, Burst: 15})
	most := limittest.Must(limit.Config{Algorithm: limit.Fixed, Limit: 1 << 53, Window: 1})
	for _, test := range []struct {
		l                 *limit.Limit
		thousandths, want int64
	}{
		{gcra, 0, 0}, {gcra, 1, 1}, {gcra, 100, 2}, {gcra, 400, 6}, {gcra, 1000, 15},
		{most, 1000, 1 << 53}, {most, 500, 1 << 52},
		{limittest.Must(limit.Config{Algorithm: limit.Off}), 500, 0},
	} {
		if got := test.l.Reserve(test.thousandths); got != test.want {
			t.Errorf("%d thousandths of %d are %d, want %d", test.thousandths, test.l.Burst(), got, test.want)
		}
	}
}
