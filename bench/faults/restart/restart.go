// Package restart repeatedly replaces the proxy by a new process under load: the new one
// takes over the listening socket, the old one finishes its requests and ends. No client
// may notice.
package restart

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/bench/lab/rig"
	"weir/internal/test/freeport"
)

const (
	restartsUsual = 20
	restartsMax   = 1000
	// calm is the time before the first restart, between two, and after the last. The old
	// process may still be draining when the next one starts.
	calm = 1500 * time.Millisecond
	// handedMax bounds the time until a successor answers, drainMax the time until its
	// predecessor has ended, which is longer than any exchange.
	handedMax  = 10 * time.Second
	drainMax   = 25 * time.Second
	detailsMax = 10 // failures that are shown individually
)

// A run is a load with restarts of the proxy, and its result.
//
// Safe for concurrent use: mu guards what follows it, counters are atomic.
type run struct {
	addr, target string
	kinds        []kind
	changes      []change
	generation   atomic.Int64 // of the newest proxy that has answered
	idleClosed   atomic.Int64

	mu      sync.Mutex
	tallies map[string]*tally
	details []string // of the first failures
}

// newRun returns a run with the addresses of the proxy and the target.
func newRun(addr, target string) *run {
	r := &run{addr: addr, target: target, kinds: kinds(), tallies: make(map[string]*tally)}
	for _, k := range r.kinds {
		r.tallies[k.name] = new(tally)
	}
	return r
}

// Run restarts the proxy 20 times, or the number of times in args. It misses an expectation if a client
// noticed.
func Run(l *rig.Lab, args []string) {
	n := rig.NumberArg{What: "restarts", Usual: restartsUsual, Least: 1, Most: restartsMax}.Read(args)
	r := newRun(rig.Must(freeport.Addr()), l.Serve(rig.FaultyTarget()))
	first := r.launch(l, 0)
	rig.Check(first.AwaitPort(l.Ctx, r.addr))
	l.Note("%d restarts of the proxy, %v apart, under load: each time a new process takes over the port and the old one "+
		"drains", n, calm)
	working, enough := context.WithCancel(l.Ctx)
	var workers sync.WaitGroup
	for i := range r.kinds {
		for range r.kinds[i].workers {
			workers.Go(func() { (&worker{kind: &r.kinds[i], run: r}).work(working) })
		}
	}
	last := first
	err := rig.Catch(func() {
		last = r.replace(l, first, n)
		l.Wait(time.Now().Add(calm))
	})
	enough()
	rig.Check(err) // workers may be waiting
	workers.Wait()
	rig.Check(last.Stop())
	r.show(l)
}

// launch starts the proxy of a generation, named by it in Via; all but the first take over the
// port.
func (r *run) launch(l *rig.Lab, generation int) *rig.Process {
	p := rig.Launch("proxy", r.addr, 0, []string{"TARGET_URL=http://" + r.target, "RATE_LIMIT_LIMIT=1000000000",
		fmt.Sprintf("VIA_NAME=%s%d", viaPrefix, generation), fmt.Sprintf("TAKEOVER=%t", generation > 0)})
	l.Cleanup(p.Kill)
	return p
}

// viaPrefix is followed by the generation in the name of a proxy.
const viaPrefix = "proxy-"

// replace replaces the proxy n times. It returns the last one when all others have ended.
func (r *run) replace(l *rig.Lab, current *rig.Process, n int) *rig.Process {
	var drains sync.WaitGroup
	defer drains.Wait()
	ctx := l.Ctx
	r.changes = make([]change, n)
	for i := range r.changes {
		c := &r.changes[i]
		c.number = i + 1
		l.Wait(time.Now().Add(calm))
		began := time.Now()
		next := r.launch(l, c.number)
		rig.Check(r.awaitAnswer(ctx, next, c.number))
		handed := time.Now()
		c.handed = handed.Sub(began)
		old := current
		drains.Go(func() {
			if err := old.AwaitEnd(ctx, drainMax); err != nil {
				c.problem = err.Error()
				old.Kill()
			}
			c.drained = time.Since(handed)
		})
		current = next
		fmt.Fprintf(l, "  restart %2d: handed over in %3.0f ms; %d failures so far\n", c.number,
			1e3*c.handed.Seconds(), r.failures())
	}
	return current
}

// awaitAnswer waits until an answer has come through p, the proxy of a generation.
func (r *run) awaitAnswer(ctx context.Context, p *rig.Process, generation int) error {
	err := rig.Catch(func() {
		rig.Await(ctx, handedMax, time.Millisecond, func() bool { return r.generation.Load() >= int64(generation) })
	})
	if err != nil {
		err = fmt.Errorf("no answer came through the new process: %w; it has ended: %t; its output:\n%s", err, p.Ended(),
			p.Output())
	}
	return err
}

// An exchange is the outcome of an exchange.
type exchange struct {
	via    string // the proxy that carried it
	took   time.Duration
	across bool // the proxy was replaced meanwhile
	fault  fault
	err    error
}

func (r *run) note(k *kind, x exchange) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tallies[k.name]
	t.longest = max(t.longest, x.took)
	if x.across {
		t.across++
	}
	if x.err == nil {
		t.ok++
		_, number, _ := strings.Cut(x.via, viaPrefix)
		if n, err := strconv.ParseInt(number, 10, 64); err == nil && n > r.generation.Load() {
			r.generation.Store(n)
		}
		return
	}
	t.faults[x.fault]++
	if len(r.details) < detailsMax {
		r.details = append(r.details, fmt.Sprintf("%s, generation %d, after %v: %v: %v", k.name, r.generation.Load(),
			x.took.Round(time.Millisecond), x.fault, x.err))
	}
}

func (r *run) failures() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.tallies {
		for _, m := range t.faults {
			n += m
		}
	}
	return n
}
