package redis

import (
	"testing"
	"time"
	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/store"
)

// A refusal is answered from memory until the time to retry, also by a lane that
// is told another time than the server's clock shows.
func TestRefusalsAreRemembered(t *testing.T) {
	t.Parallel()
	_, c, l := newWorld(t)
	ten := fixed(10)
	l.ask(10, counter("k", ten))
	refused := l.ask(1, counter("k", ten))
	first := refused.Decision()
	decided := c.Stats().Decisions
	again := l.ask(3, counter("k", ten))
	d := again.Decision()
	if again.Mode != store.Cached || again.Granted != 0 || d.Allowed || d.RetryAfter <= 0 || d.RetryAfter > first.RetryAfter ||
		first.RetryAfter-d.RetryAfter > patience || d.Remaining != 0 || d.Limit != 10 {
		t.Errorf("from memory: %+v, first %+v", again, first)
	}
	if n := c.Stats(); n.Decisions != decided || n.Remembered != 3 {
		t.Errorf("counted %+v", n)
	}
	for _, test := range []struct {
		name string
		want int
		ask  func() store.Answer
	}{
		{"another key", 1, func() store.Answer { return l.ask(1, counter("other", ten)) }},
		{"a limit that was raised", 1, func() store.Answer { return l.ask(1, counter("k", fixed(11))) }},
		{"the old limit", 0, func() store.Answer { return l.ask(1, counter("k", ten)) }},
		{"a look", 1, func() store.Answer { look := counter("k", ten); look.Cost = 0; return l.ask(1, look) }},
		{"after Forgetful", 0, func() store.Answer { c.Forgetful(); return l.ask(1, counter("k", ten)) }},
		{"a cost that never fits", 0, func() store.Answer { big := counter("k", ten); big.Cost = 11; return l.ask(1, big) }},
		{"the same", 0, func() store.Answer { big := counter("k", ten); big.Cost = 11; return l.ask(1, big) }},
	} {
		ans := test.ask()
		if wantMode := store.Exact; ans.Granted != test.want || test.name != "the old limit" && ans.Mode != wantMode {
			t.Errorf("%s: %+v", test.name, ans)
		}
	}
}

// Once the time to retry has come, Redis is asked again.
func TestRefusalsEnd(t *testing.T) {
	t.Parallel()
	_, _, l := newWorld(t)
	bucket := limittest.Must(limit.Config{Algorithm: limit.Token, Capacity: 1, FillRate: 50})
	admitted, remembered := 0, 0
	began := time.Now()
	for admitted < 5 || remembered == 0 {
		switch ans := l.ask(1, counter("k", bucket)); {
		case ans.Granted == 1:
			admitted++
		case ans.Mode == store.Cached:
			remembered++
		}
		if time.Since(began) > patience {
			t.Fatalf("%d admitted, %d refused from memory", admitted, remembered)
		}
	}
}

// The memory of refusals is bounded.
func TestRefusalsBound(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_768_780_800, 0)
	r := refusals{max: 2}
	refused := func(key string, epoch uint64) (remembered bool) {
		c := counter(key, limittest.Must(limit.Config{Algorithm: limit.Fixed, Limit: 1, Window: 1}))
		e := encoder{}
		e.encode([]store.Counter{c})
		g := new(group)
		g.fill(&e, []store.Counter{c})
		g.n, g.at[0] = 1, now.UnixMicro()
		c.Limit.Take(g.at[0], &g.states[0], 1, 1)
		g.replay()
		r.remember(now, epoch, &batch{groups: []*group{g}, sent: now, landed: now})
		var ans store.Answer
		return r.answer(now, epoch, []byte(g.id), &ans)
	}
	for _, step := range []struct {
		key   string
		after time.Duration
		epoch uint64 // now; it was 0 when Redis was asked
		want  bool
	}{
		{"a", 0, 0, true},
		{"b", 0, 0, true},
		{"c", 0, 0, false},                    // full
		{"c", time.Second, 0, true},           // a and b are over
		{"d", 10 * time.Millisecond, 0, true}, // there was room for two
		{"e", 0, 1, false},                    // all is forgotten, and e was refused before
	} {
		now = now.Add(step.after)
		if got := refused(step.key, step.epoch); got != step.want {
			t.Errorf("%s after %v: remembered %v, want %v", step.key, step.after, got, step.want)
		}
	}
}
