package loop

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/logging"
	"golang.org/x/sys/unix"

	"weir/internal/admit"
	"weir/internal/pump"
)

// Defaults of Config.
const (
	inboundMaxDefault  = 64 << 10
	outboundMaxDefault = 64 << 10
	writeStallDefault  = 15 * time.Second
	dialsMaxDefault    = 64
	// handshakeTimeoutDefault is generous: a slow client on a bad line needs
	// four round trips, one of them for the connect.
	handshakeTimeoutDefault = 10 * time.Second
)

// sparesForOthers is how many processors of Go there are for what works beside
// the loops. With none, a connect took up to 10 ms while the machine was idle.
const sparesForOthers = 1

// A Group is a set of running event loops.
//
// Safe for concurrent use: its fields do not change after Start, the counters
// are atomic.
type Group struct {
	cfg    Config
	client *gnet.Client
	loops  []*Loop
	clock  *clock
	dialer *dialer

	open      atomic.Int64 // accepted connections
	places    admit.Places
	addresses admit.Addresses
	pumps     pump.Set
	stats     counters
	stopped   atomic.Bool
}

// counters are kept by all loops together; see Stats.
type counters struct {
	accepted, refused, refusedAddress, acceptErrors, handshakeErrors, panics, stalled, paused atomic.Uint64
}

// Stats counts what happened since Start.
type Stats struct {
	Open            int64  // accepted connections open now
	Accepted        uint64 // connections accepted
	Refused         uint64 // connections closed at once: ConnectionsMax reached, no descriptors
	RefusedAddress  uint64 // connections closed at once: PerAddressMax reached
	AcceptErrors    uint64 // accept(2) failures, descriptors exhausted above all
	HandshakeErrors uint64 // accepted connections closed because TLS failed or took too long
	Panics          uint64 // panics of Handlers
	Stalled         uint64 // connections closed because their peer did not read
	Paused          uint64 // times reading was paused
}

// Start starts the loops. They run until Stop.
func Start(cfg Config) (*Group, error) {
	cfg = withDefaults(cfg)
	g := &Group{cfg: cfg}
	g.places.Begin(cfg.ConnectionsMax)
	g.addresses.Most = cfg.PerAddressMax
	g.pumps.WriteStall = cfg.WriteStall
	g.dialer = newDialer(cfg.DialsMax, cfg.Sources)
	for i := range cfg.Loops {
		g.loops = append(g.loops, newLoop(g, i))
	}
	var err error
	if g.clock, err = startClock(cfg.Loops, func(i int) { g.loops[i].wake() }); err != nil {
		return nil, err
	}
	for _, l := range g.loops {
		l.epoch = g.clock.epoch
	}
	// A thread that sleeps in the kernel keeps its processor of Go until the
	// runtime's monitor takes it away, up to 10 ms later: the loops' and the
	// clock's sleep so. Dials, accepts and own endpoints want some besides.
	if most := cfg.Loops + 1 + sparesForOthers; runtime.GOMAXPROCS(0) < most {
		runtime.GOMAXPROCS(most)
	}
	g.client, err = gnet.NewClient(&events{g: g},
		gnet.WithNumEventLoop(cfg.Loops), gnet.WithLogger(quiet{}), gnet.WithLogLevel(logging.FatalLevel))
	if err == nil {
		err = g.client.Start()
	}
	if err != nil {
		g.clock.stop()
		return nil, fmt.Errorf("start event loops: %w", err)
	}
	if err := g.findLoops(); err != nil {
		g.Stop()
		return nil, err
	}
	return g, nil
}

func withDefaults(cfg Config) Config {
	if cfg.Loops <= 0 {
		cfg.Loops = runtime.GOMAXPROCS(0)
	}
	if cfg.InboundMax <= 0 {
		cfg.InboundMax = inboundMaxDefault
	}
	if cfg.OutboundMax <= 0 {
		cfg.OutboundMax = outboundMaxDefault
	}
	if cfg.WriteStall <= 0 {
		cfg.WriteStall = writeStallDefault
	}
	if cfg.DialsMax <= 0 {
		cfg.DialsMax = dialsMaxDefault
	}
	if cfg.HandshakeTimeout <= 0 {
		cfg.HandshakeTimeout = handshakeTimeoutDefault
	}
	if cfg.Plain == nil {
		cfg.Plain = func([5]byte) []byte { return nil }
	}
	if cfg.Panicked == nil {
		cfg.Panicked = func(any, []byte) {}
	}
	return cfg
}

