package redis

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/testkit"
	"weir/proxy/limit"
	"weir/proxy/store"
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
	s := startServer(t)
	cfg := config(s)
	cfg.InFlight = 1 // of several batches under way, the later may be the first
	c := newClient(t, cfg)
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
	if commands, decisions := after.Commands-before.Commands, after.Decisions-before.Decisions; commands != 2 || decisions != 100 {
		t.Errorf("%d commands for %d decisions, want 2 for 100", commands, decisions)
	}
}

// A script has a bounded number of counters, and the server is others' in between: a
// batch of many groups is several calls, and who came first is served first.
func TestScriptsAreBounded(t *testing.T) {
	t.Parallel()
	s, c, _ := newWorld(t)
	const groups, counters = batchMax, 8
	batch := func(shared int64) *store.Batch {
		b := new(store.Batch)
		for i := range groups {
			ask := store.Ask{N: 1, Counters: []store.Counter{{Rule: "shared", Key: fmt.Append(nil, shared), Limit: fixed(shared), Cost: 1}}}
			for k := range counters - 1 {
				ask.Counters = append(ask.Counters, store.Counter{Rule: fmt.Sprint("rule", k), Key: fmt.Append(nil, i), Limit: fixed(100), Cost: 1})
			}
			b.Groups = append(b.Groups, &store.Group{Counters: ask.Counters, N: 1})
		}
		c.back.Decide(background, b)
		return b
	}
	batch(1) // the script is known from now on
	s.do("config", "resetstat")
	for i, g := range batch(100).Groups {
		if g.Err != nil || (g.Granted == 1) != (i < 100) {
			t.Fatalf("group %d: %d granted, %v; want the first 100", i, g.Granted, g.Err)
		}
	}
	const want = groups * counters / scriptCountersMax
	if stats := s.do("info", "commandstats"); !strings.Contains(stats, fmt.Sprintf("cmdstat_evalsha:calls=%d,", want)) {
		t.Errorf("want %d calls of the script:\n%s", want, stats)
	}
}

// As lane has them.
const (
	batchMax = 256
	inFlight = 2
)

// At most batchMax calls go in one batch, the others in the next.
func TestBatchBound(t *testing.T) {
	t.Parallel()
	_, c, l := newWorld(t)
	l.ask(1, counter("first", fixed(60))) // the server knows the script from here on
	for _, test := range []struct{ groups, batches int }{
		{inFlight + batchMax, inFlight + 1},
		{inFlight + batchMax + 1, inFlight + 2},
	} {
		var asks []store.Ask
		for i := range test.groups {
			asks = append(asks, repeated(1, counter(fmt.Sprint(i), fixed(1000)))...)
		}
		before := c.back.counts.exchanges.Count()
		for i, ans := range asksInOneTurn(t, l, asks).answers {
			if ans.Granted != 1 || ans.Mode != store.Exact {
				t.Fatalf("ask %d: %+v", i, ans)
			}
		}
		if n := c.back.counts.exchanges.Count() - before; n != uint64(test.batches) {
			t.Errorf("%d groups went in %d batches, want %d", test.groups, n, test.batches)
		}
	}
}

// At most WaitingMax asks wait; one more follows the failure mode at once.
func TestWaitingBound(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	cfg := config(s)
	cfg.WaitingMax = 10
	c := newClient(t, cfg)
	l := newLoop(t, c)
	for _, test := range []struct {
		asks    int
		crowded uint64
	}{{10, 0}, {11, 1}} {
		before := c.Stats().Crowded
		r := asksInOneTurn(t, l, repeated(test.asks, counter("crowd", fixed(1000))))
		if n := c.Stats().Crowded - before; n != test.crowded {
			t.Errorf("%d asks: %d were too many, want %d", test.asks, n, test.crowded)
		}
		if last := r.answers[test.asks-1]; (last.Mode == store.FailOpen) != (test.crowded == 1) || last.Granted != 1 {
			t.Errorf("%d asks: the last got %+v", test.asks, last)
		}
	}
}

// A stage is a lane whose loop is the test, and whose server stands still until the
// test lets it go on.
type stage struct {
	t      *testing.T
	s      *server
	lane   store.Lane
	posted chan func(now time.Time)
	start  time.Time
	got    map[string]store.Answer
}

func newStage(t *testing.T) *stage {
	s := startServer(t)
	cfg := config(s)
	cfg.InFlight = 1
	c := newClient(t, cfg)
	st := &stage{t: t, s: s, posted: make(chan func(now time.Time), 10), start: time.Now(), got: map[string]store.Answer{}}
	st.lane = c.NewLane(func(f func(now time.Time)) { st.posted <- f })
	t.Cleanup(st.lane.Close)
	st.ask("first", 0, counter("first", fixed(1)))
	st.land(0)
	s.signal(syscall.SIGSTOP)
	return st
}

// ask asks so long after the start.
func (st *stage) ask(name string, after time.Duration, c store.Counter) {
	st.t.Helper()
	var ans store.Answer
	ask := store.Ask{N: 1, Counters: []store.Counter{c}}
	if st.lane.Ask(st.start.Add(after), &ask, &ans, func(_ time.Time, ans *store.Answer) {
		if _, twice := st.got[name]; twice {
			st.t.Errorf("%s was answered twice", name)
		}
		kept := *ans
		kept.Decisions = append([]limit.Decision(nil), ans.Decisions...)
		st.got[name] = kept
	}) {
		st.t.Errorf("%s was answered at once: %+v", name, ans)
	}
}

