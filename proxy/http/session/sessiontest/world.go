package sessiontest

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"weir/internal/net/http1"
	"weir/internal/net/loop/looptest"
	"weir/proxy/http/session"
	"weir/proxy/rules/decide"
	"weir/proxy/store/simredis"
	"weir/proxy/targets/upstream"
)

// Tally counts what has happened in a world.
type Tally struct {
	Events   int            // steps of the scheduler
	Seen     map[string]int // by what has happened; see the calls of saw
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

// saw counts something that a test expects to happen.
func (w *world) saw(what string) { w.tally.Seen[what]++ }

// quietMax bounds the time until a world is at rest when no new callers or faults come. It
// is longer than all timeouts together.
const quietMax = 10 * time.Minute

// A world is a simulation and its clock.
//
// Owned by its one goroutine.
type world struct {
	looptest.World
	profile  profile
	settings session.Settings
	env      session.Env
	head     http1.Head // of answers
	policy   *decide.Policy
	table    *simredis.Table
	targets  *upstream.Group[*target]
	retired  []*upstream.Target[*target] // that have left the list
	fronts   []*front                    // of open connections
	requests map[uint64]*request
	draining bool
	short    bool // memory is short
	quiet    bool // no new faults, no new callers
	refusal  []byte
	pattern  []byte
	tally    Tally
	err      error
}

// Run simulates the world of a seed for the given number of events, and then until it is
// at rest. The error is the first violation, with the last events of the connections
// concerned.
func Run(seed uint64, events int) (Tally, error) {
	w := newWorld(seed)
	w.play(events)
	if w.err != nil {
		w.err = fmt.Errorf("seed %d, event %d, at %v, %v: %w", seed, w.tally.Events, w.Now.Sub(looptest.Epoch),
			&w.profile, w.err)
	}
	return w.tally, w.err
}

// play runs the events. A panic is a violation, too.
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
	w.short = false
	rest := w.Now.Add(quietMax)
	for w.Events() > 0 && w.err == nil && w.Now.Before(rest) {
		w.step()
	}
	if w.err == nil {
		w.checkRest()
	}
}

// step handles the next event.
func (w *world) step() {
	w.tally.Events++
	w.Step()
	w.checkBooks()
}

// odds returns true with probability p.
func (w *world) odds(p float64) bool { return p > 0 && w.Float64() < p }

// fault returns true with probability p while faults are simulated, otherwise false.
func (w *world) fault(p float64) bool { return !w.quiet && w.odds(p) }

// failed records the first violation.
func (w *world) failed(h *looptest.History, format string, args ...any) {
	if w.err != nil {
		return
	}
	w.err = fmt.Errorf(format, args...)
	if h != nil {
		w.err = errors.Join(w.err, errors.New(h.String()))
	}
}
