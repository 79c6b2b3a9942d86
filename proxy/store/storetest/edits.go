package storetest

import (
	"testing"

	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/store"
)

// edits exhausts keys, then gives permits to one of them or forgets it: that key has as many
// more, up to the limit, and the others have none.
func edits(t *testing.T, open Open) {
	for _, l := range limittest.Limits() {
		if overshoot, _ := l.Overshoot(); overshoot > 0 || l.Algorithm() == limit.Leaky {
			continue // not all permits given are available at once
		}
		s := open(t)
		s.at(limittest.Epoch)
		used := store.Counter{Rule: "r", Key: []byte("used"), Limit: l, Cost: 1}
		other, same := used, used
		other.Key, same.Rule = []byte("other"), "s"
		all := int(l.Burst())
		for _, c := range []store.Counter{used, other, same} {
			if s.Add(c.Rule, c.Key, 1) {
				t.Errorf("%v: a key that is new could use more", l.Config())
			}
			if ans := s.ask(all+1, c); ans.Granted != all {
				t.Errorf("%v: %d of a new key, which was given more, want %d", l.Config(), ans.Granted, all)
			}
		}
		admits := func(what string, want int) {
			t.Helper()
			if ans := s.ask(all+1, used); ans.Granted != want {
				t.Errorf("%v, %s: %d go, want %d", l.Config(), what, ans.Granted, want)
			}
		}
		some := (all + 1) / 2
		if !s.Add("r", used.Key, int64(some)) {
			t.Errorf("%v: a key that is used up could use no more", l.Config())
		}
		admits("given some", some)
		s.Add("r", used.Key, 1<<62)
		admits("given more than all", all)
		s.Forget("r", used.Key)
		admits("forgotten", all)
		for _, c := range []store.Counter{other, same} {
			if ans := s.ask(1, c); ans.Granted != 0 {
				t.Errorf("%v: rule %s, key %s has what another was given", l.Config(), c.Rule, c.Key)
			}
		}
	}
}

// editKinds exhausts a key under limits of several kinds, as proxies with different rules do,
// then gives it permits or forgets it: every kind except queues has as many more.
func editKinds(t *testing.T, open Open) {
	s := open(t)
	s.at(limittest.Epoch)
	var counters []store.Counter
	for _, c := range []limit.Config{
		{Algorithm: limit.Fixed, Limit: 5, Window: 60},
		{Algorithm: limit.Fixed, Limit: 5, Window: 61},
		{Algorithm: limit.Sliding, Limit: 5, Window: 60},
		{Algorithm: limit.SlidingLog, Limit: 5, Window: 60},
		{Algorithm: limit.Token, Capacity: 5, FillRate: 0.01},
		{Algorithm: limit.GCRA, Limit: 5, Window: 600, Burst: 5},
		{Algorithm: limit.GCRA, Limit: 5, Window: 601, Burst: 5},
		{Algorithm: limit.Leaky, Capacity: 4, FillRate: 0.01},
	} {
		counters = append(counters, store.Counter{Rule: "r", Key: []byte("key"), Limit: limittest.Must(c), Cost: 1})
	}
	admit := func(when string, want int) {
		t.Helper()
		for _, c := range counters {
			queue := c.Limit.Algorithm() == limit.Leaky && when == "given 2"
			if ans := s.ask(6, c); ans.Granted != want && !queue || queue && ans.Granted != 0 {
				t.Errorf("%v, %s: %d go, want %d", c.Limit.Config(), when, ans.Granted, want)
			}
		}
	}
	admit("new", 5)
	if !s.Add("r", []byte("key"), 2) {
		t.Error("a key that is used up could use no more")
	}
	admit("given 2", 2)
	s.Forget("r", []byte("key"))
	admit("forgotten", 5)
}
