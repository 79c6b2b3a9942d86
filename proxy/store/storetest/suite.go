package storetest

import (
	"reflect"
	"testing"
	"time"

	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/store"
)

// Run tests everything that a store must do.
func Run(t *testing.T, open Open) {
	parallel := open(t).Copy != nil
	law := func(name string, check func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			if parallel {
				t.Parallel()
			}
			check(t)
		})
	}
	law("laws of the limiter", func(t *testing.T) { laws(t, open) })
	law("a clock that was far ahead locks no key", func(t *testing.T) { returns(t, open) })
	law("recorded histories", func(t *testing.T) { recorded(t, open) })
	law("random histories", func(t *testing.T) { Differential(t, open, Naive, 12) })
	law("n asks are n single asks", func(t *testing.T) { singles(t, open) })
	law("a refused group is admitted after exactly RetryAfter", func(t *testing.T) { retries(t, open) })
	law("keys are apart", func(t *testing.T) { apart(t, open(t)) })
	law("keys of one rule are asked together", func(t *testing.T) { together(t, open(t)) })
	law("an idle key is not refilled early", func(t *testing.T) { idle(t, open) })
	law("what is off is admitted among others", func(t *testing.T) { off(t, open(t)) })
	law("the last place in a queue is given back", func(t *testing.T) { release(t, open) })
	law("what was charged is given back", func(t *testing.T) { uncharge(t, open) })
	law("what others were charged is not given back", func(t *testing.T) { unchargeOthers(t, open(t)) })
	law("nothing is given back after a change of the rate", func(t *testing.T) { unchargeChanged(t, open(t)) })
	law("what is given back admits no more than if it had not been charged", func(t *testing.T) { unsent(t, open) })
	law("a key is given more or forgotten", func(t *testing.T) { edits(t, open) })
	law("configurations of a key admit at most their sum", func(t *testing.T) { mixes(t, open) })
	law("edits are about all kinds of limits", func(t *testing.T) { editKinds(t, open) })
	law("an answer overwrites the one before", func(t *testing.T) { overwrites(t, open(t)) })
	law("exact under concurrency, one key", func(t *testing.T) { hotKey(t, open(t)) })
	law("exact under concurrency, groups that overlap", func(t *testing.T) { overlap(t, open(t)) })
}

// takes asks a store about one key.
func takes(s Store) limittest.Take {
	return func(now int64, l *limit.Limit, charge limit.Charge) (int64, limit.Decision) {
		s.at(now)
		c := store.Counter{Rule: "law", Key: []byte("key"), Limit: l, Cost: charge.Cost, Reserve: charge.Reserve,
			MaxDelay: charge.MaxDelay, Debt: charge.Debt}
		ans := s.ask(int(charge.N), c)
		return int64(ans.Granted), ans.Decisions[0]
	}
}

// returns turns the clock back after it was far ahead, also of two keys that are asked together.
func returns(t *testing.T, open Open) {
	limittest.RunClockStepsBack(t, func() limittest.Take { return takes(open(t)) })
	limittest.RunClockStepsBack(t, func() limittest.Take {
		s := open(t)
		return func(now int64, l *limit.Limit, charge limit.Charge) (int64, limit.Decision) {
			s.at(now)
			var counters []store.Counter
			for _, key := range []string{"one", "other"} {
				counters = append(counters, store.Counter{Rule: "law", Key: []byte(key), Limit: l, Cost: charge.Cost,
					Debt: charge.Debt})
			}
			ans := s.ask(int(charge.N), counters...)
			return int64(ans.Granted), ans.Decisions[1]
		}
	})
}

// laws runs the laws of limittest with asks of one counter.
func laws(t *testing.T, open Open) {
	given := func() (limittest.Take, limittest.Add) {
		s := open(t)
		return takes(s), func(now, n int64) bool {
			s.at(now)
			return s.Add("law", []byte("key"), n)
		}
	}
	fresh := func() limittest.Take { return takes(open(t)) }
	var forked func() (limittest.Take, func() limittest.Take)
	if open(t).Copy != nil {
		forked = func() (limittest.Take, func() limittest.Take) {
			s := open(t)
			return takes(s), func() limittest.Take { return takes(s.Copy()) }
		}
	}
	limittest.Run(t, limittest.Subject{Fresh: fresh, Given: given, Forked: forked, Parallel: forked != nil,
		Forward: true, Seeds: 2})
}

