package redis

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/store"
	"weir/proxy/store/redis/redistest"
	"weir/proxy/store/storetest"
)

// hourly is a queue of four in which one leaves each hour.
func hourly(key string) store.Counter {
	return counter(key, limittest.Must(limit.Config{Algorithm: limit.Leaky, Capacity: 4, FillRate: 0.000278}))
}

// A log of many entries, from which hundreds leave at once or one by one: the script
// cuts them off now and then, finds its way, and decides as package limit does.
func TestLongLog(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, conn := newClocked(t, s, clockInKey), dial(s)
	for i, l := range []*limit.Limit{
		limittest.Must(limit.Config{Algorithm: limit.SlidingLog, Limit: 260, Window: 0.1}),
		limittest.Soft(limit.Config{Algorithm: limit.SlidingLog, Limit: 200, Window: 0.1}, 0.2, 0.15),
	} {
		var state limit.State
		now, r := limittest.Epoch, rand.New(rand.NewPCG(1, uint64(i)))
		prefix, longest, had, cut := strconv.Itoa(i)+"_", 0, 0, 0
		for step := range 2000 {
			now += []int64{0, 1, r.Int64N(500), r.Int64N(3_000)}[r.IntN(4)]
			if step%500 == 499 {
				now += 80_000
			}
			ask := store.Ask{N: 1 + r.IntN(2), Counters: []store.Counter{{Rule: "r", Limit: l, Cost: r.Int64N(3)}}}
			if r.IntN(50) == 0 {
				ask.Counters[0].Cost = r.Int64N(270)
			}
			setClock(t, conn, prefix, now)
			g := decideNow(c, prefix, &ask)
			if g.Err != nil {
				t.Fatal(g.Err)
			}
			var got store.Answer
			storetest.ComputeAnswer(&g.Group, &got)
			granted, _ := l.Decide(now, &state, ask.Counters[0].Charge(int64(ask.N)))
			want := l.Preview(now, &state, ask.Counters[0].Charge(1))
			if r.IntN(10) == 0 {
				n := 1 + r.Int64N(20)
				if changed := addNow(t, c, g.names, n); changed != state.Add(now, n) {
					t.Fatalf("limit %d, step %d: %d given: %v", i, step, n, changed)
				}
			}
			if int64(got.Granted) != granted || got.Granted < ask.N && got.Decision() != want {
				t.Fatalf("limit %d, step %d, %+v:\n got %+v\nwant %d, %+v", i, step, ask, got, granted, want)
			}
			longest = max(longest, len(state.Append(nil))/14)
			m := must(t, conn.Do(background, conn.B().Get().Key(g.names[0]).Build()))
			if raw, _ := m.AsBytes(); len(raw) > 0 {
				if n := len(raw)/14 - len(state.Append(nil))/14; n < had-64 {
					cut++
				} else {
					had = n
				}
			}
		}
		if cut == 0 {
			t.Errorf("limit %d: nothing was cut off", i)
		}
		if longest < 80 {
			t.Errorf("limit %d: at most %d entries, which says little", i, longest)
		}
	}
}

// Asks share a call when all of their conditions are equal, and a refusal is
// remembered for these alone.
func TestConditionsKeepApart(t *testing.T) {
	t.Parallel()
	_, c, l := newWorld(t)
	ten := fixed(10)
	of := func(reserve int64) store.Counter { k := counter("k", ten); k.Reserve = reserve; return k }
	if ans := l.ask(10, of(4)); ans.Granted != 6 || ans.Decision().Remaining != 0 {
		t.Errorf("with 4 kept back: %+v", ans)
	}
	if ans := l.ask(1, of(4)); ans.Granted != 0 || ans.Mode != store.Cached {
		t.Errorf("the same again: %+v, want it remembered", ans)
	}
	if ans := l.ask(10, of(3)); ans.Granted != 1 {
		t.Errorf("with 3 kept back: %+v", ans)
	}
	r := asksInOneTurn(t, l, append(append(repeated(3, of(2)), repeated(3, of(1))...), repeated(3, of(0))...))
	granted := 0
	for _, ans := range r.answers {
		granted += ans.Granted
	}
	if granted != 3 {
		t.Errorf("%d of the last 3 went", granted)
	}
	patient := func(most time.Duration) store.Counter { q := hourly("q"); q.MaxDelay = most; return q }
	for i, test := range []struct {
		c       store.Counter
		granted int
	}{
		{patient(0), 1}, {patient(time.Minute), 0}, {patient(time.Hour), 1}, {patient(time.Hour), 0},
		{patient(2 * time.Hour), 1},
	} {
		if ans := l.ask(1, test.c); ans.Granted != test.granted {
			t.Errorf("ask %d, %v at most: %+v", i, test.c.MaxDelay, ans)
		}
	}
	if c.Stats().Errors != 0 {
		t.Errorf("%+v", c.Stats())
	}
}

