package storetest

import (
	"testing"

	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/store"
)

// edits uses keys up, and gives to one of them or forgets it: that one has more, up to
// all, and its neighbours have nothing.
func edits(t *testing.T, open Open) {
	for _, l := range limittest.Limits() {
		if overshoot, _ := l.Overshoot(); overshoot > 0 || l.Algorithm() == limit.Leaky {
			continue // of these not all that is given is admitted at once
		}
		s := open(t)
		s.at(limittest.Epoch)
		used := store.Counter{Rule: "r", Key: []byte("used"), Limit: l, Cost: 1}
		other, same := used, used
		other.Key, same.Rule = []byte("other"), "s"
		all := int(l.Burst())
		for _, c := range []store.Counter{used, other, same} {
			if s.Add(c.Rule, c.Key, l, 1) {
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
		if !s.Add("r", used.Key, l, int64(some)) {
			t.Errorf("%v: a key that is used up could use no more", l.Config())
		}
		admits("given some", some)
		s.Add("r", used.Key, l, 1<<62)
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