// singles asks about groups at once in one store and one by one in another: the answers are
// equal.
func singles(t *testing.T, open Open) {
	for seed := range uint64(10) {
		batches, single := open(t), open(t)
		for i, step := range history(seed, 40) {
			batches.at(step.now)
			single.at(step.now)
			want := store.Answer{}
			for range step.ask.N {
				one := single.ask(1, step.ask.Counters...)
				one.Granted += want.Granted
				want = one
			}
			if got := batches.ask(step.ask.N, step.ask.Counters...); !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d, step %d, %v:\n   got %+v\nsingly %+v", seed, i, step, got, want)
			}
		}
	}
}

// apart exhausts many keys with similar names: none is charged for another.
func apart(t *testing.T, s Store) {
	l := limittest.Must(limit.Config{Algorithm: limit.Fixed, Limit: 2, Window: 3600})
	long := make([]byte, 2*store.PartBytesMax)
	names := []string{"", "a", "aa", "1:a", ":", "*", "#", "{a}", "a b", "a\r\n", "\x00", "\xff", string(long),
		string(long[1:])}
	for _, rule := range names {
		for _, key := range names {
			ans := s.ask(3, store.Counter{Rule: rule, Key: []byte(key), Limit: l, Cost: 1})
			if ans.Granted != 2 {
				t.Errorf("rule %q, key %q: %d of 3 admitted, want 2", rule, key, ans.Granted)
			}
		}
	}
}

// together asks about two keys of one rule: both are charged, or neither.
func together(t *testing.T, s Store) {
	l := limittest.Must(limit.Config{Algorithm: limit.Fixed, Limit: 5, Window: 3600})
	a := store.Counter{Rule: "rule", Key: []byte("a"), Limit: l, Cost: 1}
	b := store.Counter{Rule: "rule", Key: []byte("b"), Limit: l, Cost: 2}
	if ans := s.ask(3, a, b); ans.Granted != 2 || ans.Decisions[0].Remaining != 3 || ans.Decisions[1].Remaining != 1 {
		t.Errorf("of b there are 5 permits: %+v", ans)
	}
	if ans := s.ask(1, a, b); ans.Granted != 0 || !ans.Decisions[0].Allowed || ans.Decisions[1].Allowed {
		t.Errorf("b has 1 permit left: %+v", ans)
	}
	if ans := s.ask(4, a); ans.Granted != 3 {
		t.Errorf("%d of a, want the 3 that are left", ans.Granted)
	}
}

// idle leaves an exhausted key alone until a microsecond before it is as new. A store that
// expires it too early, or returns it full, admits too much.
func idle(t *testing.T, open Open) {
	for _, l := range limittest.Limits() {
		if overshoot, _ := l.Overshoot(); overshoot > 0 {
			continue // more would be admitted
		}
		s := open(t)
		c := store.Counter{Rule: "idle", Key: []byte("key"), Limit: l, Cost: l.Burst()}
		s.at(limittest.Epoch)
		ans := s.ask(1, c)
		s.Advance(ans.Decisions[0].ResetAfter - time.Microsecond)
		if l.Algorithm() == limit.Leaky {
			if ans = s.ask(1, c); ans.Delay() != time.Microsecond && ans.Decision().RetryAfter != time.Microsecond {
				t.Errorf("%v, just before it is as new: %+v", l.Config(), ans)
			}
			continue
		}
		if ans = s.ask(1, c); ans.Granted != 0 || ans.Decisions[0].RetryAfter != time.Microsecond {
			t.Errorf("%v, just before it is as new: %+v", l.Config(), ans)
		}
		s.Advance(time.Microsecond)
		if ans = s.ask(2, c); ans.Granted != 1 {
			t.Errorf("%v, as new: %d of 2 admitted, want 1", l.Config(), ans.Granted)
		}
	}
}

// overwrites reuses an answer that was about more counters.
func overwrites(t *testing.T, s Store) {
	l := limittest.Must(limit.Config{Algorithm: limit.Fixed, Limit: 2, Window: 10})
	a := store.Counter{Rule: "a", Limit: l, Cost: 1}
	b := store.Counter{Rule: "b", Limit: l, Cost: 2}
	ans := store.Answer{Granted: 7, Tightest: 5, Mode: store.Closed}
	s.Take(&store.Ask{Counters: []store.Counter{a, b}, N: 1}, &ans)
	if ans.Granted != 1 || len(ans.Decisions) != 2 || ans.Tightest != 1 || ans.Mode != store.Exact {
		t.Errorf("two counters: %+v", ans)
	}
	s.Take(&store.Ask{Counters: []store.Counter{a}, N: 3}, &ans)
	if ans.Granted != 1 || len(ans.Decisions) != 1 || ans.Tightest != 0 || ans.Decision().Allowed {
		t.Errorf("then one: %+v", ans)
	}
}
