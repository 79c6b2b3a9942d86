package lane

import (
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"weir/internal/net/loop"
	"weir/internal/test/testkit"
	"weir/proxy/store"
)

// A quietClient hears nothing until a batch's time is over.
type quietClient struct{ under []quiet }

// quiet is a batch that a quietClient has sent.
type quiet struct {
	batch *store.Batch
	until time.Time
	done  func(now time.Time)
}

func (c *quietClient) Send(_ time.Time, b *store.Batch, until time.Time, done func(now time.Time)) {
	c.under = append(c.under, quiet{b, until, done})
}

func (c *quietClient) Fetch(time.Time) {}

func (c *quietClient) End(now, _ time.Time) { c.expire(now, now.Add(timeoutMax)) }

// next is when the first batch is over; zero: there is none.
func (c *quietClient) next() (at time.Time) {
	if len(c.under) > 0 {
		at = c.under[0].until
	}
	return at
}

// expire ends the batches whose time is over by the time end.
func (c *quietClient) expire(now, end time.Time) {
	for len(c.under) > 0 && !c.under[0].until.After(end) {
		q := c.under[0]
		c.under = c.under[1:]
		for _, g := range q.batch.Groups {
			g.Err = errLate
		}
		q.done(now)
	}
}

// In virtual time, with a loop that is woken when it wants to be: while the store is silent each
// ask is answered at its deadline, not before and not later, whether it was sent by a helper or
// by a loop client or not at all; or earlier, once the store is known to be silent.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 2))
		f := newFake()
		f.hold = make(chan struct{})
		f.spared = "edits"
		misses := 1 + r.IntN(20)
		st := newStage(t, f, func(cfg *Config) { cfg.InFlight, cfg.Misses = 1+r.IntN(3), misses })
		f.set(func(f *fake) { f.fault = errLate }) // the prober does not find it
		loopClient := new(quietClient)
		if seed%2 > 0 {
			st.lane.loopClient = loopClient
		}
		now, end := st.start, st.start.Add(3*timeoutMax)
		asked, answered, late := 0, 0, 0
		for arrival := now; now.Before(end) || answered < asked; {
			now = arrival
			for _, at := range [...]time.Time{st.lane.Next(), loopClient.next()} {
				if !at.IsZero() && at.Before(now) {
					now = at
				}
			}
			loopClient.expire(now, now)
			st.lane.Expire(now)
			for len(st.posted) > 0 {
				(<-st.posted)(now)
			}
			if now.Before(arrival) {
				continue
			}
			arrival = arrival.Add(time.Duration(r.ExpFloat64() * float64(20*time.Millisecond)))
			if !now.Before(end) {
				continue
			}
			began, wasAway := now, st.s.breaker.isOpen.Load()
			asked++
			done := func(at time.Time, ans *store.Answer) {
				answered++
				waited := at.Sub(began)
				if waited == timeoutMax {
					late++
				}
				if waited > timeoutMax || waited < timeoutMax && !st.s.breaker.isOpen.Load() || wasAway {
					t.Errorf("seed %d: an ask waits %v, away %v", seed, waited, wasAway)
				}
				if ans.Mode != store.FailOpen || ans.Granted != 1 {
					t.Errorf("seed %d: %+v", seed, ans)
				}
			}
			c := counter(string(rune('a'+r.IntN(20))), fixed(5))
			if st.lane.Ask(now, &store.Ask{N: 1, Counters: []store.Counter{c}}, new(store.Answer), done) {
				answered++
			}
		}
		if answered != asked || late < 50 {
			t.Errorf("seed %d: %d of %d are answered, %d at their deadline", seed, answered, asked, late)
		}
	}
}

// A fetching loop client has answers that wait for their turn.
type fetching struct {
	quietClient
	f *fake
}

func (c *fetching) Fetch(now time.Time) {
	for _, q := range c.under {
		for _, g := range q.batch.Groups {
			c.f.decide(g)
		}
		q.done(now)
	}
	c.under = nil
}

// An answer that has arrived goes before the deadline, also when a busy loop has not read it.
func TestArrivedAnswers(t *testing.T) {
	t.Parallel()
	f := newFake()
	st := newStage(t, f, nil)
	st.lane.loopClient = &fetching{f: f}
	st.ask("a", 0, 7, counter("k", fixed(5)))
	st.lane.Expire(st.start.Add(timeoutMax - 1))
	if got := st.outcomes(); got != "" {
		t.Errorf("before its deadline: %s", got)
	}
	st.lane.Expire(st.start.Add(timeoutMax))
	if got := st.outcomes(); got != "a: 5 exact" {
		t.Errorf("at its deadline: %q", got)
	}
}

// withLoopClients is a backend with silent loop clients that looks at the store when it makes one.
type withLoopClients struct {
	*fake
	look func()
}

func (b *withLoopClients) NewLoopClient(*loop.Loop) LoopClient {
	b.look()
	return new(quietClient)
}

// The store knows a lane of a loop only when it is complete: from then on other goroutines read it.
func TestOn(t *testing.T) {
	t.Parallel()
	g := testkit.Must(loop.Start(loop.Config{Loops: 1}))(t)
	b := &withLoopClients{fake: newFake()}
	s := New(b, Config{Name: "fake", Title: "Fake", Timeout: timeoutMax, InFlight: 1, Log: slog.New(slog.DiscardHandler)})
	b.look = func() {
		if len(s.lanes) > 0 {
			t.Error("the store knows a lane without its loopClient")
		}
	}
	l := ForLoop(s, g.Loops()[0]).(*Lane)
	if len(s.lanes) != 1 || l.loopClient == nil || l.alarm == nil {
		t.Errorf("%d lanes, loopClient %v, alarm %v", len(s.lanes), l.loopClient, l.alarm)
	}
	g.Stop()
	close(b.over)
	l.Close()
	s.Close()
}
