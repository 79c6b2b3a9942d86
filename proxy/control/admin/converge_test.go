package admin

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// A chaos has a fleet change, lose and miss things at random, and keeps what was
// accepted meanwhile.
type chaos[P proxy] struct {
	*fleet[P]
	rng      *rand.Rand
	restarts bool
	accepted []time.Time // the dates of the changes
}

func newChaos[P proxy](f *fleet[P], seed uint64) *chaos[P] {
	c := &chaos[P]{fleet: f, rng: rand.New(rand.NewPCG(seed, 4)), restarts: seed%2 == 0}
	for _, name := range c.names {
		c.of[name].common().skew = time.Duration(c.rng.IntN(61)-30) * time.Second
	}
	return c
}

func (c *chaos[P]) any() P { return c.of[c.names[c.rng.IntN(len(c.names))]] }

// change has p make a change, which it may refuse only when it says upon what, or
// when another is first.
func (c *chaos[P]) change(p P) {
	words := []string{"set", fmt.Sprint(1 + len(c.accepted))}
	switch c.rng.IntN(6) {
	case 0:
		words = []string{"delete"}
	case 1:
		words = append(words, fmt.Sprint(c.rng.IntN(5)))
	}
	_, err := p.do(c.now.Add(p.common().skew), words)
	switch refusable := len(words) == 3 || p.common().link.reach == reachLate; {
	case err == nil:
		_, _, info := p.state()
		c.accepted = append(c.accepted, info.UpdatedAt)
	case !refusable || !errors.Is(err, ErrConflict):
		c.t.Errorf("change %q: %v", words, err)
	}
}

// step is one thing that happens.
func (c *chaos[P]) step() {
	c.now = c.now.Add(time.Duration(c.rng.IntN(3)) * time.Second / 2)
	p := c.any()
	m := p.common()
	now := c.now.Add(m.skew)
	switch c.rng.IntN(16) {
	case 0, 1, 2, 3:
		c.change(p)
	case 4:
		if other := c.any(); other.common() != m {
			m.link.beaten = func() {
				other.common().link.beaten = nil // p is at work and cannot beat in turn
				c.change(other)
			}
		}
	case 5, 6:
		m.link.set(reach(c.rng.IntN(5)))
	case 7, 8:
		m.link.set(reachAll)
	case 9:
		c.store.flush()
	case 10:
		p.Sync(now)
	case 11, 12:
		c.watch(p)
	case 13:
		c.round()
	case 14:
		if c.rng.IntN(2) == 0 {
			c.store.garble("?")
		} else {
			c.store.replace("?")
		}
	case 15:
		if c.restarts {
			p.start(c.t, now)
		}
	}
}

// heal ends all trouble. What cannot be understood in the store is ended by a
// change, as nothing else may.
func (c *chaos[P]) heal() {
	for _, name := range c.names {
		c.of[name].common().link.set(reachAll)
		c.of[name].common().link.beaten = nil
	}
	p := c.any()
	if err := c.fleet.change(p, "1000"); err != nil {
		c.t.Fatal(err)
	}
	_, _, info := p.state()
	c.accepted = append(c.accepted, info.UpdatedAt)
}

// latest is when the change was made that all must come to: the latest accepted.
// After restarts it is the latest that anybody still knows.
func (c *chaos[P]) latest() (at time.Time) {
	later := func(t time.Time) {
		if t.After(at) {
			at = t
		}
	}
	if !c.restarts {
		for _, at := range c.accepted {
			later(at)
		}
		return at
	}
	for _, name := range c.names {
		if e, _, _ := c.of[name].state(); e != nil {
			later(e.UpdatedAt)
		}
	}
	if e, err := c.of[c.names[0]].readEntry(c.store.read()); err == nil {
		later(e.UpdatedAt)
	}
	return at
}

