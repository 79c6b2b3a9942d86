// Package drive runs a plan: it connects the schedule, the connections and the event
// loops, and owns the run from its start to its result.
//
// Each loop has a sender with its own share of the schedule, its own connections and its
// own tally, so nothing is shared while requests are sent and answered. One goroutine per
// run coordinates: it opens the first connections, sets the start, and asks the senders
// four times a second for their counts, by a function posted to their loops.
//
// A loop sleeps until a precise alarm, and also sends what is due at the end of any turn. A request
// without a free connection waits in line and keeps its due time.
package drive

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/data/strict"
	"weir/internal/net/loop"
	"weir/internal/program/certs"
	"weir/loadgen/plan"
	"weir/loadgen/record"
	"weir/loadgen/session"
)

const (
	// loopRate is the rate per loop when the number of loops is chosen. A loop can send
	// twice that, and on a machine that is not busy a second loop only slows down the
	// wake-ups of the first.
	loopRate       = 50_000
	connectionsMax = 10_000 // when their number is chosen
	// dialsKept and dialsFresh bound a loop's concurrent dials: connections that are kept are
	// opened occasionally, others for each request.
	dialsKept         = 64
	dialsFresh        = 1024
	descriptorReserve = 128 // kept free of connections to the target
	// secureDescriptors is how many descriptors a TLS connection takes: its own and a
	// pair between crypto/tls and the loop.
	secureDescriptors = 3
	lookupTimeout     = 5 * time.Second // of resolving the target's address
)

// LoopsMax returns the greatest number of loops that a run uses.
func LoopsMax() int { return max(runtime.NumCPU(), 64) }

// Settings are shared by all runs of a program.
type Settings struct {
	Loops   int          // event loops; 0: chosen by the rate
	Sources []netip.Addr // local addresses to connect from; none: see chooseSources
	CAFile  string       // PEM file of the authorities of https targets; empty: the system's
	Metrics *Metrics
	// Outcomes receives a line for each request of a run, see record.OutcomesHeader. It may be
	// nil.
	Outcomes io.Writer
	// ShowValues makes results, status and log contain the configuration as it is, instead of
	// plan.Config.Masked.
	ShowValues bool
	// Logger returns the logger of a part of the program.
	Logger func(component string) *slog.Logger

	queueAge time.Duration // how long a request may wait for a connection; 0: queueAgeMax
}

// A Run is one execution of a plan.
//
// Safe for concurrent use: its status is an atomic pointer, its result is written before
// done is closed, the rest belongs to the conductor.
type Run struct {
	id       string
	plan     *plan.Plan
	shown    plan.Config // the plan's configuration as results, status and log contain it
	log      *slog.Logger
	faults   *slog.Logger
	addr     string
	secure   *tls.Config // nil: plain
	loops    int
	poolMax  int
	settings Settings

	group   *loop.Group
	senders []*sender
	warm    chan int // loops whose first connections are open
	ended   chan int // loops that have finished

	stop     chan struct{}
	stopOnce sync.Once
	done     chan struct{}
	status   atomic.Pointer[record.Status]
	fault    atomic.Value // text of the last error of a dial, a string
	result   *record.Result
}

// Start starts a run of p. The error is a strict.Fault if the configuration cannot be
// carried out on this machine.
func Start(id string, p *plan.Plan, s Settings) (*Run, error) {
	r := &Run{
		id: id, plan: p, log: s.Logger("LoadGenerator"), faults: s.Logger("HttpClient"),
		settings: s, stop: make(chan struct{}), done: make(chan struct{}),
	}
	if r.shown = p.Config; !s.ShowValues {
		r.shown = p.Config.Masked()
	}
	r.settings.queueAge = cmp.Or(s.queueAge, queueAgeMax)
	var err error
	if r.poolMax, err = allowedConnections(p); err != nil {
		return nil, err
	}
	if p.Secure {
		if r.secure, err = certs.Client(s.CAFile, p.Host); err != nil {
			return nil, err
		}
		if p.Protocol == plan.H2 {
			r.secure.NextProtos = []string{"h2"}
		}
	}
	if r.addr, err = findAddress(p); err != nil {
		return nil, err
	}
	sources, err := chooseSources(s.Sources, r.addr, p.Connections, p.Config.Shard.Of)
	if err != nil {
		return nil, err
	}
	if len(sources) > len(s.Sources) { // a limit by address then sees several clients
		r.log.Info("Connections use several local addresses, because one does not have enough ports", "from", sources[0],
			"to", sources[len(sources)-1])
	}
	r.loops = chooseLoops(s.Loops, runtime.GOMAXPROCS(0), p)
	r.group, err = loop.Start(loop.Config{
		Loops: r.loops, DialsMax: r.loops * dials(p), Sources: sources,
		Panicked: func(v any, stack []byte) {
			r.log.Error("Panic on an event loop", "value", fmt.Sprint(v), "stack", string(stack))
		},
	})
	if err != nil {
		return nil, fmt.Errorf("start test: %w", err)
	}
	r.warm, r.ended = make(chan int, r.loops), make(chan int, r.loops)
	for i, l := range r.group.Loops() {
		r.senders = append(r.senders, newSender(r, l, r.size(i)))
	}
	c := newConductor(r)
	c.publish(time.Now())
	go c.conduct()
	return r, nil
}

