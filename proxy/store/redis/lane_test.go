package redis

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/limit"
	"weir/proxy/store"
	"weir/proxy/store/redis/redistest"
)

// A turn is asks made in one turn of a loop, and what became of them.
type turn struct {
	answers []store.Answer // by ask
	done    []int          // how often each was answered
	left    int
}

// asksInOneTurn makes asks on the loop without a pause, and waits for the answers.
func asksInOneTurn(t *testing.T, l *loop, asks []store.Ask) *turn {
	t.Helper()
	r := startTurn(l, asks)
	r.wait(t, l)
	return r
}

func startTurn(l *loop, asks []store.Ask) *turn {
	r := &turn{answers: make([]store.Answer, len(asks)), done: make([]int, len(asks)), left: len(asks)}
	l.post(func(now time.Time) {
		for i := range asks {
			keep := func(_ time.Time, ans *store.Answer) {
				r.answers[i] = *ans
				r.answers[i].Decisions = append([]limit.Decision(nil), ans.Decisions...)
				r.done[i]++
				r.left--
			}
			var ans store.Answer
			if l.lane.Ask(now, &asks[i], &ans, keep) {
				keep(now, &ans)
			}
		}
	})
	return r
}

// wait waits until each ask has its answer, and says so if one has two.
func (r *turn) wait(t *testing.T, l *loop) {
	t.Helper()
	testkit.Eventually(t, "all asks are answered", func() bool { return onLoop(l, func() bool { return r.left <= 0 }) })
	for i, n := range r.done {
		if n != 1 {
			t.Errorf("ask %d was answered %d times", i, n)
		}
	}
}

// onLoop returns what f returns on the loop.
func onLoop[T any](l *loop, f func() T) T {
	c := make(chan T, 1)
	l.post(func(time.Time) { c <- f() })
	return <-c
}

// repeated is n asks of one request for the same counters.
func repeated(n int, counters ...store.Counter) []store.Ask {
	asks := make([]store.Ask, n)
	for i := range asks {
		asks[i] = store.Ask{N: 1, Counters: counters}
	}
	return asks
}

// While batches are under way, asks for one group gather in one call; the first
// come are the first served.
func TestAsksGather(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	cfg := config(s)
	cfg.InFlight = 1 // of several batches under way, the later may be the first
	c := newTestStore(t, cfg)
	l := newLoop(t, c)
	l.ask(1, counter("first", fixed(60))) // the server knows the script from here on
	before := c.Stats()
	r := asksInOneTurn(t, l, repeated(100, counter("gather", fixed(60))))
	for i, ans := range r.answers {
		want := limit.Decision{Allowed: i < 60, Remaining: max(0, int64(59-i)), Limit: 60}
		d := ans.Decision()
		got := limit.Decision{Allowed: d.Allowed, Remaining: d.Remaining, Limit: d.Limit}
		if ans.Mode != store.Exact || got != want || (ans.Granted == 1) != want.Allowed || d.Allowed == (d.RetryAfter > 0) {
			t.Errorf("ask %d: %+v, want %+v", i, ans, want)
		}
	}
	after := c.Stats()
	if commands, decisions := after.Commands-before.Commands, after.Decisions-before.Decisions; commands != 2 ||
		decisions != 100 {
		t.Errorf("%d commands for %d decisions, want 2 for 100", commands, decisions)
	}
}

// A script has a bounded number of counters, and the server is others' in between: a
// batch of many groups is several calls, and who came first is served first.
func TestScriptsAreBounded(t *testing.T) {
	t.Parallel()
	s, c, _ := newWorld(t)
	const groups, counters = 256, 8 // as many groups as lane has in a batch
	batch := func(shared int64) *store.Batch {
		b := new(store.Batch)
		for i := range groups {
			ask := store.Ask{N: 1,
				Counters: []store.Counter{{Rule: "shared", Key: fmt.Append(nil, shared), Limit: fixed(shared), Cost: 1}}}
			for k := range counters - 1 {
				ask.Counters = append(ask.Counters, store.Counter{Rule: fmt.Sprint("rule", k), Key: fmt.Append(nil, i),
					Limit: fixed(100), Cost: 1})
			}
			b.Groups = append(b.Groups, &store.Group{Counters: ask.Counters, N: 1})
		}
		c.back.Decide(background, b)
		return b
	}
	batch(1) // the script is known from now on
	s.Do("config", "resetstat")
	for i, g := range batch(100).Groups {
		if g.Err != nil || (g.Granted == 1) != (i < 100) {
			t.Fatalf("group %d: %d granted, %v; want the first 100", i, g.Granted, g.Err)
		}
	}
	const want = groups * counters / scriptCountersMax
	if stats := s.Do("info", "commandstats"); !strings.Contains(stats, fmt.Sprintf("cmdstat_evalsha:calls=%d,", want)) {
		t.Errorf("want %d calls of the script:\n%s", want, stats)
	}
}

// An ask whose own deadline passes follows the failure mode by itself; Redis is
// not away for that. What comes too late is ignored, but was charged; what was
// never sent was not.
func TestOwnDeadline(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	cfg := config(s)
	cfg.Timeout, cfg.InFlight = 500*time.Millisecond, 1
	c := newTestStore(t, cfg)
	l := newLoop(t, c)
	lim := fixed(1000)
	look := counter("k", lim)
	look.Cost = 0
	var ans store.Answer
	decides := func() bool { ans = l.ask(1, look); return ans.Mode == store.Exact }
	testkit.Eventually(t, "it decides", decides)
	before := c.Stats()
	s.Signal(syscall.SIGSTOP)
	r := startTurn(l, repeated(20, counter("k", lim))) // one is sent, the others gather
	r.wait(t, l)
	s.Signal(syscall.SIGCONT)
	for i, ans := range r.answers {
		if ans.Mode != store.FailOpen || ans.Granted != 1 || len(ans.Decisions) != 0 {
			t.Errorf("ask %d: %+v", i, ans)
		}
	}
	if n := c.Stats(); n.Late-before.Late != 20 || n.Undecided-before.Undecided != 20 || !c.Connected() {
		t.Errorf("counted %+v, %+v before, connected %v", n, before, c.Connected())
	}
	testkit.Eventually(t, "it decides again", decides)
	if left := ans.Decision().Remaining; left != 999 {
		t.Errorf("%d left of 1000, want 999: one sent in vain", left)
	}
}
