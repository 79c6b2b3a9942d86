package redis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/store"
	"weir/proxy/store/redis/redistest"
)

// To forget a key or to give it more counts for all proxies, also for those that
// remember a refusal: for the one that edits at once, for others after their next
// look.
func TestEdits(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	cfg := config(s)
	cfg.KeyPrefix = "p:"
	editor := newTestStore(t, cfg)
	here, there := newLoop(t, editor), newLoop(t, newTestStore(t, cfg))
	for _, lim := range []*limit.Limit{
		fixed(5),
		limittest.Must(limit.Config{Algorithm: limit.Sliding, Limit: 5, Window: century}),
		limittest.Must(limit.Config{Algorithm: limit.Token, Capacity: 5, FillRate: 0.0001}),
		limittest.Must(limit.Config{Algorithm: limit.SlidingLog, Limit: 5, Window: century}),
		limittest.Must(limit.Config{Algorithm: limit.GCRA, Limit: 1, Window: 10_000, Burst: 5}),
	} {
		c := counter(lim.Algorithm().String(), lim)
		edits := []struct {
			what    string
			do      func() (bool, error)
			changed bool
			want    int
		}{
			{"forget a key that is new", func() (bool, error) { return editor.Forget("r", c.Key) }, false, 5},
			{"forget", func() (bool, error) { return editor.Forget("r", c.Key) }, true, 5},
			{"give nothing", func() (bool, error) { return editor.Add("r", c.Key, 0) }, false, 0},
			{"give 3", func() (bool, error) { return editor.Add("r", c.Key, 3) }, true, 3},
			{"give more than all", func() (bool, error) { return editor.Add("r", c.Key, 1<<62) }, true, 5},
		}
		for i, edit := range edits {
			for _, l := range []*loop{here, there} {
				if i > 0 && (l.ask(1, c).Granted != 0 || l.ask(1, c).Mode != store.Cached) {
					t.Fatalf("%s, before %q: a refusal is not remembered", c.Key, edit.what)
				}
			}
			if changed, err := edit.do(); changed != edit.changed || err != nil {
				t.Errorf("%s, %s: %v, %v", c.Key, edit.what, changed, err)
			}
			if edit.want == 0 {
				continue
			}
			if ans := here.ask(1, c); ans.Granted != 1 || ans.Mode != store.Exact {
				t.Errorf("%s, after %q on the proxy that edits: %+v, want it admitted at once", c.Key, edit.what, ans)
			}
			testkit.Eventually(t, fmt.Sprintf("%s, after %q: %d more go elsewhere", c.Key, edit.what, edit.want-1), func() bool {
				return there.ask(10, c).Granted == edit.want-1
			})
			here.ask(1, c)
			there.ask(1, c)
		}
	}
	for _, name := range strings.Fields(s.Do("keys", "*")) {
		if !strings.HasPrefix(name, "p:") {
			t.Errorf("%s is written, which lacks the prefix", name)
		}
	}
}

// A key is edited under every kind of limits that some proxy counts it under, whatever
// the one that edits knows.
func TestEditsOfAllKinds(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	cfg := config(s)
	cfg.KeyPrefix = "p:"
	editor := newTestStore(t, cfg)
	proxies := []*loop{newLoop(t, editor), newLoop(t, newTestStore(t, cfg)), newLoop(t, newTestStore(t, cfg))}
	limits := []*limit.Limit{
		fixed(5),
		limittest.Must(limit.Config{Algorithm: limit.Fixed, Limit: 5, Window: century - 1}),
		limittest.Must(limit.Config{Algorithm: limit.SlidingLog, Limit: 5, Window: century}),
	}
	admit := func(when string, want int) {
		t.Helper()
		for i, l := range proxies {
			got := 0
			testkit.Eventually(t, fmt.Sprintf("%s: proxy %d admits %d", when, i, want), func() bool {
				got += l.ask(6, counter("k", limits[i])).Granted
				return got >= want
			})
			if ans := l.ask(6, counter("k", limits[i])); got != want || ans.Granted != 0 {
				t.Errorf("%s: proxy %d admits %d, then %d, want %d", when, i, got, ans.Granted, want)
			}
		}
	}
	admit("new", 5)
	if changed, err := editor.Add("r", []byte("k"), 2); !changed || err != nil {
		t.Errorf("give: %v, %v", changed, err)
	}
	admit("given 2", 2)
	if changed, err := editor.Forget("r", []byte("k")); !changed || err != nil {
		t.Errorf("forget: %v, %v", changed, err)
	}
	admit("forgotten", 5)
}