// land waits for a batch and has it answered.
func (st *stage) land(after time.Duration) { (<-st.posted)(st.start.Add(after)) }

// An ask that was answered while its batch is under way was charged all the same,
// and those behind it come behind it. One that was never sent was not charged.
func TestLateAsksKeepTheirPlace(t *testing.T) {
	t.Parallel()
	st := newStage(t)
	one, ten := counter("one", fixed(1)), counter("ten", fixed(10))
	st.ask("under way", 0, ten)
	st.ask("never sent", 0, ten)
	st.ask("early", 100*time.Millisecond, one)
	st.ask("behind it", time.Second, one)
	st.ask("sent later", time.Second, ten)
	st.lane.Expire(st.start.Add(timeoutMax))
	if got, want := st.lane.Next(), st.start.Add(timeoutMax+100*time.Millisecond); !got.Equal(want) {
		t.Errorf("Next is %v after the start, want %v", got.Sub(st.start), want.Sub(st.start))
	}
	st.s.signal(syscall.SIGCONT)
	first := <-st.posted
	st.s.signal(syscall.SIGSTOP)
	first(st.start.Add(timeoutMax)) // and the rest goes
	st.lane.Expire(st.start.Add(timeoutMax + 100*time.Millisecond))
	st.s.signal(syscall.SIGCONT)
	st.land(timeoutMax + 200*time.Millisecond)
	if !st.lane.Next().IsZero() {
		t.Error("an ask still waits")
	}
	look := ten
	look.Cost = 0
	st.ask("in the end", 0, look)
	st.land(0)
	for _, test := range []struct {
		name      string
		mode      store.Mode
		granted   int
		remaining int64
	}{
		{"under way", store.FailOpen, 1, 0},
		{"never sent", store.FailOpen, 1, 0},
		{"early", store.FailOpen, 1, 0},
		{"behind it", store.Exact, 0, 0},
		{"sent later", store.Exact, 1, 8},
		{"in the end", store.Exact, 1, 8},
	} {
		ans := st.got[test.name]
		if ans.Mode != test.mode || ans.Granted != test.granted || test.mode == store.Exact && ans.Decision().Remaining != test.remaining {
			t.Errorf("%s: %+v", test.name, ans)
		}
	}
}

// An ask whose own deadline passes follows the failure mode by itself; Redis is
// not away for that. What comes too late is ignored, but was charged; what was
// never sent was not.
func TestOwnDeadline(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	cfg := config(s)
	cfg.Timeout, cfg.InFlight = 500*time.Millisecond, 1
	c := newClient(t, cfg)
	l := newLoop(t, c)
	lim := fixed(1000)
	l.ask(1, counter("k", lim))
	s.signal(syscall.SIGSTOP)
	r := startTurn(l, repeated(20, counter("k", lim))) // one is sent, the others gather
	r.wait(t, l)
	s.signal(syscall.SIGCONT)
	for i, ans := range r.answers {
		if ans.Mode != store.FailOpen || ans.Granted != 1 || len(ans.Decisions) != 0 {
			t.Errorf("ask %d: %+v", i, ans)
		}
	}
	if n := c.Stats(); n.Late != 20 || n.Undecided != 20 || !c.Connected() {
		t.Errorf("counted %+v, connected %v", n, c.Connected())
	}
	var ans store.Answer
	testkit.Eventually(t, "it decides again", func() bool {
		look := counter("k", lim)
		look.Cost = 0
		ans = l.ask(1, look)
		return ans.Mode == store.Exact
	})
	if left := ans.Decision().Remaining; left != 998 {
		t.Errorf("%d left of 1000, want 998: one decided, one sent in vain", left)
	}
}

// A loop that was busy takes the answers that are here before it gives any ask up.
func TestBusyLoop(t *testing.T) {
	t.Parallel()
	_, c, _ := newWorld(t)
	var posted []func(now time.Time) // none of them is run
	here := make(chan struct{}, 10)
	lane := c.NewLane(func(f func(now time.Time)) { posted = append(posted, f); here <- struct{}{} })
	defer lane.Close()
	ask := store.Ask{N: 1, Counters: []store.Counter{counter("k", fixed(5))}}
	var got store.Answer
	now := time.Now()
	if lane.Ask(now, &ask, &got, func(_ time.Time, ans *store.Answer) { got = *ans }) {
		t.Fatal("answered at once")
	}
	if next := lane.Next(); !next.Equal(now.Add(timeoutMax)) {
		t.Errorf("Next is %v after the ask, want %v", next.Sub(now), timeoutMax)
	}
	<-here
	lane.Expire(now.Add(time.Hour))
	if got.Mode != store.Exact || got.Granted != 1 {
		t.Errorf("got %+v", got)
	}
	if !lane.Next().IsZero() {
		t.Error("an ask still waits")
	}
	posted[0](now) // the wake-up finds nothing to do
}

// An ask in memory or by the failure mode, and joining a group that gathers, takes
// no memory.
func TestAskAllocates(t *testing.T) {
	_, c, _ := newWorld(t)
	lane := c.NewLane(func(func(now time.Time)) {})
	defer lane.Close()
	ask := store.Ask{N: 1, Counters: []store.Counter{counter("k", fixed(5))}}
	var ans store.Answer
	now := time.Now()
	done := func(time.Time, *store.Answer) {}
	for range 5000 { // the first are sent, these gather
		lane.Ask(now, &ask, &ans, done)
	}
	if n := testing.AllocsPerRun(1000, func() { lane.Ask(now, &ask, &ans, done) }); n != 0 {
		t.Errorf("joining a group: %v allocations", n)
	}
}
