// Package restart repeatedly replaces the proxy by a new process under load: the new one
// takes over the listening socket, the old one finishes its requests and ends. No client
// may notice.
package restart

import (
	"context"
	"fmt"
	"io"
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

// A run is a load with restarts of the proxy.
//
// Safe for concurrent use: mu guards what follows it, counters are atomic.
type run struct {
	addr, target string
	generation   atomic.Int64 // of the newest proxy that answers
	idleClosed   atomic.Int64

	mu       sync.Mutex
	tallies  map[string]*tally
	details  []string
	answered map[string]chan struct{} // by proxy; closed with the first answer through it
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
	r := &run{tallies: make(map[string]*tally), answered: make(map[string]chan struct{})}
	list := kinds()
	for _, k := range list {
		r.tallies[k.name] = new(tally)
	}
	if r.target, err = freeport.Addr(); err != nil {
		return err
	}
	if r.addr, err = freeport.Addr(); err != nil {
		return err
	}
	var target sync.WaitGroup
	target.Go(func() { _ = rig.Serve(ctx, r.target, rig.Misbehaviour()) })
	defer target.Wait()
	defer cancel()
	first, _, err := r.launch(0)
	if err != nil {
		return err
	}
	if err := first.AwaitPort(ctx, r.addr); err != nil {
		first.Kill()
		return err
	}
	fmt.Fprintf(out, "%d restarts of the proxy, %v apart, under load: each time a new process takes over the port and the old one drains\n\n", n, calm)
	working, enough := context.WithCancel(ctx)
	workers := r.startWorkers(working, list)
	changes, last, err := r.changes(ctx, first, n, out)
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
	return (&result{kinds: list, tallies: r.tallies, changes: changes, idleClosed: r.idleClosed.Load(), details: r.details}).show(out)
}

// launch starts the proxy of a generation; all but the first take over the port. answered is
// closed with the first answer through it.
func (r *run) launch(generation int) (p *rig.Process, answered <-chan struct{}, err error) {
	env := []string{"TARGET_URL=http://" + r.target, "RATE_LIMIT_LIMIT=1000000000", "VIA_NAME=" + name(generation),
		fmt.Sprintf("TAKEOVER=%t", generation > 0)}
	answered = r.expect(generation)
	p, err = rig.Launch("proxy", r.addr, 0, env)
	return p, answered, err
}

// expect returns a channel that is closed with the first answer through the proxy of a
// generation.
func (r *run) expect(generation int) <-chan struct{} {
	answered := make(chan struct{})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answered[name(generation)] = answered
	return answered
}

// name returns the name of the proxy of a generation in Via.
func name(generation int) string { return fmt.Sprintf("proxy-%d", generation) }

func (r *run) startWorkers(ctx context.Context, list []kind) *sync.WaitGroup {
	all := new(sync.WaitGroup)
	for i := range list {
		for range list[i].workers {
			all.Go(func() { (&worker{kind: &list[i], run: r}).work(ctx) })
		}
	}
	return all
}

// changes replaces the proxy n times. It returns when all but the last one have ended.
func (r *run) changes(ctx context.Context, current *rig.Process, n int, out io.Writer) (list []change, last *rig.Process, err error) {
	var drains sync.WaitGroup
	defer drains.Wait()
	list = make([]change, n)
	for i := range list {
		c := &list[i]
		c.number = i + 1
		if err := rig.Wait(ctx, calm); err != nil {
			return nil, current, err
		}
		began := time.Now()
		next, answered, err := r.launch(c.number)
		if err != nil {
			return nil, current, err
		}
		if err := awaitAnswer(ctx, next, answered); err != nil {
			next.Kill()
			return nil, current, err
		}
		handed := time.Now()
		c.handed = handed.Sub(began)
		r.generation.Store(int64(c.number))
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
	return list, current, nil
}

// awaitAnswer waits until an answer has come through p.
func awaitAnswer(ctx context.Context, p *rig.Process, answered <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, handedMax)
	defer cancel()
	select {
	case <-answered:
		return nil
	case <-ctx.Done():
		_, how := p.Ended()
		return fmt.Errorf("no answer came through the new process within %v (%w); its end: %v; its output:\n%s", handedMax, ctx.Err(), how, p.Output())
	}
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
		_, who, _ := strings.Cut(x.via, " ")
		if answered, ok := r.answered[who]; ok {
			delete(r.answered, who)
			close(answered)
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