// findLoops learns gnet's handle of every loop. gnet lists none, but tells a
// connection its loop, and gives a new connection to the loop with the fewest:
// as many socket pairs as loops reach them all. They stay open as anchors.
func (g *Group) findLoops() error {
	for i := range g.loops {
		ours, theirs, err := pump.Pair()
		if err != nil {
			return fmt.Errorf("open socket pair: %w", err)
		}
		found := make(chan gnet.EventLoop, 1)
		if _, err := g.client.EnrollContext(ours, found); err != nil {
			_ = theirs.Close()
			return fmt.Errorf("enroll socket pair: %w", err)
		}
		l := g.loops[i]
		l.el, l.anchor = <-found, theirs
		for _, other := range g.loops[:i] {
			if other.el == l.el {
				return errors.New("find event loops: one was found twice")
			}
		}
	}
	return nil
}

// Loops returns the loops, by index. The slice is not to be changed.
func (g *Group) Loops() []*Loop { return g.loops }

// Stats returns the counts so far.
func (g *Group) Stats() Stats {
	return Stats{
		Open:            g.open.Load(),
		Accepted:        g.stats.accepted.Load(),
		Refused:         g.stats.refused.Load(),
		RefusedAddress:  g.stats.refusedAddress.Load(),
		AcceptErrors:    g.stats.acceptErrors.Load(),
		HandshakeErrors: g.stats.handshakeErrors.Load(),
		Panics:          g.stats.panics.Load(),
		Stalled:         g.stats.stalled.Load(),
		Paused:          g.stats.paused.Load(),
	}
}

// Emptied waits until no accepted connection is open, at most for so long or until ctx
// ends, and returns how many are left. It is not for a loop.
func (g *Group) Emptied(ctx context.Context, most time.Duration) (left int) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for g.open.Load() > 0 && ctx.Err() == nil {
		select {
		case <-poll.C:
		case <-ctx.Done():
		}
	}
	return int(g.open.Load())
}

// Stop closes every connection at once and ends the loops; what TLS connections
// had written before may take a second to go. Listeners are closed by their
// owner before. A program that wants to finish what is under way drains before
// it stops. Stop may be called once; it is not for a loop.
func (g *Group) Stop() {
	if g.stopped.Swap(true) {
		return
	}
	g.dialer.cancel()
	g.pumps.Refuse()
	g.dialer.stop()
	g.clock.stop()
	var closed sync.WaitGroup
	for _, l := range g.loops {
		if l.el == nil {
			continue
		}
		closed.Add(1)
		l.Post(func(time.Time) {
			l.Each(func(c *Conn, _ Handler) { c.Close() })
			closed.Done()
		})
	}
	pump.Await(&closed, stopMax)
	g.pumps.Stop()
	_ = g.client.Stop()
	for _, l := range g.loops {
		if l.anchor != nil {
			_ = l.anchor.Close()
		}
	}
}

// stopMax is how long Stop waits for a loop to close its connections. A loop
// that has died of a fault of its poller never does.
const stopMax = 5 * time.Second

// quiet swallows gnet's log: what matters of it reaches a Handler or Stats.
type quiet struct{}

func (quiet) Debugf(string, ...any) {}
func (quiet) Infof(string, ...any)  {}
func (quiet) Warnf(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(string, ...any) {}

// An enrolment is one socket on its way into a loop.
type enrolment struct {
	c       *Conn
	arrived atomic.Bool // gnet has told of it
	res     <-chan gnet.RegisteredResult
}

// enroll hands a socket to c's loop; c is told of it by opened. It does not
// wait: another goroutine has to await the enrolment.
func (c *Conn) enroll(nc net.Conn) (*enrolment, error) {
	if nc.RemoteAddr() == nil {
		// Reset on its way here. gnet would panic over the missing address,
		// in a worker that swallows panics, and leak the descriptor.
		_ = nc.Close()
		return nil, unix.ECONNRESET
	}
	e := &enrolment{c: c}
	res, err := c.loop.el.Enroll(gnet.NewContext(context.Background(), e), nc)
	if err != nil {
		_ = nc.Close()
		return nil, fmt.Errorf("enroll connection: %w", err)
	}
	e.res = res
	return e, nil
}

// await waits until the socket is in the loop, or could not be taken into it.
// It is not for a loop.
func (e *enrolment) await() {
	r := <-e.res
	if r.Err == nil && e.arrived.Load() {
		return
	}
	e.c.loop.Post(func(now time.Time) { e.c.failed(now, r.Err) })
}
