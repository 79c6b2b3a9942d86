// Package restart repeatedly replaces the proxy by a new process under load: the new one
// takes over the listening socket, the old one finishes its requests and ends. No client
// may notice.
package restart

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/bench/rig"
	"weir/internal/freeport"
)

const (
	restartsUsual = 20
	restartsMax   = 1000
	// calm is the time before the first restart, between two, and after the last. The old
	// process may still be draining when the next one starts.
	calm = 1500 * time.Millisecond
	// handedMax bounds the time until a successor answers, drainMax the time until its
	// predecessor has ended, which is longer than any exchange.
	handedMax = 10 * time.Second
	drainMax  = 25 * time.Second
	// detailsMax bounds the failures that are shown individually.
	detailsMax = 10
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

// Run restarts the proxy 20 times, or the number of times in args. It fails if a client
// noticed.
func Run(ctx context.Context, args []string, out io.Writer) (err error) {
	n, err := rig.Number{What: "restarts", Usual: restartsUsual, Least: 1, Most: restartsMax}.Read(args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	addr, err1 := freeport.Addr()
	served, err2 := freeport.Addr()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	r := newRun(addr, served)
	var target sync.WaitGroup
	target.Go(func() { _ = rig.Serve(ctx, r.target, rig.Misbehaviour()) })
	defer target.Wait()
	defer cancel()
	first, err := r.launch(0)
	if err != nil {
		return err
	}
	if err := first.AwaitPort(ctx, r.addr); err != nil {
		first.Kill()
		return err
	}
	fmt.Fprintf(out, "%d restarts of the proxy, %v apart, under load: each time a new process takes over the port and the old one drains\n\n", n, calm)
	working, enough := context.WithCancel(ctx)
	workers := r.startWorkers(working)
	last, err := r.replace(ctx, first, n, out)
	if err == nil {
		err = rig.Wait(ctx, calm)
	}
	enough()
	if err != nil {
		cancel() // workers may be waiting
	}
	workers.Wait()
	if err != nil {
		last.Kill()
		return err
	}
	if err := last.Stop(); err != nil {
		return err
	}
	return r.show(out)
}

// launch starts the proxy of a generation, named by it in Via; all but the first take over the
// port.
func (r *run) launch(generation int) (*rig.Process, error) {
	return rig.Launch("proxy", r.addr, 0, []string{"TARGET_URL=http://" + r.target, "RATE_LIMIT_LIMIT=1000000000",
		fmt.Sprintf("VIA_NAME=%s%d", viaPrefix, generation), fmt.Sprintf("TAKEOVER=%t", generation > 0)})
}

// viaPrefix is followed by the generation in the name of a proxy.
const viaPrefix = "proxy-"

func (r *run) startWorkers(ctx context.Context) *sync.WaitGroup {
	all := new(sync.WaitGroup)
	for i := range r.kinds {
		for range r.kinds[i].workers {
			all.Go(func() { (&worker{kind: &r.kinds[i], run: r}).work(ctx) })
		}
	}
	return all
}

// replace replaces the proxy n times. It returns when all but the last one have ended.
func (r *run) replace(ctx context.Context, current *rig.Process, n int, out io.Writer) (last *rig.Process, err error) {
	var drains sync.WaitGroup
	defer drains.Wait()
	r.changes = make([]change, n)
	for i := range r.changes {
		c := &r.changes[i]
		c.number = i + 1
		if err := rig.Wait(ctx, calm); err != nil {
			return current, err
		}
		began := time.Now()
		next, err := r.launch(c.number)
		if err != nil {
			return current, err
		}
		if err := r.awaitAnswer(ctx, next, c.number); err != nil {
			next.Kill()
			return current, err
		}
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
		fmt.Fprintf(out, "  restart %2d: handed over in %3.0f ms; %d failures so far\n", c.number, 1e3*c.handed.Seconds(), r.failures())
	}
	return current, nil
}

// awaitAnswer waits until an answer has come through p, the proxy of a generation.
func (r *run) awaitAnswer(ctx context.Context, p *rig.Process, generation int) error {
	ctx, cancel := context.WithTimeout(ctx, handedMax)
	defer cancel()
	for r.generation.Load() < int64(generation) {
		if err := rig.Wait(ctx, time.Millisecond); err != nil {
			_, how := p.Ended()
			return fmt.Errorf("no answer came through the new process within %v (%w); its end: %v; its output:\n%s", handedMax, err, how, p.Output())
		}
	}
	return nil
}

// An exchange is the outcome of an exchange.
type exchange struct {
	via    string // the proxy that carried it
	took   time.Duration
	across bool // the proxy was replaced meanwhile
	err    error
}

// note counts an exchange.
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
	f := wrong
	if failed, ok := x.err.(*failure); ok { //nolint:errorlint // as exchange returns it
		f = failed.fault
	}
	t.faults[f]++
	if len(r.details) < detailsMax {
		r.details = append(r.details, fmt.Sprintf("%s, generation %d, after %v: %v", k.name, r.generation.Load(), x.took.Round(time.Millisecond), x.err))
	}
}

// failures returns the number of failures so far.
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