// What Redis knows of kinds is bounded, the oldest go, and a kind is known once.
func TestKindsAreBounded(t *testing.T) {
	t.Parallel()
	s, c, _ := newWorld(t)
	note := func(kinds ...string) {
		all := append([]string{fmt.Sprint(kindsMax)}, kinds...)
		if _, err := c.back.do(&call{script: c.back.scripts.kinds, keys: []string{kindsName}, args: all}); err != nil {
			t.Fatal(err)
		}
	}
	note("a", "b")
	note("b", "c", "a")
	if got := s.Do("get", kindsName); got != "a b c" {
		t.Errorf("known: %q", got)
	}
	for i := range kindsMax - 2 {
		note(fmt.Sprint("k", i))
	}
	known := strings.Fields(s.Do("get", kindsName))
	if len(known) != kindsMax || known[0] != "b" || known[1] != "c" {
		t.Errorf("%d are known, from %q on, want %d from b on", len(known), known[:2], kindsMax)
	}
}

// A lane notes a kind once a minute, and again when Redis may have lost it.
func TestKindsAreNoted(t *testing.T) {
	t.Parallel()
	o := newOutage(t, nil)
	knows := func(want string) func() bool {
		return func() bool {
			o.l.ask(1, counter("k", fixed(1000)))
			return o.s.Do("get", kindsName) == want
		}
	}
	kind := string(fixed(1).Kind().Append(nil))
	testkit.Eventually(t, "the kind is noted", knows(kind))
	o.s.Do("del", kindsName)
	o.l.ask(1, counter("other", fixed(1000)))
	if got := o.s.Do("get", kindsName); got != "" {
		t.Errorf("noted again at once: %s", got)
	}
	o.s.Kill()
	o.away()
	o.s.Start()
	o.back()
	testkit.Eventually(t, "the kind is noted after an outage", knows(kind))

	now, noted, groups := time.Now(), new(noted),
		[]*store.Group{{Counters: []store.Counter{counter("k", fixed(5)), counter("l", fixed(6))}}}
	for _, step := range []struct {
		after time.Duration
		want  int
		note  bool // it has reached Redis
	}{{0, 1, false}, {0, 1, true}, {kindsPause - 1, 0, true}, {1, 1, true}, {kindsPause, 1, true}} {
		now = now.Add(step.after)
		kinds := noted.due(now, groups)
		if len(kinds) != step.want {
			t.Errorf("%v later: %d kinds are due, want %d", step.after, len(kinds), step.want)
		}
		if step.note {
			noted.note(now, kinds)
		}
	}
	noted.forget()
	if got := noted.due(now, groups); len(got) != 1 {
		t.Errorf("what may be lost is noted again: got %v, want one", got)
	}
	for i := range kindsMax + 1 {
		kind := limittest.Must(limit.Config{Algorithm: limit.Fixed, Limit: 1, Window: float64(i + 1)}).Kind()
		noted.note(now, []limit.Kind{kind})
	}
	if len(noted.last) != 1 {
		t.Errorf("%d are remembered, want 1", len(noted.last))
	}
}

