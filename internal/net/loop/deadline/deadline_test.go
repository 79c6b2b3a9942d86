package deadline

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

const step = 10 * time.Millisecond

// TestAgainstPlainMap drives a Queue and a map of deadlines with the same
// random history: both must expire the same entries at the same calls.
func TestAgainstPlainMap(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		q := New[int](step)
		entries := make([]Entry[int], 200)
		want := map[int]time.Duration{}
		now := time.Duration(0)
		for i := range entries {
			entries[i].Value = i
		}
		for range 2000 {
			i := r.IntN(len(entries))
			switch r.IntN(5) {
			case 0, 1:
				at := now + time.Duration(r.Int64N(int64(3*slots*step/2)))
				q.Set(&entries[i], at)
				want[i] = at
			case 2:
				q.Clear(&entries[i])
				delete(want, i)
			case 3:
				q.Remove(&entries[i])
				delete(want, i)
			case 4:
				now += time.Duration(r.Int64N(int64(step * 40)))
				expire(t, q, now, want)
			}
		}
		now += 4 * slots * step
		expire(t, q, now, want)
		expire(t, q, now+slots*step, want)
		if len(want) != 0 || q.count != 0 {
			t.Fatalf("seed %d: left over: %d in the map, %d in the queue", seed, len(want), q.count)
		}
	}
}

// expire checks that exactly the entries whose rounded-up time has passed come.
func expire(t *testing.T, q *Queue[int], now time.Duration, want map[int]time.Duration) {
	t.Helper()
	q.Expire(now, func(i int) {
		at, ok := want[i]
		if !ok {
			t.Fatalf("entry %d expired without a deadline", i)
		}
		if now < at {
			t.Fatalf("entry %d expired at %v, before its deadline %v", i, now, at)
		}
		delete(want, i)
	})
	for i, at := range want {
		if now >= at+step {
			t.Fatalf("entry %d with deadline %v had not expired by %v", i, at, now)
		}
	}
}

func TestNextIsNeverLate(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		q := New[int](step)
		var e Entry[int]
		at := time.Duration(r.Int64N(int64(5 * slots * step)))
		q.Set(&e, at)
		expired := false
		for !expired {
			next, ok := q.Next()
			if !ok {
				t.Fatalf("seed %d: deadline %v: nothing filed before it expired", seed, at)
			}
			if next >= at+step {
				t.Fatalf("seed %d: deadline %v: Next says %v", seed, at, next)
			}
			q.Expire(next, func(int) { expired = true })
		}
	}
}

func TestSetAgainWhileExpiring(t *testing.T) {
	q := New[int](step)
	var e Entry[int]
	q.Set(&e, step)
	calls := 0
	q.Expire(step, func(int) {
		calls++
		q.Set(&e, 2*step)
	})
	q.Expire(2*step, func(int) { calls++ })
	if calls != 2 || q.count != 0 {
		t.Fatalf("got %d calls and %d left, want 2 and 0", calls, q.count)
	}
}

func TestRemoveNeighbourWhileExpiring(t *testing.T) {
	q := New[int](step)
	var es [3]Entry[int]
	for i := range es {
		es[i].Value = i
		q.Set(&es[i], step)
	}
	var seen []int
	q.Expire(step, func(i int) {
		seen = append(seen, i)
		q.Remove(&es[1])
	})
	if fmt.Sprint(seen) != "[0 2]" {
		t.Fatalf("got %v, want [0 2]: a removed entry must not expire", seen)
	}
}

func TestMovingLaterAllocatesNothing(t *testing.T) {
	q := New[int](step)
	var e Entry[int]
	now := time.Duration(0)
	if n := testing.AllocsPerRun(1000, func() {
		now += time.Millisecond
		q.Set(&e, now+time.Second)
		q.Expire(now, func(int) {})
	}); n != 0 {
		t.Fatalf("%v allocations per move, want 0", n)
	}
}

func ExampleQueue() {
	q := New[string](10 * time.Millisecond)
	idle := Entry[string]{Value: "idle"}
	q.Set(&idle, 60*time.Second)
	q.Set(&idle, 10*time.Second) // a request came: its own, shorter time
	for now := time.Duration(0); now <= 20*time.Second; now += time.Second {
		q.Expire(now, func(name string) { fmt.Println(name, "at", now) })
	}
	// Output: idle at 10s
}

func BenchmarkSetLater(b *testing.B) {
	q := New[int](step)
	var e Entry[int]
	for i := 0; b.Loop(); i++ {
		q.Set(&e, time.Hour+time.Duration(i))
	}
}

func BenchmarkSetEarlierAndBack(b *testing.B) {
	q := New[int](step)
	var e Entry[int]
	for b.Loop() {
		q.Set(&e, time.Hour)
		q.Set(&e, time.Second)
	}
}
