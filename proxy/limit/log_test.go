package limit_test

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
)

func TestSlidingLog(t *testing.T) {
	run(t, limit.Config{Algorithm: limit.SlidingLog, Limit: 4, Window: 10}, []step{
		{at: 1 * sec, cost: 2, left: 2, reset: 10 * sec},
		{at: 1 * sec, cost: 1, left: 1, reset: 10 * sec},
		{at: 5 * sec, cost: 1, n: 3, granted: 1, deny: 6 * sec, left: 0, reset: 10 * sec},
		{at: 5 * sec, cost: 4, deny: 10 * sec, left: 0, reset: 10 * sec},
		{at: 11*sec - 1*time.Microsecond, cost: 1, deny: time.Microsecond, left: 0, reset: 4*sec + 1*time.Microsecond},
		{at: 11 * sec, cost: 4, deny: 4 * sec, left: 3, reset: 4 * sec}, // those of 1 s have left
		{at: 11 * sec, cost: 3, left: 0, reset: 10 * sec},
		{at: 9 * sec, cost: 1, deny: 6 * sec, left: 0, reset: 12 * sec}, // time may step back; it never mints permits
		{at: 15 * sec, cost: 5, deny: limit.Never, left: 1, reset: 6 * sec},
		{at: 99 * sec, cost: 0, left: 4},
	})
}

// What was taken counts on when the limit changes, also where it is more than the new
// one; another window starts afresh.
func TestSlidingLogLimitChange(t *testing.T) {
	log := limit.Config{Algorithm: limit.SlidingLog, Limit: 5, Window: 10}
	lowered, longer := log, log
	lowered.Limit, longer.Window = 2, 11
	run(t, log, []step{
		{at: 0, cost: 1, left: 4, reset: 10 * sec},
		{at: 1 * sec, cost: 1, n: 3, left: 1, reset: 10 * sec},
		{at: 2 * sec, limit: &lowered, cost: 1, deny: 9 * sec, left: 0, reset: 9 * sec},
		{at: 3 * sec, limit: &log, cost: 1, left: 0, reset: 10 * sec},
		{at: 4 * sec, limit: &longer, cost: 1, left: 4, reset: 11 * sec},
	})
}

// A key of many entries, from which hundreds leave at once or one by one, over and
// over: the ring grows, wraps around and is used again.
func TestLongLog(t *testing.T) {
	l := limittest.Must(limit.Config{Algorithm: limit.SlidingLog, Limit: 300, Window: 0.3})
	var s limit.State
	var m limittest.Model
	now, r := limittest.Epoch, rand.New(rand.NewPCG(1, 2))
	for i := range 1500 {
		now += []int64{0, 1, r.Int64N(500), r.Int64N(20_000)}[r.IntN(4)]
		if i%400 == 0 {
			now += 2_000_000
		}
		charge := limit.Charge{Cost: r.Int64N(4), N: 1 + r.Int64N(3)}
		if r.IntN(50) == 0 {
			charge.Cost = r.Int64N(330)
		}
		granted, d := l.Decide(now, &s, charge)
		if wantGranted, want := m.Take(now, l, charge); granted != wantGranted || d != want {
			t.Fatalf("step %d, %+v:\n got %d, %+v\nwant %d, %+v", i, charge, granted, d, wantGranted, want)
		}
	}
}

// The log never has more entries than the limit has permits, however often and for whatever cost
// it is asked.
func TestLogIsBounded(t *testing.T) {
	l := limittest.Must(limit.Config{Algorithm: limit.SlidingLog, Limit: 50, Window: 1})
	var s limit.State
	for now := limittest.Epoch; now < limittest.Epoch+5_000_000; now += 100 {
		l.Take(now, &s, 1, 1)
	}
	if entries := (len(s.Append(nil)) - 48) / 14; entries > 50 {
		t.Errorf("%d entries", entries)
	}
}

func TestStateAppendAndParse(t *testing.T) {
	for _, l := range append(limittest.Limits(), limittest.Must(limit.Config{Algorithm: limit.Off})) {
		overshoot, _ := l.Overshoot()
		var s, back limit.State
		for i := range l.Burst()/2 + overshoot + 1 {
			if i > 100 {
				break
			}
			l.Take(limittest.Epoch+i, &s, 1, 2)
		}
		b := s.Append([]byte("x"))[1:]
		if !back.Parse(b) || !reflect.DeepEqual(back.Append(nil), b) {
			t.Errorf("%v: %x was read back as %x", l.Config(), b, back.Append(nil))
		}
		if got, want := l.Preview(limittest.Epoch+1, &back, limit.Charge{Cost: 1}),
			l.Preview(limittest.Epoch+1, &s, limit.Charge{Cost: 1}); got != want {
			t.Errorf("%v: read back decides\n%+v, want\n%+v", l.Config(), got, want)
		}
		for _, wrong := range [][]byte{nil, b[:31], append(b[:len(b):len(b)], 0)} {
			if back.Parse(wrong) {
				t.Errorf("%v: %x is read as a state", l.Config(), wrong)
			}
		}
	}
}

// A copy shares the log, a clone does not.
func TestClone(t *testing.T) {
	l := limittest.Must(limit.Config{Algorithm: limit.SlidingLog, Limit: 5, Window: 1})
	var s limit.State
	l.Take(limittest.Epoch, &s, 1, 1)
	clone := s.Clone()
	l.Take(limittest.Epoch+1, &s, 1, 4)
	if room := l.RoomFor(limittest.Epoch+2, &clone, limit.Charge{Cost: 1, N: 9}); room != 4 {
		t.Errorf("a clone has room for %d, want 4", room)
	}
	if room := l.RoomFor(limittest.Epoch+1_000_000, &s, limit.Charge{Cost: 1, N: 9}); room != 1 {
		t.Errorf("the original has room for %d, want 1", room)
	}
}

// FuzzParse: whatever Parse accepts is what Append writes, and can be decided on.
func FuzzParse(f *testing.F) {
	for _, l := range limittest.Limits() {
		var s limit.State
		l.Take(limittest.Epoch, &s, 1, l.Burst()+1)
		f.Add(s.Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var s limit.State
		if s.Parse(b) && limit.Algorithm(b[7]) != limit.SlidingLog && len(s.Append(nil)) > len(b) {
			t.Fatalf("%x is read as %+v", b, s)
		}
	})
}