// What is off never goes to Redis, and is admitted while that is away.
func TestOffIsNotAsked(t *testing.T) {
	t.Parallel()
	o := newOutage(t, func(cfg *Config) { cfg.Failure = store.Closed })
	none := counter("none", limittest.Must(limit.Config{Algorithm: limit.Off}))
	commands := o.c.Stats().Commands
	if ans := o.l.ask(1000, none); ans.Granted != 1000 || ans.Mode != store.Exact || o.c.Stats().Commands != commands {
		t.Errorf("%+v, %d commands", ans, o.c.Stats().Commands-commands)
	}
	two := fixed(2)
	first, second := none, none
	first.Rule, second.Rule = "first", "second"
	if ans := o.l.ask(3, first, counter("k", two), second); ans.Granted != 2 || ans.Tightest != 1 ||
		len(ans.Decisions) != 3 {
		t.Errorf("around one that has a limit: %+v", ans)
	}
	if ans := o.l.ask(1, counter("k", two), second); ans.Granted != 0 || len(ans.Decisions) != 2 {
		t.Errorf("behind one that is used up: %+v", ans)
	}
	if keys := o.s.Do("keys", "*none*"); keys != "" {
		t.Errorf("redis holds %q", keys)
	}
	o.s.Kill()
	testkit.Eventually(t, "redis counts as away", func() bool { o.l.ask(1, counter("k", two)); return !o.c.Connected() })
	if ans := o.l.ask(1000, none); ans.Granted != 1000 || ans.Mode != store.Exact {
		t.Errorf("while redis is away: %+v", ans)
	}
}

// release gives a place back on the loop.
func (l *loop) release(c store.Counter, slot int64, mode store.Mode) {
	l.post(func(now time.Time) { l.lane.Refund(now, &c, slot, mode) })
}

// Places are given back from the last on, together with what is asked meanwhile, and
// without anything.
func TestLaneReleases(t *testing.T) {
	t.Parallel()
	cfg := config(redistest.Start(t))
	cfg.InFlight = 1 // of several batches under way, the later may be the first
	c := newTestStore(t, cfg)
	l := newLoop(t, c)
	var slots []int64
	for range 5 {
		slots = append(slots, l.ask(1, hourly("k")).Decisions[0].Slot)
	}
	left := func() int64 {
		look := hourly("k")
		look.Cost = 0
		return l.ask(1, look).Decisions[0].Remaining
	}
	if n := left(); n != 0 {
		t.Fatalf("%d places left of a full queue", n)
	}
	l.release(hourly("k"), slots[2], store.Exact) // not the last
	l.release(hourly("k"), 0, store.Exact)
	l.release(counter("k", fixed(3)), slots[4], store.Exact)
	for _, mode := range []store.Mode{store.Cached, store.FailOpen, store.Closed} {
		l.release(hourly("k"), slots[4], mode)
	}
	if n := left(); n != 0 {
		t.Errorf("%d places left, though others than the last were given back", n)
	}
	l.release(hourly("k"), slots[4], store.Exact)
	testkit.Eventually(t, "the last is given back", func() bool { return left() == 1 })
	l.release(hourly("k"), slots[4], store.Exact)
	l.release(hourly("k"), slots[3], store.Exact)
	testkit.Eventually(t, "the one before is given back", func() bool { return left() == 2 })
	if again := l.ask(1, hourly("k")).Decisions[0].Slot; again != slots[3] {
		t.Errorf("the next leaves at %d, want %d", again, slots[3])
	}
	// whoever asks after that goes in the place that is given back
	last := l.ask(1, hourly("k")).Decisions[0].Slot
	answers := make(chan store.Answer, 1)
	l.post(func(now time.Time) {
		q, ans := hourly("k"), store.Answer{}
		l.lane.Refund(now, &q, last, store.Exact)
		l.lane.Ask(now, &store.Ask{N: 1, Counters: []store.Counter{q}}, &ans, func(_ time.Time, ans *store.Answer) {
			answers <- store.Answer{Granted: ans.Granted, Decisions: append([]limit.Decision(nil), ans.Decisions...)}
		})
	})
	if ans := <-answers; ans.Granted != 1 || ans.Decisions[0].Slot != last {
		t.Errorf("asked while the last place is given back: %+v, want the slot %d", ans, last)
	}
	if n := c.Stats(); n.Unreleased != 0 || n.Errors != 0 {
		t.Errorf("%+v", n)
	}
}

