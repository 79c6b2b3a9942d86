package wiretest

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"testing/synctest"
	"time"

	"weir/internal/net/loop/looptest"
	"weir/proxy/http/session"
	"weir/proxy/rules/decide"
	"weir/proxy/store"
	"weir/proxy/targets/roster"
)

// A Tally counts what has happened in a World.
type Tally struct {
	Events   int            // steps of the scheduler
	Seen     map[string]int // by what has happened; see the calls of Saw
	Statuses map[int]int    // outcomes by status
}

// Add adds the counts of another world.
func (t *Tally) Add(o *Tally) {
	t.Events += o.Events
	for what, n := range o.Seen {
		t.Seen[what] += n
	}
	for status, n := range o.Statuses {
		t.Statuses[status] += n
	}
}

// String returns the counts in a fixed order.
func (t *Tally) String() string {
	return fmt.Sprintf("%d events, %v, outcomes %v", t.Events, t.Seen, t.Statuses)
}

// Saw counts something that a test expects to happen.
func (w *World) Saw(what string) { w.Tally.Seen[what]++ }

// quietMax bounds the time until a world is at rest when no new callers or faults come. It
// is longer than all timeouts together.
const quietMax = 10 * time.Minute

// A Proxy is the running proxy of a World. Its methods are called on the World's goroutine, so they
// must not wait for a loop.
type Proxy interface {
	SetTargets(list []*roster.Target)
	// Checked is the verdict of an active check.
	Checked(t *roster.Target, up bool)
	// Drain begins or ends the drain.
	Drain(drains bool)
	// Short says whether memory is short. Then it sheds some of the connections.
	Short(short bool, some func() bool)
	// Check holds the laws that are always in force.
	Check()
	// Rest holds those of a proxy whose clients have all gone.
	Rest()
}

// A World is a simulation around a Proxy: its kernel, its clients, targets, store and queue.
//
// Owned by its one goroutine.
type World struct {
	*looptest.Kernel
	Profile  Profile
	Settings session.Settings
	Listener *looptest.Listener
	Store    store.Store
	Tally    Tally

	proxy    Proxy
	policy   atomic.Pointer[decide.Policy]
	clients  []netip.Addr
	fronts   map[netip.AddrPort]*ClientView // of open connections
	services map[netip.AddrPort]*service
	targets  []*target
	requests map[uint64]*request
	asking   *ClientView // the next ask of the Store is about its request
	pattern  []byte
	ports    int // of sockets so far
	made     int // targets so far
	err      error
}

// Policy returns the policy in force.
func (w *World) Policy() *decide.Policy { return w.policy.Load() }

// Accepted returns what is known of a new connection from an address.
func (w *World) Accepted(addr netip.AddrPort) *ClientView {
	f := w.fronts[addr]
	f.accepted = true
	return f
}

// Announced reports whether the target at the other end of a connection has said that it closes it, or
// sends an answer.
func (w *World) Announced(addr netip.AddrPort) bool {
	sv := w.services[addr]
	return sv != nil && (sv.announced || len(sv.out) > 0 && sv.mishap == fine)
}

// Fail reports a violation that concerns no single connection.
func (w *World) Fail(format string, args ...any) { w.failed(nil, format, args...) }

// Play simulates the world around p for the given number of events, and then until it is at rest. The
// error is the first violation, with the last events of the connections concerned.
func (w *World) Play(p Proxy, events int) error {
	w.proxy = p
	w.After(0, w.arrivals)
	w.After(tick, w.unrest)
	w.play(events)
	if w.err != nil {
		return fmt.Errorf("event %d, at %v, %v: %w", w.Tally.Events, w.Since(), &w.Profile, w.err)
	}
	return nil
}

// play runs the events. A panic is a violation, too.
func (w *World) play(events int) {
	defer func() {
		if p := recover(); p != nil {
			w.failed(nil, "panic: %v\n%s", p, debug.Stack())
		}
	}()
	for w.Tally.Events < events && w.err == nil {
		w.step()
	}
	w.Quiet = true
	w.proxy.Short(false, nil)
	for rest := w.Now().Add(quietMax); w.Events() > 0 && w.err == nil && w.Now().Before(rest); {
		w.step()
	}
	if w.err == nil {
		w.checkRest()
	}
}

// step handles the next event.
func (w *World) step() {
	w.Tally.Events++
	w.Step()
	synctest.Wait() // a listener's goroutine may be in the middle of something
	for addr, f := range w.fronts {
		if f.caller.conn.Closed && !f.accepted { // it could not be accepted
			delete(w.fronts, addr)
		}
	}
	w.proxy.Check()
}

// checkRest checks that nothing is left when no events are left.
func (w *World) checkRest() {
	for _, f := range w.fronts {
		f.Wrong("the session does not end")
		return
	}
	if n := w.Events(); n > 0 {
		w.failed(nil, "%d events are left", n)
	}
	w.CheckEmpty()
	for _, r := range w.requests {
		if r.decisions != r.outcomes {
			r.caller.wrong("request %d: %d decisions, %d outcomes", r.id, r.decisions, r.outcomes)
			return
		}
	}
	w.proxy.Rest()
}

// failed records the first violation.
func (w *World) failed(h *looptest.History, format string, args ...any) {
	if w.err != nil {
		return
	}
	w.err = fmt.Errorf(format, args...)
	if h != nil {
		w.err = errors.Join(w.err, errors.New(h.String()))
	}
}

// socket returns a new socket of a peer at addr, with a port of its own.
func (w *World) socket(side string, addr netip.Addr, log *looptest.History) *looptest.Socket {
	w.ports++
	return w.NewSocket(side, netip.AddrPortFrom(addr, uint16(1+w.ports%65535)), log)
}

func itoa(n int) string { return strconv.Itoa(n) }