// converged fails unless every proxy has in force what the store holds, which is
// the change of that time, and nothing more is done.
func (c *chaos[P]) converged(at time.Time) {
	c.t.Helper()
	doc := c.store.read()
	first := c.of[c.names[0]]
	for _, name := range c.names {
		p := c.of[name]
		known, situation, info := p.state()
		if got, want := p.tell(), first.tell(); got != want || situation != situationStore || info.Version != doc.Version {
			c.t.Errorf("%s: %s, want %s; the store's version is %d", name, got, want, doc.Version)
		}
		if !info.UpdatedAt.Equal(at) || string(known.body) != string(doc.Body) {
			c.t.Errorf("%s: in force is the change of %v, want that of %v; the store holds %s", name, info.UpdatedAt, at,
				doc.Body)
		}
		p.common().log.Taken()
	}
	writes := c.store.writes
	c.round()
	for _, name := range c.names {
		if lines := c.of[name].common().log.Taken(); len(lines) > 0 {
			c.t.Errorf("%s is not at rest: %q", name, lines)
		}
	}
	if c.store.writes != writes {
		c.t.Errorf("at rest there were %d writes, want none", c.store.writes-writes)
	}
}

// Whatever happens, two rounds after the end of it all proxies have the latest
// change in force, and it was never replaced by an earlier one anywhere.
func TestConvergence(t *testing.T) {
	for seed := range uint64(400) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { newChaos(newFleet(t, "a", "b", "c"), seed).run() })
		if seed < 60 {
			t.Run(fmt.Sprint("rules ", seed), func(t *testing.T) { newChaos(newRuleFleet(t, "a", "b", "c"), seed).run() })
		}
	}
}

func (c *chaos[P]) run() {
	known := func() map[*testkit.LogRecords]time.Time { // by the log, which is another one after a restart
		at := make(map[*testkit.LogRecords]time.Time)
		for _, p := range c.of {
			if e, _, _ := p.state(); e != nil {
				at[p.common().log] = e.UpdatedAt
			}
		}
		return at
	}
	for range 60 {
		before := known()
		c.step()
		for log, at := range known() {
			if at.Before(before[log]) {
				c.t.Fatalf("a proxy went back from the change of %v to that of %v", before[log], at)
			}
		}
	}
	c.heal()
	latest := c.latest()
	c.round()
	c.round()
	c.converged(latest)
}

// The same with everything at once, for the race detector: watchers, clients and
// the data path of three proxies, and a store that is emptied and away.
func TestConcurrentProxies(t *testing.T) {
	f := newFleet(t, "a", "b", "c")
	var all sync.WaitGroup
	for i, name := range f.names {
		m := f.of[name]
		rng := rand.New(rand.NewPCG(uint64(i), 5))
		all.Go(func() {
			for range 300 {
				if doc := m.fresh(); doc != nil {
					m.Observe(time.Now(), *doc)
				}
				m.Sync(time.Now())
			}
		})
		all.Go(func() {
			for n := range int64(100) {
				if _, err := m.Apply(time.Now(), change(fixed(1+n))); err != nil && !errors.Is(err, ErrConflict) {
					t.Error(err)
				}
				if _, err := m.Reload(time.Now()); err != nil && !errors.Is(err, ErrUnavailable) {
					t.Error(err)
				}
				m.link.set(reach(rng.IntN(4)))
			}
			m.link.set(reachAll)
		})
		all.Go(func() {
			for range 1000 {
				if n := m.Policy().Limit.Permits(); n < 1 || n > 100 {
					t.Errorf("a policy of %d permits", n)
				}
			}
		})
	}
	all.Go(func() {
		for range 50 {
			f.store.flush()
		}
	})
	all.Wait()
	c := &chaos[*member]{fleet: f}
	var latest time.Time
	for _, m := range f.of {
		if at := m.known.UpdatedAt; at.After(latest) {
			latest = at
		}
		lines := strings.Join(m.log.Taken(), "\n")
		if applied := strings.Count(lines, "Applied new config"); m.changes != applied {
			t.Errorf("%d calls of OnChange for %d changes", m.changes, applied)
		}
	}
	f.now = time.Now()
	f.round()
	f.round()
	c.converged(latest)
}