// ID returns the test's identifier.
func (r *Run) ID() string { return r.id }

// Plan returns the plan of the run. Its configuration may contain credentials.
func (r *Run) Plan() *plan.Plan { return r.plan }

// Stop ends the schedule now. The run waits for answers in flight for a while; Done says
// when it is over.
func (r *Run) Stop() { r.stopOnce.Do(func() { close(r.stop) }) }

// Done returns a channel that is closed when the run is over.
func (r *Run) Done() <-chan struct{} { return r.done }

// Status returns the status of the run, which is at most a quarter of a second old.
func (r *Run) Status() record.Status { return *r.status.Load() }

// Result returns the result of the run, which must be over.
func (r *Run) Result() *record.Result {
	<-r.done
	return r.result
}

// size returns how many connections the sender of loop i may have.
func (r *Run) size(i int) session.PoolSize {
	share := func(n int) int { return n/r.loops + max(0, min(1, n%r.loops-i)) }
	size := session.PoolSize{Max: share(r.poolMax), Dials: dials(r.plan), Grow: r.plan.KeepAlive}
	switch {
	case !r.plan.KeepAlive:
	case r.plan.Connections > 0:
		size.Start = size.Max
	default:
		size.Start = (session.Connections(rateMax(r.plan)/float64(r.loops)) + r.plan.Streams - 1) / r.plan.Streams
	}
	return size
}

func dials(p *plan.Plan) int {
	if p.KeepAlive {
		return dialsKept
	}
	return dialsFresh
}

// rateMax returns the highest rate at which this generator has to send.
func rateMax(p *plan.Plan) float64 {
	return p.Profile.RateMax() / float64(p.Config.Shard.Of)
}

// chooseLoops returns the number of loops: as requested, or by the rate but at most one
// per core; never more than there are connections.
func chooseLoops(asked, cores int, p *plan.Plan) int {
	n := asked
	if n == 0 {
		n = min(cores, int(math.Ceil(rateMax(p)/loopRate)))
	}
	if p.Connections > 0 {
		n = min(n, p.Connections)
	}
	return max(1, n)
}

// allowedConnections returns how many connections a run may have: as requested, or as
// many as this process may open up to a bound. Go has raised the limit on open files to
// the maximum.
func allowedConnections(p *plan.Plan) (int, error) {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return 0, fmt.Errorf("read the limit on open files: %w", err)
	}
	each, kind := 1, ""
	if p.Secure {
		each, kind = secureDescriptors, fmt.Sprintf(", of which a TLS connection takes %d", secureDescriptors)
	}
	allowed := (int(min(lim.Cur, math.MaxInt32)) - descriptorReserve) / each
	if p.Connections == 0 {
		return max(1, min(allowed, connectionsMax)), nil
	}
	if p.Connections > allowed {
		return 0, strict.Fault{Path: "concurrency", Message: fmt.Sprintf(
			"must be at most %d, because this process may open %d files (ulimit -Hn)%s, is %d", allowed, lim.Cur, kind,
			p.Connections)}
	}
	return p.Connections, nil
}

// findAddress returns the address to connect to, so that names are not resolved while
// requests are due. If a name has several addresses, such as localhost, it returns one
// that accepts connections.
func findAddress(p *plan.Plan) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", p.Host)
	if err != nil || len(addrs) == 0 {
		return "", strict.Fault{Path: "limiterUrl", Message: fmt.Sprintf("the host cannot be found: %v", err)}
	}
	if len(addrs) > 1 {
		var d net.Dialer
		if c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(p.Host, p.Port)); err == nil {
			defer c.Close()
			return c.RemoteAddr().String(), nil
		}
	}
	return net.JoinHostPort(preferIPv4(addrs).String(), p.Port), nil
}

func preferIPv4(addrs []netip.Addr) netip.Addr {
	i := slices.IndexFunc(addrs, func(a netip.Addr) bool { return a.Unmap().Is4() })
	return addrs[max(i, 0)].Unmap()
}
