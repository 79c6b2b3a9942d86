package loop

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/net/loop/looptest"
)

// simEnrolMax bounds how long a socket is on its way into the loop.
const simEnrolMax = 300 * time.Millisecond

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
			w := newSimWorld(t, seed)
			w.run()
			w.Await(w.stop)
			if w.err != nil {
				t.Errorf("%v\nagain: go test ./internal/net/loop -run Connections -sim-seed %d", w.err, seed)
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

// A simWorld is one loop with its connections, on a simulated kernel.
//
// Owned by the test's goroutine.
type simWorld struct {
	*looptest.Kernel
	g      *Group
	l      *Loop
	ln     *looptest.Listener
	stop   func()
	err    error
	tally  simTally
	actors []*simActor
}

func newSimWorld(t *testing.T, seed uint64) *simWorld {
	w := &simWorld{Kernel: looptest.NewKernel(rand.New(rand.NewPCG(seed, 1)))}
	w.Faults, w.EnrolMax = 0.05, simEnrolMax
	w.Failed = func(h *looptest.History, format string, args ...any) {
		for _, a := range w.actors {
			if &a.log == h {
				w.failed(a, format, args...)
			}
		}
		w.failed(nil, format, args...)
	}
	w.Reach = func(addr string) (*looptest.Socket, time.Duration, error) {
		i, err := strconv.Atoi(strings.TrimSuffix(addr, ":80"))
		return w.actors[i-1].s, 0, err
	}
	var err error
	if w.g, err = Start(Config{Loops: 1, InboundMax: 4 << 10, OutboundMax: 4 << 10, ConnectionsMax: 1000,
		PerAddressMax: 1000, System: w.Kernel}); err != nil {
		t.Fatal(err)
	}
	w.l = w.g.loops[0]
	w.ln = w.NewListener()
	ln := w.g.Serve(w.ln, nil, func(now time.Time, c *Conn) Handler {
		return w.actors[c.Remote().Port()-1].accept(now, c)
	})
	w.stop = func() {
		ln.Close()
		w.g.Stop()
	}
	return w
}

// run lets connections come and everything happen, then has the rest told of
// what it missed, and ended.
func (w *simWorld) run() {
	for range 1 + w.IntN(6) {
		w.After(w.Within(time.Second), w.connect)
	}
	w.until(w.Within(40 * time.Second))
	w.Quiet = true
	w.each(func(a *simActor) { a.calmDown() })
	w.until(writeStallDefault + lingerMax + time.Second)
	w.each(func(a *simActor) { a.checkTold() })
	w.each(func(a *simActor) {
		w.l.Post(func(time.Time) {
			if a.c != nil {
				a.end(endingLinger)
			}
		})
	})
	w.until(writeStallDefault + lingerMax + time.Second)
	if w.err == nil {
		w.checkEmpty()
	}
	w.tally.Paused, w.tally.Stalled = int(w.g.stats.Paused.Load()), int(w.g.stats.Stalled.Load())
	w.tally.Panics = int(w.g.stats.Panics.Load())
}

// connect accepts a connection, as a Listener does, or dials one.
func (w *simWorld) connect() {
	a := &simActor{w: w, name: len(w.actors) + 1, ender: w.Odds(0.7), accepted: w.Odds(0.7),
		pace: time.Duration(1+w.IntN(100)) * time.Millisecond}
	addr := netip.AddrFrom4([4]byte{10, 0, 0, byte(w.IntN(2))})
	a.s = w.NewSocket("peer ", netip.AddrPortFrom(addr, uint16(a.name)), &a.log)
	w.actors = append(w.actors, a)
	w.tally.Conns++
	if a.accepted {
		w.ln.Connect(a.s)
	} else {
		w.l.Post(func(time.Time) {
			w.l.Dial(strconv.Itoa(a.name)+":80", 0, nil, func(now time.Time, c *Conn, err error) Handler {
				if err != nil {
					return nil
				}
				return a.accept(now, c)
			})
		})
	}
	a.live()
}

func (w *simWorld) each(f func(*simActor)) {
	for _, a := range w.actors {
		f(a)
	}
}

// until has everything happen for a time.
func (w *simWorld) until(d time.Duration) {
	over := false
	w.After(d, func() { over = true })
	for w.err == nil && !over {
		w.Step()
		synctest.Wait() // a listener's goroutine may be in the middle of counting a connection
		w.check()
	}
}

// failed notes the first law that is broken.
func (w *simWorld) failed(a *simActor, format string, args ...any) {
	if w.err != nil {
		return
	}
	text := fmt.Sprintf("at %v: ", w.Since()) + fmt.Sprintf(format, args...)
	if a != nil && a.c != nil {
		text += fmt.Sprintf("\nconnection %d: state %d, ending %d, peer %d, sending %d, unsent %d, unread %d", a.name,
			a.c.state, a.c.ending, a.c.peer, a.c.sending, a.c.Unsent(), len(a.c.saved))
	}
	if a != nil {
		text += "\n" + a.log.String()
	}
	w.err = errors.New(text)
}

// check holds the laws that are always in force.
func (w *simWorld) check() {
	open, coming := int64(0), int64(0)
	for _, a := range w.actors {
		a.checkBound()
		switch {
		case !a.accepted:
		case a.c == nil:
			coming++ // is accepted, or was refused
		case a.c.state != stateClosed:
			open++
		}
	}
	_, counted, _ := w.g.clients.Counts()
	if got := w.g.stats.Open.Load(); got < open || got > open+coming || w.l.open.Load() != got || int64(counted) != got {
		w.failed(nil, "%d accepted connections are open, and %d on their way; counted are %d, %d on the loop, %d by address",
			open, coming, got, w.l.open.Load(), counted)
	}
}

// checkEmpty is true of a world in which all connections have ended.
func (w *simWorld) checkEmpty() {
	w.each(func(a *simActor) {
		if a.made && a.closes != 1 || a.c != nil && a.c.state != stateClosed {
			w.failed(a, "at the end Closed was told %d times", a.closes)
		}
		s, cuts := a.s, a.intent == endingReset || a.intent == endingCut
		if over := s.Ended && s.Shut && a.taken == s.Written; cuts && !s.Cut && s.Lost.IsZero() && !over && !s.Faulty {
			w.failed(a, "an abort or a cut is no reset")
		}
	})
	w.CheckEmpty()
	if l := w.l; len(l.conns) > 0 || len(l.watched) > 0 || len(l.pumps) > 0 || len(l.closing) > 0 ||
		len(l.turnBatch) > 0 || len(l.roundBatch) > 0 {
		w.failed(nil, "the loop still holds connections")
	}
	if n := w.g.stats.Open.Load(); n != 0 {
		w.failed(nil, "%d connections are counted", n)
	}
	if _, _, silent := w.g.clients.Counts(); silent > 0 {
		w.failed(nil, "%d connections still wait for a first byte", silent)
	}
	if _, ok := w.l.deadlines.Next(); ok {
		w.failed(nil, "a deadline is left")
	}
}
