package redis

import (
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/store"
	"weir/proxy/store/storetest"
)

// A refusal is answered from memory until the time to retry, also by a lane whose clock differs from the
// server's.
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
	if again.Mode != store.Cached || again.Granted != 0 || d.Allowed || d.RetryAfter <= 0 ||
		d.RetryAfter > first.RetryAfter ||
		first.RetryAfter-d.RetryAfter > testkit.Timeout || d.Remaining != 0 || d.Limit != 10 {
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
		{"after Forgetful", 0, func() store.Answer { c.ForgetRefusals(); return l.ask(1, counter("k", ten)) }},
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
		if time.Since(began) > testkit.Timeout {
			t.Fatalf("%d admitted, %d refused from memory", admitted, remembered)
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	_, c, _ := newWorld(t)
	storetest.Refusals(t, c)
}
