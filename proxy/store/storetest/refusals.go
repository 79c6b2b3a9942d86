package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/store"
)

// retries repeats refused asks after RetryAfter.
func retries(t *testing.T, open Open) {
	moving := func(c store.Counter) bool { // it admits less when its grace is over, or after the refused ask
		overshoot, _ := c.Limit.Overshoot()
		return overshoot > 0 || c.Debt > 0 && c.Cost > 0
	}
	for seed := range uint64(10) {
		s := open(t)
		for i, step := range history(seed, 40) {
			counters := slices.DeleteFunc(slices.Clone(step.ask.Counters), moving)
			if len(counters) == 0 {
				continue
			}
			if ahead := time.UnixMicro(step.now).Sub(s.Now()); ahead > 0 {
				s.Advance(ahead)
			}
			s.ask(step.ask.N, counters...)
			ans := s.ask(1, counters...)
			wait := ans.Decision().RetryAfter
			if ans.Granted == 1 || wait == limit.Never {
				continue
			}
			if s.Advance(wait); s.ask(1, counters...).Granted != 1 {
				t.Fatalf("seed %d, step %d, %v: refused again after %v", seed, i, step, wait)
			}
		}
	}
}

// NewAsker returns a function that asks on a lane of s and waits for the answer. It must not be
// called concurrently.
func NewAsker(t testing.TB, s store.Store) func(n int, counters ...store.Counter) store.Answer {
	t.Helper()
	posted := make(chan func(now time.Time), 1000)
	l := s.NewLane(func(f func(now time.Time)) { posted <- f })
	t.Cleanup(l.Close)
	return func(n int, counters ...store.Counter) (got store.Answer) {
		answered := false
		keep := func(_ time.Time, ans *store.Answer) {
			got, answered = *ans, true
			got.Decisions = slices.Clone(ans.Decisions)
		}
		var ans store.Answer
		if now := time.Now(); l.Ask(now, &store.Ask{Counters: counters, N: n}, &ans, keep) {
			keep(now, &ans)
		}
		for !answered {
			select {
			case f := <-posted:
				f(time.Now())
			case <-time.After(testkit.Timeout):
				t.Fatal("an ask got no answer")
			}
		}
		return got
	}
}

// Refusals tests the answers to refused asks, also those from memory. There must be no keys yet.
func Refusals(t *testing.T, s store.Store) {
	ask := NewAsker(t, s)
	stale(t, ask)
	inTime(t, ask)
}

// stale asks again after others have been admitted. A permit takes 1000 s.
func stale(t *testing.T, ask func(n int, counters ...store.Counter) store.Answer) {
	slow := limittest.Must(limit.Config{Algorithm: limit.Token, Capacity: 10, FillRate: .001})
	global := limittest.Must(limit.Config{Algorithm: limit.Fixed, Limit: 1000, Window: 3600})
	for i, step := range []struct {
		cost, reserve, remaining int64
		wait                     time.Duration // 0: it is admitted
	}{
		{7, 0, 3, 0}, {8, 0, 3, 5000}, {8, 0, 3, 5000}, {1, 5, 0, 3000}, {1, 5, 0, 3000}, {2, 0, 1, 0},
		{8, 0, 1, 7000}, {8, 0, 1, 7000}, {1, 5, 0, 5000},
		{1, 0, 0, 0}, {1, 5, 0, 6000}, {8, 0, 0, 8000}, {1, 0, 0, 1000}, {1, 0, 0, 1000},
	} {
		c := store.Counter{Rule: "slow", Key: []byte("k"), Limit: slow, Cost: step.cost, Reserve: step.reserve}
		ans := ask(1, store.Counter{Rule: "global", Limit: global, Cost: 1}, c)
		d, wait := ans.Decisions[1], step.wait*time.Second
		untrue := d.RetryAfter > wait || d.RetryAfter < wait-500*time.Second
		if d.Allowed != (wait == 0) || d.Remaining != step.remaining || untrue {
			t.Errorf("step %d: %+v, mode %v, want %+v", i, d, ans.Mode, step)
		}
	}
}

// inTime waits until RetryAfter, from the store or from memory, and asks again.
func inTime(t *testing.T, ask func(n int, counters ...store.Counter) store.Answer) {
	for i, l := range []*limit.Limit{
		limittest.Must(limit.Config{Algorithm: limit.Fixed, Limit: 3, Window: .05}),
		limittest.Must(limit.Config{Algorithm: limit.Sliding, Limit: 3, Window: .05}),
		limittest.Must(limit.Config{Algorithm: limit.Token, Capacity: 3, FillRate: 20}),
		limittest.Must(limit.Config{Algorithm: limit.SlidingLog, Limit: 3, Window: .05}),
		limittest.Must(limit.Config{Algorithm: limit.GCRA, Limit: 1, Window: .02, Burst: 3}),
		limittest.Must(limit.Config{Algorithm: limit.Leaky, Capacity: 2, FillRate: 50}),
	} {
		c := store.Counter{Rule: fmt.Sprint("fast-", i), Key: []byte("k"), Limit: l, Cost: 2}
		for range 5 {
			var ans store.Answer
			var wait <-chan time.Time
			testkit.Eventually(t, "it is refused", func() bool {
				ask(1, c)
				ans = ask(1, c) // perhaps from memory
				wait = time.After(ans.Decision().RetryAfter)
				return ans.Granted == 0 && ans.Decision().RetryAfter > 0
			})
			<-wait
			if again := ask(1, c); again.Granted != 1 {
				t.Errorf("%v, told %+v: refused again: %+v", l.Config(), ans, again)
			}
		}
	}
}
