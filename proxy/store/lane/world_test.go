package lane

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/program/metric"
	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/store"
)

// A fake is a backend in memory whose every call the test may hold, fail and count.
type fake struct {
	clock func() int64 // µs

	mu     sync.Mutex
	states map[string]*limit.State
	docs   map[string]store.Document
	edits  int
	fault  error         // of all but what is in spared; nil: none
	spared string        // names of calls
	hold   chan struct{} // Decide waits for one from it; nil: it does not
	over   chan struct{} // ends that
	calls  map[string]int
	groups []int // of each batch
}

func newFake() *fake {
	return &fake{clock: func() int64 { return time.Now().UnixMicro() }, states: map[string]*limit.State{},
		docs: map[string]store.Document{}, calls: map[string]int{}, over: make(chan struct{})}
}

// Errors that a fake returns.
var (
	errItem   = errors.New("this key cannot be decided")
	errLate   = context.DeadlineExceeded
	errOutage = errors.New("FAKE the backend is broken")
	errRights = &store.MisconfiguredError{Cause: store.Unauthorized, Err: errors.New("DENIED")}
)

func (f *fake) Classify(err error) store.Fault {
	switch {
	case err == nil:
		return store.Fault{}
	case errors.Is(err, errItem):
		return store.Fault{Class: store.ItemFault}
	case errors.Is(err, errLate):
		return store.Fault{Class: store.TimeoutFault}
	case errors.Is(err, errRights):
		return store.Fault{Class: store.OutageFault, Code: "DENIED", Permanent: errRights}
	}
	return store.Fault{Class: store.OutageFault, Code: "FAKE"}
}

// call counts a call, and returns the fault in force.
func (f *fake) call(name string) error {
	f.calls[name]++
	if strings.Contains(f.spared, name) {
		return nil
	}
	return f.fault
}

// set changes what is in force.
func (f *fake) set(change func(f *fake)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

// count returns how often something was called.
func (f *fake) count(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[name]
}

func (f *fake) Probe(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.call("probe")
}

func (f *fake) Decide(ctx context.Context, b *store.Batch) {
	f.mu.Lock()
	hold := f.hold
	f.calls["sent"]++
	f.mu.Unlock()
	for ended := ctx.Done(); hold != nil; {
		select {
		case <-hold:
			hold = nil
		case <-f.over:
			hold = nil
		case <-ended: // a deadline is the test's, as the time is
			if ended = nil; errors.Is(ctx.Err(), context.Canceled) {
				hold = nil
			}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.call("decide")
	if errors.Is(ctx.Err(), context.Canceled) {
		f.calls["canceled"]++
		err = ctx.Err()
	}
	f.calls["release"] += len(b.Refunds)
	f.groups = append(f.groups, len(b.Groups))
	for _, r := range b.Refunds {
		c := &r.Counter
		c.Limit.Refund(f.clock(), f.state(c), c.Cost, r.Instant)
	}
	for _, g := range b.Groups {
		if g.Err = err; err == nil {
			f.decide(g)
		}
	}
}

// decide decides one group.
func (f *fake) decide(g *store.Group) {
	if g.Granted = g.N; g.N < 1 {
		panic("a group of no request is asked about")
	}
	for i := range g.Counters {
		if c := &g.Counters[i]; c.Limit.Algorithm() != limit.Off {
			g.At[i] = f.clock()
			g.Before[i] = f.state(c).Clone()
			g.Granted = min(g.Granted, int(c.Limit.RoomFor(g.At[i], f.state(c), c.Charge(int64(g.N)))))
		}
	}
	for i := range g.Counters {
		c := &g.Counters[i]
		c.Decide(g.At[i], f.state(c), int64(g.N), int64(g.Granted))
	}
}

func (f *fake) state(c *store.Counter) *limit.State {
	name := string(c.Limit.Kind().Append(store.AppendKey(nil, c.Rule, c.Key)))
	if f.states[name] == nil {
		f.states[name] = new(limit.State)
	}
	return f.states[name]
}

func (f *fake) edit(name string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.call(name); err != nil {
		return false, err
	}
	known := len(f.states) > 0
	clear(f.states)
	f.edits++
	return known, nil
}

func (f *fake) Forget(context.Context, string, []byte) (bool, error)     { return f.edit("forget") }
func (f *fake) Add(context.Context, string, []byte, int64) (bool, error) { return f.edit("add") }

func (f *fake) Edits(context.Context) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Repeat("x", f.edits), f.call("edits")
}

func (f *fake) Lease(_ context.Context, _, owner string, _ time.Duration) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return owner == "a", f.call("lease")
}

func (f *fake) Marks(_ context.Context, names []string) (marks []string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range names {
		marks = append(marks, string(f.docs[name].Body))
	}
	return marks, f.call("marks")
}

func (f *fake) Read(_ context.Context, name string) (store.Document, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.docs[name], f.call("read")
}

func (f *fake) CompareAndSet(_ context.Context, name string, version int64, body []byte) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.call("write"); err != nil || f.docs[name].Version != version {
		return 0, err
	}
	f.docs[name] = store.Document{Version: version + 1, Body: body}
	return version + 1, nil
}

func (f *fake) Register(*metric.Set) {}
func (f *fake) Close()               {}

// A stage is a lane over a fake whose loop is the test.
type stage struct {
	t      testing.TB
	f      *fake
	s      *Store
	lane   *Lane
	posted chan func(now time.Time)
	start  time.Time
	got    []store.Answer // in the order in which asks were answered
	names  []string       // of those asks
	traced bool           // they are
}

// newStage starts a store over f with a lane; change may alter its configuration.
func newStage(t testing.TB, f *fake, change func(*Config)) *stage {
	t.Helper()
	cfg := Config{Name: "fake", Title: "Fake", Timeout: timeoutMax, InFlight: 1,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	if change != nil {
		change(&cfg)
	}
	s := New(f, cfg)
	st := &stage{t: t, f: f, s: s, posted: make(chan func(now time.Time), 10_000), start: time.Now()}
	st.lane = s.NewLane(func(f func(now time.Time)) { st.posted <- f }).(*Lane)
	t.Cleanup(func() {
		close(f.over)
		st.lane.Close()
		s.Close()
	})
	return st
}

// ask asks for n so long after the start, and reports whether the answer was there at once.
func (st *stage) ask(name string, after time.Duration, n int, counters ...store.Counter) bool {
	var ans store.Answer
	keep := func(_ time.Time, ans *store.Answer) {
		kept := *ans
		kept.Decisions = append([]limit.Decision(nil), ans.Decisions...)
		kept.Prior = append([]store.PriorState(nil), ans.Prior...)
		st.got, st.names = append(st.got, kept), append(st.names, name)
	}
	at := st.start.Add(after)
	if st.lane.Ask(at, &store.Ask{N: n, Counters: counters, WantsPrior: st.traced}, &ans, keep) {
		keep(at, &ans)
		return true
	}
	return false
}

// land runs what was posted next.
func (st *stage) land(after time.Duration) { (<-st.posted)(st.start.Add(after)) }

// counter is one of rule "r" with a cost of 1.
func counter(key string, l *limit.Limit) store.Counter {
	return store.Counter{Rule: "r", Key: []byte(key), Limit: l, Cost: 1}
}

// fixed is a limit of that many in all, as long as a test runs.
func fixed(permits int64) *limit.Limit {
	return limittest.Must(limit.Config{Algorithm: limit.Fixed, Limit: permits, Window: 100 * 365 * 24 * 3600})
}
