package redis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/store"
)

// To forget a key or to give it more counts for all proxies, also for those that
// remember a refusal: for the one that edits at once, for others after their next
// look.
func TestEdits(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	cfg := config(s)
	cfg.KeyPrefix = "p:"
	editor := newClient(t, cfg)
	here, there := newLoop(t, editor), newLoop(t, newClient(t, cfg))
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
			{"give nothing", func() (bool, error) { return editor.Add("r", c.Key, lim, 0) }, false, 0},
			{"give 3", func() (bool, error) { return editor.Add("r", c.Key, lim, 3) }, true, 3},
			{"give more than all", func() (bool, error) { return editor.Add("r", c.Key, lim, 1<<62) }, true, 5},
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
			eventually(t, fmt.Sprintf("%s, after %q: %d more go elsewhere", c.Key, edit.what, edit.want-1), func() bool {
				return there.ask(10, c).Granted == edit.want-1
			})
			here.ask(1, c)
			there.ask(1, c)
		}
	}
	for _, name := range strings.Fields(s.do("keys", "*")) {
		if !strings.HasPrefix(name, "p:") {
			t.Errorf("%s is written, which lacks the prefix", name)
		}
	}
}

// A key that is new, or holds nothing that can be given back, is left alone.
func TestAddNothing(t *testing.T) {
	t.Parallel()
	s, c, l := newWorld(t)
	if changed, err := c.Add("r", []byte("new"), fixed(5), 3); changed || err != nil {
		t.Errorf("give to a key that is new: %v, %v", changed, err)
	}
	if n := s.do("exists", string(appendName(nil, "", "r", []byte("new")))); n != "0" {
		t.Error("a key was written that is as new")
	}
	booked := l.ask(1, hourly("queue")).Granted + l.ask(1, hourly("queue")).Granted
	for _, lim := range []*limit.Limit{hourly("queue").Limit, limittest.Must(limit.Config{Algorithm: limit.Off})} {
		if changed, err := c.Add("r", []byte("queue"), lim, 3); changed || err != nil {
			t.Errorf("give %v: %v, %v", lim.Config(), changed, err)
		}
	}
	look := hourly("queue")
	look.Cost = 0
	ans := l.ask(1, look)
	if left := ans.Decision().Remaining; booked != 2 || left != 3 {
		t.Errorf("%d of 2 were booked, then %d places are left, want 3", booked, left)
	}
	foreign := string(appendName(nil, "", "r", []byte("foreign")))
	for _, words := range [][]string{{"set", foreign, "text"}, {"lpush", foreign, "text"}} {
		s.do("del", foreign)
		s.do(words...)
		for _, lim := range []*limit.Limit{fixed(5), limittest.Must(limit.Config{Algorithm: limit.SlidingLog, Limit: 5, Window: 10})} {
			if changed, err := c.Add("r", []byte("foreign"), lim, 3); changed || err == nil || !strings.Contains(err.Error(), "something else") {
				t.Errorf("give to what %s made: %v, %v", words[0], changed, err)
			}
		}
	}
	if !c.Connected() {
		t.Error("a key that holds something else counts as an outage")
	}
}

// While Redis is away nothing can be edited, and whoever tries is told.
func TestEditsWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	o := newOutage(t, func(*Config) {})
	o.s.kill()
	eventually(t, "redis counts as away", func() bool { return !o.c.Connected() })
	if changed, err := o.c.Forget("r", []byte("k")); changed || err == nil || !strings.Contains(err.Error(), "redis is away") {
		t.Errorf("forget: %v, %v", changed, err)
	}
	if changed, err := o.c.Add("r", []byte("k"), fixed(5), 1); changed || err == nil || !strings.Contains(err.Error(), "redis is away") {
		t.Errorf("give: %v, %v", changed, err)
	}
}

// A key that was given more lives until it is as new, and a log keeps its newest
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
		if changed, err := c.Add("r", one.Key, lim, 5); !changed || err != nil {
			t.Fatalf("%s: %v, %v", one.Key, changed, err)
		}
		look := one
		look.Cost = 0
		ans := l.ask(1, look)
		d := ans.Decision()
		var ttl int64
		fmt.Sscan(s.do("pttl", string(appendName(nil, "", "r", one.Key))), &ttl)
		if alive := time.Duration(ttl) * time.Millisecond; d.Remaining < 6 || alive > d.TTL()+2*time.Millisecond || alive < d.ResetAfter-patience {
			t.Errorf("%s: %d left, lives %v, is as new after %v", one.Key, d.Remaining, alive, d.ResetAfter)
		}
	}
}
