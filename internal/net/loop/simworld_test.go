package loop

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/timing/agenda"
)

var (
	simSeed   = flag.Uint64("sim-seed", 0, "the one world that TestConnections simulates; 0: many")
	simWorlds = flag.Uint64("sim-worlds", 400, "how many")
)

// TestConnections runs the real Conn, Loop and events over a fake kernel and a
// fake gnet in virtual time: peers that send, stop, half close, leave and
// reset, Handlers that take, hold, write, panic and end as they like, sockets
// that take a part of what is written, and system calls that fail. Whatever
// comes of it, the laws of check hold after every event.
func TestConnections(t *testing.T) {
	first, last := uint64(1), *simWorlds
	if *simSeed > 0 {
		first, last = *simSeed, *simSeed
	}
	var sum simTally
	for seed := first; seed <= last && !t.Failed(); seed++ {
		synctest.Test(t, func(t *testing.T) {
			w := newSimWorld(seed)
			w.run()
			if w.err != nil {
				t.Errorf("%v\nagain: go test ./internal/loop -run Connections -sim-seed %d", w.err, seed)
			}
			sum.add(&w.tally)
		})
	}
	t.Logf("%+v", sum)
	if *simSeed == 0 && (sum.Paused == 0 || sum.Stalled == 0 || sum.Clean == 0 || sum.Resets == 0 || sum.Panics == 0 ||
		sum.Faulty == 0 || sum.Unheard == 0) {
		t.Error("too little happens")
	}
}

// A simTally says what happened, so that nobody trusts a simulation in which
// nothing does.
type simTally struct{ Conns, Paused, Stalled, Clean, Resets, Panics, Faulty, Told, Unheard int }

func (s *simTally) add(o *simTally) {
	s.Conns += o.Conns
	s.Paused += o.Paused
	s.Stalled += o.Stalled
	s.Clean += o.Clean
	s.Resets += o.Resets
	s.Panics += o.Panics
	s.Faulty += o.Faulty
	s.Told += o.Told
	s.Unheard += o.Unheard
}

// A simWorld is one loop with its connections, its kernel and its gnet.
//
// Owned by the test's goroutine.
type simWorld struct {
	*rand.Rand
	g      *Group
	l      *Loop
	events *events
	agenda agenda.Agenda[time.Duration, func()] // by the time since the loop's epoch

	quiet bool // nothing fails any more
	err   error
	tally simTally

	files  map[int]*simSocket
	polled map[int]*simConn
	lastFD int
	actors []*simActor
}

func newSimWorld(seed uint64) *simWorld {
	w := &simWorld{Rand: rand.New(rand.NewPCG(seed, 1)), files: make(map[int]*simSocket), polled: make(map[int]*simConn)}
	w.g = &Group{cfg: withDefaults(Config{Loops: 1, InboundMax: 4 << 10, OutboundMax: 4 << 10})}
	w.g.places.Begin(1000)
	w.g.clients.Most = 1000
	w.l = newLoop(w.g, 0)
	w.l.kernel, w.l.el, w.l.epoch = w, simEngine{w: w}, time.Now()
	w.g.loops = []*Loop{w.l}
	// A closed clock notes what is due and touches no timer.
	w.g.clock = &clock{epoch: w.l.epoch, due: []time.Duration{never}, closed: true}
	w.events = new(events)
	return w
}

// run lets connections come and everything happen, then has the rest told of
// what it missed, and ended.
func (w *simWorld) run() {
	for range 1 + w.IntN(6) {
		w.after(w.within(time.Second), w.connect)
	}
	w.until(time.Now().Add(w.within(40 * time.Second)))
	w.quiet = true
	w.each(func(a *simActor) { a.calmDown() })
	w.until(time.Now().Add(writeStallDefault + lingerMax + time.Second))
	w.each(func(a *simActor) { a.checkTold() })
	w.each(func(a *simActor) { w.l.Post(func(time.Time) { a.end(endingLinger) }) })
	w.until(time.Now().Add(writeStallDefault + lingerMax + time.Second))
	w.checkEmpty()
	w.tally.Paused, w.tally.Stalled = int(w.g.stats.Paused.Load()), int(w.g.stats.Stalled.Load())
	w.tally.Panics = int(w.g.stats.Panics.Load())
}

