package admin

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/testkit"
)

// A chaos has a fleet change, lose and miss things at random, and keeps what was
// accepted meanwhile.
type chaos struct {
	*fleet[*member]
	rng      *rand.Rand
	restarts bool
	accepted []*Active
}

func newChaos(t *testing.T, seed uint64) *chaos {
	c := &chaos{fleet: newFleet(t, "a", "b", "c"), rng: rand.New(rand.NewPCG(seed, 4)), restarts: seed%2 == 0}
	for _, name := range c.names {
		c.of[name].skew = time.Duration(c.rng.IntN(61)-30) * time.Second
	}
	return c
}

func (c *chaos) any() *member { return c.of[c.names[c.rng.IntN(len(c.names))]] }

// change has m make a change, which it may refuse only when it says upon what, or
// when it was beaten.
func (c *chaos) change(m *member) {
	now := c.now.Add(m.skew)
	var a *Active
	var err error
	ifMatch := int64(-1)
	switch c.rng.IntN(6) {
	case 0:
		a, err = m.Delete(now, -1)
	case 1:
		ifMatch = c.rng.Int64N(5)
		fallthrough
	default:
		a, err = m.Apply(now, Change{Config: fixed(1 + int64(len(c.accepted))), Source: SourceAPI, IfMatch: ifMatch})
	}
	switch {
	case err == nil:
		c.accepted = append(c.accepted, a)
	case ifMatch < 0 || !errors.Is(err, ErrConflict):
		c.t.Errorf("change upon %d: %v", ifMatch, err)
	}
}

// step is one thing that happens.
func (c *chaos) step() {
	c.now = c.now.Add(time.Duration(c.rng.IntN(3)) * time.Second / 2)
	m := c.any()
	now := c.now.Add(m.skew)
	switch c.rng.IntN(16) {
	case 0, 1, 2, 3:
		c.change(m)
	case 4:
		if other := c.any(); other != m {
			m.link.beaten = func() {
				other.link.beaten = nil // m is at work and cannot beat in turn
				c.change(other)
			}
		}
	case 5, 6:
		m.link.set(reach(c.rng.IntN(4)))
	case 7, 8:
		m.link.set(reachAll)
	case 9:
		c.store.flush()
	case 10:
		m.Sync(now)
	case 11, 12:
		m.watch(now)
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
			m.start(c.t, now)
		}
	}
}

// heal ends all trouble. What cannot be understood in the store is ended by a
// change, as nothing else may.
func (c *chaos) heal() {
	for _, name := range c.names {
		c.of[name].link.set(reachAll)
		c.of[name].link.beaten = nil
	}
	m := c.any()
	a := testkit.Must(m.Apply(c.now.Add(m.skew), change(fixed(1000))))(c.t)
	c.accepted = append(c.accepted, a)
}

// latest is when the change was made that all must come to: the latest accepted.
// After restarts it is the latest that anybody still knows.
func (c *chaos) latest() (at time.Time) {
	later := func(t time.Time) {
		if t.After(at) {
			at = t
		}
	}
	if !c.restarts {
		for _, a := range c.accepted {
			later(a.UpdatedAt)
		}
		return at
	}
	for _, name := range c.names {
		if e := c.of[name].known; e != nil {
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
func (c *chaos) converged(at time.Time) {
	c.t.Helper()
	doc := c.store.read()
	first := c.of[c.names[0]]
	for _, name := range c.names {
		m := c.of[name]
		a := m.Active()
		if got, want := m.tell(), first.tell(); got != want || m.place != placeStore || a.Version != doc.Version {
			c.t.Errorf("%s: %s, want %s; the store's version is %d", name, got, want, doc.Version)
		}
		if !a.UpdatedAt.Equal(at) || string(m.known.body) != string(doc.Body) {
			c.t.Errorf("%s: in force is the change of %v, want that of %v; the store holds %s", name, a.UpdatedAt, at, doc.Body)
		}
		m.log.Taken()
	}
	writes := c.store.writes
	c.round()
	for _, name := range c.names {
		if lines := c.of[name].log.Taken(); len(lines) > 0 {
			c.t.Errorf("%s is not at rest: %q", name, lines)
		}
	}
	if c.store.writes != writes {
		c.t.Error("the store is written again and again")
	}
}

// Whatever happens, two rounds after the end of it all proxies have the latest
// change in force, and it was never replaced by an earlier one anywhere.
func TestConvergence(t *testing.T) {
	for seed := range uint64(400) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			c := newChaos(t, seed)
			for range 60 {
				before := make(map[*Limits]time.Time)
				for _, m := range c.of {
					if m.known != nil {
						before[m.Limits] = m.known.UpdatedAt
					}
				}
				c.step()
				for name, m := range c.of {
					if m.known != nil && m.known.UpdatedAt.Before(before[m.Limits]) {
						t.Fatalf("%s went back to an earlier change", name)
					}
				}
			}
			c.heal()
			latest := c.latest()
			c.round()
			c.round()
			c.converged(latest)
		})
	}
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
				m.watch(time.Now())
				m.Sync(time.Now())
			}
		})
		all.Go(func() {
			for n := range int64(100) {
				if _, err := m.Apply(time.Now(), change(fixed(1+n))); err != nil && !errors.Is(err, ErrConflict) {
					t.Error(err)
				}
				if _, err := m.Reload(time.Now()); err != nil && !errors.Is(err, ErrAway) {
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
	c := &chaos{fleet: f}
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
