package sessiontest

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"weir/internal/loop/looptest"
	"weir/proxy/decide"
	"weir/proxy/session"
	"weir/proxy/store/simredis"
	"weir/proxy/upstream"
)

// Tally counts what a world has seen, so that a test can tell whether it saw
// enough.
type Tally struct {
	Events    int // steps of the scheduler
	Requests  int // that callers meant to send
	Relayed   int // answers of targets that arrived whole
	Own       int // answers of the proxy's own
	Cut       int // answers that broke off, as the caller noticed
	Allowed   int // by the limiter
	Refused   int
	Kept      int // of the refused, to be delivered later
	KeptAlone int // whose client had left
	Unkept    int // that could not be stored
	Retried   int
	Tunnels   int // ended
	Streamed  int // bodies beyond what is collected, either way, that arrived whole
	Full      int // times that a side took nothing for the moment
	Expired   int // deadlines
	Statuses  [600]int
	Discarded int // connections to targets that could not be used again
	Logins    int // over connections to targets
	Private   int // requests that went over their client's own connection
}

// Add adds what another world has seen.
func (t *Tally) Add(o *Tally) {
	for _, p := range [...][2]*int{{&t.Events, &o.Events}, {&t.Requests, &o.Requests}, {&t.Relayed, &o.Relayed}, {&t.Own, &o.Own},
		{&t.Cut, &o.Cut}, {&t.Allowed, &o.Allowed}, {&t.Refused, &o.Refused}, {&t.Kept, &o.Kept}, {&t.KeptAlone, &o.KeptAlone}, {&t.Unkept, &o.Unkept}, {&t.Retried, &o.Retried}, {&t.Tunnels, &o.Tunnels},
		{&t.Streamed, &o.Streamed}, {&t.Full, &o.Full}, {&t.Expired, &o.Expired}, {&t.Discarded, &o.Discarded}, {&t.Logins, &o.Logins}, {&t.Private, &o.Private}} {
		*p[0] += *p[1]
	}
	for i, n := range o.Statuses {
		t.Statuses[i] += n
	}
}

// String tells the counts, and the outcomes by status.
func (t *Tally) String() string {
	s := fmt.Sprintf("%d events, %d requests, %d answers of targets, %d own, %d cut off; %d allowed, %d refused, %d stored, %d of clients that had left, %d not stored, %d sent again; "+
		"%d tunnels, %d streams, %d times full, %d deadlines, %d connections thrown away; outcomes",
		t.Events, t.Requests, t.Relayed, t.Own, t.Cut, t.Allowed, t.Refused, t.Kept, t.KeptAlone, t.Unkept, t.Retried, t.Tunnels, t.Streamed, t.Full, t.Expired, t.Discarded)
	for status, n := range t.Statuses {
		if n > 0 {
			s += fmt.Sprintf(" %d×%d", n, status)
		}
	}
	return s
}

// quietMax is how long a world may take to come to rest once nothing new
// happens: longer than all timeouts one after the other.
const quietMax = 10 * time.Minute

// A world is everything, and its clock.
//
// Owned by its one goroutine.
type world struct {
	looptest.World
	profile  profile
	settings session.Settings
	env      session.Env
	policy   *decide.Policy
	table    *simredis.Table
	targets  *upstream.Group[*target]
	fronts   []*front // alive
	requests map[uint64]*request
	draining bool
	short    atomic.Bool // of memory
	quiet    bool        // no new faults, no new callers
	refusal  []byte
	pattern  []byte
	tally    Tally
	err      error
}

// Run plays the world of a seed for so many events, then lets it come to rest.
// The error says what did not hold, with the last events of the connections
// concerned.
func Run(seed uint64, events int) (Tally, error) {
	w := newWorld(seed)
	w.play(events)
	if w.err != nil {
		w.err = fmt.Errorf("seed %d, event %d, at %v, %v: %w", seed, w.tally.Events, w.Now.Sub(looptest.Epoch), &w.profile, w.err)
	}
	return w.tally, w.err
}

// play runs the events; a panic is a failure like others.
func (w *world) play(events int) {
	defer func() {
		if p := recover(); p != nil {
			w.failed(nil, "panic: %v\n%s", p, debug.Stack())
		}
	}()
	for w.tally.Events < events && w.err == nil {
		w.step()
	}
	w.quiet = true
	w.short.Store(false)
	rest := w.Now.Add(quietMax)
	for w.Events() > 0 && w.err == nil && w.Now.Before(rest) {
		w.step()
	}
	if w.err == nil {
		w.checkRest()
	}
}

// step takes the next event.
func (w *world) step() {
	w.tally.Events++
	w.Step()
	w.checkBooks()
}

// odds is true with a chance of p.
func (w *world) odds(p float64) bool { return p > 0 && w.Float64() < p }

// fault is true with a chance of p, while faults happen.
func (w *world) fault(p float64) bool { return !w.quiet && w.odds(p) }

// failed notes the first thing that did not hold.
func (w *world) failed(h *looptest.History, format string, args ...any) {
	if w.err != nil {
		return
	}
	w.err = fmt.Errorf(format, args...)
	if h != nil {
		w.err = errors.Join(w.err, errors.New(h.String()))
	}
}