// A key that is new, or holds nothing that can be given back, is left alone.
func TestAddNothing(t *testing.T) {
	t.Parallel()
	s, c, l := newWorld(t)
	if changed, err := c.Add("r", []byte("new"), 3); changed || err != nil {
		t.Errorf("give to a key that is new: %v, %v", changed, err)
	}
	if n := s.Do("exists",
		string(appendName(nil, "", &store.Counter{Rule: "r", Key: []byte("new"), Limit: fixed(5)}))); n != "0" {
		t.Errorf("of a key that is as new %s exist, want 0", n)
	}
	booked := l.ask(1, hourly("queue")).Granted + l.ask(1, hourly("queue")).Granted
	if changed, err := c.Add("r", []byte("queue"), 3); changed || err != nil {
		t.Errorf("give to a queue: %v, %v", changed, err)
	}
	look := hourly("queue")
	look.Cost = 0
	ans := l.ask(1, look)
	if left := ans.Decision().Remaining; booked != 2 || left != 3 {
		t.Errorf("%d of 2 were booked, then %d places are left, want 3", booked, left)
	}
	logged := limittest.Must(limit.Config{Algorithm: limit.SlidingLog, Limit: 5, Window: 10})
	for _, lim := range []*limit.Limit{fixed(5), logged} {
		l.ask(1, counter("foreign", lim))
		name := string(appendName(nil, "", &store.Counter{Rule: "r", Key: []byte("foreign"), Limit: lim}))
		for _, words := range [][]string{{"set", name, "text"}, {"lpush", name, "text"}} {
			s.Do("del", name)
			s.Do(words...)
			if changed, err := c.Add("r", []byte("foreign"), 3); changed || err == nil ||
				!strings.Contains(err.Error(), "something other") {
				t.Errorf("give to what %s made: %v, %v", words[0], changed, err)
			}
		}
		s.Do("del", name)
	}
	if !c.Connected() {
		t.Error("a key that holds something else counts as an outage")
	}
}

// While Redis is unavailable an edit returns an error.
func TestEditsWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	o := newOutage(t, func(*Config) {})
	o.s.Kill()
	testkit.Eventually(t, "redis counts as away", func() bool { return !o.c.Connected() })
	if changed, err := o.c.Forget("r", []byte("k")); changed || err == nil ||
		!strings.Contains(err.Error(), "redis is unavailable") {
		t.Errorf("forget: %v, %v", changed, err)
	}
	if changed, err := o.c.Add("r", []byte("k"), 1); changed || err == nil ||
		!strings.Contains(err.Error(), "redis is unavailable") {
		t.Errorf("give: %v, %v", changed, err)
	}
}

// A key that was given more lives on as it would have, and a log keeps its newest
// entry so long.
func TestTimeToLiveAfterAdd(t *testing.T) {
	t.Parallel()
	s, c, l := newWorld(t)
	for _, lim := range []*limit.Limit{
		limittest.Must(limit.Config{Algorithm: limit.SlidingLog, Limit: 10, Window: 3600}),
		limittest.Must(limit.Config{Algorithm: limit.GCRA, Limit: 10, Window: 3600, Burst: 10}),
		limittest.Must(limit.Config{Algorithm: limit.Token, Capacity: 10, FillRate: 0.002}),
	} {
		one := counter(lim.Algorithm().String(), lim)
		l.ask(4, one)
		l.ask(5, one)
		name := string(appendName(nil, "", &store.Counter{Rule: "r", Key: one.Key, Limit: lim}))
		expires := s.Do("pexpiretime", name)
		if changed, err := c.Add("r", one.Key, 5); !changed || err != nil {
			t.Fatalf("%s: %v, %v", one.Key, changed, err)
		}
		look := one
		look.Cost = 0
		ans := l.ask(1, look)
		var before, after int64
		fmt.Sscan(expires, &before)
		fmt.Sscan(s.Do("pexpiretime", name), &after)
		if d := ans.Decision(); d.Remaining < 6 || after < before || after > before+testkit.Timeout.Milliseconds() {
			t.Errorf("%s: %d left, expires at %d ms, before at %d", one.Key, d.Remaining, after, before)
		}
	}
}