// While Redis is away nothing is kept to be given back, and in mode Local the table
// takes it.
func TestReleaseWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	table := newLocal(t)
	o := newOutage(t, func(cfg *Config) { cfg.Failure, cfg.Local = store.Local, table })
	o.s.Kill()
	testkit.Eventually(t, "the table decides",
		func() bool { return o.l.ask(1, counter("k", fixed(1000))).Mode == store.Local })
	o.l.release(hourly("k"), limittest.Epoch, store.Exact)
	o.l.ask(1, hourly("k"))
	booked := o.l.ask(1, hourly("k"))
	o.l.release(hourly("k"), booked.Decision().Slot, booked.Mode)
	if again := o.l.ask(1, hourly("k")); again.Decision().Slot != booked.Decision().Slot {
		t.Errorf("the next leaves at %d, want %d", again.Decision().Slot, booked.Decision().Slot)
	}
	if n := o.c.Stats(); n.Unreleased != 1 {
		t.Errorf("%+v, want one place that stayed booked", n)
	}
}

// Requests that were not sent give back what they were charged, one per key and window, on all
// lanes together. What was charged in another mode is not given back.
func TestLaneGivesBackOnce(t *testing.T) {
	t.Parallel()
	c := newTestStore(t, config(redistest.Start(t)))
	lanes := [2]*loop{newLoop(t, c), newLoop(t, c)}
	giveBack := func(l *loop, key string, at int64, mode store.Mode) {
		charged := store.Refund{Counter: counter(key, fixed(5)), Instant: at}
		l.post(func(now time.Time) { store.RefundUnsent(now, l.lane, &charged, mode) })
	}
	left := func(key string) int64 {
		look := counter(key, fixed(5))
		look.Cost = 0
		return lanes[0].ask(1, look).Decisions[0].Remaining
	}
	charge := func(key string) int64 {
		ans := lanes[0].ask(4, counter(key, fixed(5)))
		if ans.Granted != 4 || ans.At == 0 {
			t.Fatalf("%+v", ans)
		}
		return ans.At
	}
	others := []store.Mode{store.Cached, store.FailOpen, store.Local, store.Closed}
	for _, mode := range others { // each key may give back once
		giveBack(lanes[0], mode.String(), charge(mode.String()), mode)
	}
	at := charge("b")
	giveBack(lanes[0], "b", 0, store.Exact)
	for range 2 {
		for _, l := range lanes {
			giveBack(l, "b", at, store.Exact)
		}
	}
	testkit.Eventually(t, "one is given back", func() bool { return left("b") == 2 })
	for _, l := range lanes {
		giveBack(l, "b", at, store.Exact)
		l.ask(1, counter("after", fixed(5)))
	}
	if n := left("b"); n != 2 {
		t.Errorf("%d are left, want 2", n)
	}
	for _, mode := range others {
		if n := left(mode.String()); n != 1 {
			t.Errorf("%d are left of what was charged in mode %v, want 1", n, mode)
		}
	}
}