// connect accepts a connection, as a Listener does, or dials one.
func (w *simWorld) connect() {
	a := &simActor{w: w, name: len(w.actors) + 1, s: &simSocket{}, ender: w.odds(0.7),
		pace: time.Duration(1+w.IntN(100)) * time.Millisecond}
	a.s.actor = a
	w.actors = append(w.actors, a)
	w.tally.Conns++
	c := newConn(w.l)
	c.remote = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(w.IntN(2))}), 1)
	a.c = c
	if w.odds(0.7) {
		if !w.g.admit(c.remote.Addr()) {
			w.failed(a, "a place is missing")
		}
		w.l.open.Add(1)
		c.accepted, c.accept = true, a.accept
	} else {
		c.dialled = func(now time.Time, c *Conn, err error) Handler {
			if err != nil {
				return nil
			}
			return a.accept(now, c)
		}
	}
	if err := w.enroll(c, w.open(a.s)); err != nil {
		w.l.Post(func(now time.Time) { c.failed(now, err) })
	}
	a.live()
}

func (w *simWorld) each(f func(*simActor)) {
	for _, a := range w.actors {
		f(a)
	}
}

func (w *simWorld) odds(p float64) bool { return w.Float64() < p }

// fault is true with a chance of p, while faults happen.
func (w *simWorld) fault(p float64) bool { return !w.quiet && w.odds(p) }

func (w *simWorld) within(d time.Duration) time.Duration {
	return time.Duration(w.Int64N(int64(d) + 1))
}

// until has everything happen that is due before a time.
func (w *simWorld) until(end time.Time) {
	for w.err == nil {
		at := w.l.epoch.Add(min(w.g.clock.due[0], time.Hour))
		timer := w.agenda.Len() == 0 || at.Before(w.l.epoch.Add(w.agenda.First()))
		if !timer {
			at = w.l.epoch.Add(w.agenda.First())
		}
		if at.After(end) {
			time.Sleep(time.Until(end))
			return
		}
		time.Sleep(time.Until(at))
		if timer {
			w.g.clock.due[0] = never
			w.l.wake()
		} else {
			_, do := w.agenda.Next()
			do()
		}
		w.check()
	}
}

func (w *simWorld) after(d time.Duration, do func()) { w.agenda.Add(time.Since(w.l.epoch)+d, do) }

// failed notes the first law that is broken.
func (w *simWorld) failed(a *simActor, format string, args ...any) {
	if w.err != nil {
		return
	}
	text := fmt.Sprintf("at %v: ", time.Since(w.l.epoch)) + fmt.Sprintf(format, args...)
	if a != nil {
		text += fmt.Sprintf("\nconnection %d: state %d, ending %d, peer %d, sending %d, unsent %d, unread %d\n%s",
			a.name, a.c.state, a.c.ending, a.c.peer, a.c.sending, a.c.Unsent(), len(a.c.saved),
			strings.Join(a.log[max(0, len(a.log)-25):], "\n"))
	}
	w.err = fmt.Errorf("%s", text)
}

// check holds the laws that are always in force.
func (w *simWorld) check() {
	open := int64(0)
	for _, a := range w.actors {
		a.checkBound()
		if a.c.accepted && a.c.state != stateClosed {
			open++
		}
	}
	_, counted, _ := w.g.clients.Counted()
	if got := w.g.stats.Open.Load(); got != open || w.l.open.Load() != open || int64(counted) != open {
		w.failed(nil, "%d accepted connections are open, counted are %d, %d on the loop, %d by address", open, got,
			w.l.open.Load(), counted)
	}
}

// checkEmpty is true of a world in which all connections have ended.
func (w *simWorld) checkEmpty() {
	w.each(func(a *simActor) {
		if a.made && a.closes != 1 || a.c.state != stateClosed {
			w.failed(a, "at the end Closed was told %d times", a.closes)
		}
		if s := a.s; a.intent == endingReset && !s.resets && !s.rst && !s.over() && !a.faulty {
			w.failed(a, "an abort is no reset")
		}
	})
	switch l := w.l; {
	case len(w.files) > 0:
		for fd, s := range w.files {
			w.failed(s.actor, "descriptor %d is left open", fd)
		}
	case len(w.polled) > 0 || len(l.conns) > 0 || len(l.watched) > 0 || len(l.pumps) > 0 || len(l.closing) > 0:
		w.failed(nil, "the loop still holds connections")
	}
	if _, _, silent := w.g.clients.Counted(); silent > 0 {
		w.failed(nil, "%d connections still wait for a first byte", silent)
	}
	if _, ok := w.l.deadlines.Next(); ok {
		w.failed(nil, "a deadline is left")
	}
}

var _ kernel = (*simWorld)(nil)
