package loop

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"

	"weir/internal/net/admit"
	"weir/internal/net/loop/pump"
	"weir/internal/net/share"
)

// writeStallDefault is the default of Config.WriteStall.
const writeStallDefault = 15 * time.Second

// A Group is a set of running event loops.
//
// Safe for concurrent use: its fields do not change after Start, counters are atomic.
type Group struct {
	cfg    Config
	loops  []*Loop
	dialer *dialer

	connLimit admit.ConnLimit
	clients   admit.Clients
	pumps     pump.Group
	stats     Stats
	stopped   atomic.Bool
}

// Stats has counts since Start.
//
// Safe for concurrent use: they are atomic.
type Stats struct {
	Open            atomic.Int64  // open accepted connections
	Accepted        atomic.Uint64 // connections accepted
	Refused         atomic.Uint64 // connections refused because of ConnectionsMax or missing descriptors
	RefusedAddress  atomic.Uint64 // connections refused because of PerAddressMax
	RefusedShare    atomic.Uint64 // connections refused because their client has its share of ConnectionsMax
	Replaced        atomic.Uint64 // silent connections closed for new ones because of ConnectionsMax
	AcceptErrors    atomic.Uint64 // failures of accept(2), mostly for lack of descriptors
	HandshakeErrors atomic.Uint64 // accepted connections closed because TLS failed or took too long
	Panics          atomic.Uint64 // panics of Handlers
	Stalled         atomic.Uint64 // connections closed because their peer did not read
	Paused          atomic.Uint64 // how often reading was paused
}

// Start starts the loops. They run until Stop.
func Start(cfg Config) (*Group, error) {
	cfg = withDefaults(cfg)
	g := &Group{cfg: cfg}
	g.connLimit.Begin(cfg.ConnectionsMax)
	g.clients.Most, g.clients.Shares = cfg.PerAddressMax, cfg.Shares
	g.pumps.WriteStall = cfg.WriteStall
	g.dialer = newDialer(&cfg)
	epoch := time.Now()
	for i := range cfg.Loops {
		g.loops = append(g.loops, newLoop(g, i, epoch))
	}
	all, err := cfg.System.Start(cfg.Loops, new(events), func(i int) { g.loops[i].wake() })
	if err != nil {
		return nil, err
	}
	for i, el := range all {
		g.loops[i].el = el
	}
	return g, nil
}

// ReserveTLSOut reserves descriptors for accepted connections of which each has a dialled one with
// TLS: Config.ConnectionsMax is then smaller, unless it is set.
func (g *Group) ReserveTLSOut() { g.connLimit.ReserveTLSOut() }

func withDefaults(cfg Config) Config {
	cfg.Loops = cmp.Or(cfg.Loops, runtime.GOMAXPROCS(0))
	cfg.InboundMax = cmp.Or(cfg.InboundMax, 64<<10)
	cfg.OutboundMax = cmp.Or(cfg.OutboundMax, 64<<10)
	cfg.WriteStall = cmp.Or(cfg.WriteStall, writeStallDefault)
	cfg.DialsMax = cmp.Or(cfg.DialsMax, 64)
	cfg.HandshakeTimeout = cmp.Or(cfg.HandshakeTimeout, 10*time.Second) // four round trips of a slow client on a bad line
	if cfg.System == nil {
		cfg.System = new(system)
	}
	if cfg.Plain == nil {
		cfg.Plain = func([5]byte) []byte { return nil }
	}
	if cfg.Panicked == nil {
		cfg.Panicked = func(any, []byte) {}
	}
	return cfg
}

// Loops returns the loops, by index. The slice must not be changed.
func (g *Group) Loops() []*Loop { return g.loops }

// Stats returns the counts, which continue to change.
func (g *Group) Stats() *Stats { return &g.stats }

// Greediest returns the client with the most accepted connections, and how many it has.
func (g *Group) Greediest() (c share.Client, connections int64) { return g.clients.Greediest() }

// AwaitEmpty waits until no accepted connection is open, at most for the given time or until ctx
// ends, and returns how many are left. It must not be called on a loop.
func (g *Group) AwaitEmpty(ctx context.Context, most time.Duration) (left int) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for g.stats.Open.Load() > 0 && ctx.Err() == nil {
		select {
		case <-poll.C:
		case <-ctx.Done():
		}
	}
	return int(g.stats.Open.Load())
}

// Stop closes every connection immediately and ends the loops; sending what TLS connections
// have written may take a second. The owner closes the listeners before, and drains if
// requests must finish. Stop may be called once, and not on a loop.
func (g *Group) Stop() {
	if g.stopped.Swap(true) {
		return
	}
	g.dialer.stop()
	g.pumps.Refuse()
	g.dialer.ended.Wait()
	var closed sync.WaitGroup
	for _, l := range g.loops {
		closed.Add(1)
		l.Post(func(time.Time) {
			l.Each(func(c *Conn, _ Handler) { c.Close() })
			closed.Done()
		})
	}
	pump.Await(&closed, stopMax)
	g.pumps.Stop()
	g.cfg.System.Stop()
}

// stopMax bounds how long Stop waits for a loop to close its connections. A loop that ended
// because of an error of its poller never does.
const stopMax = 5 * time.Second

// discardLogger discards gnet's log. What matters is reported to a Handler or counted in Stats.
type discardLogger struct{}

func (discardLogger) Debugf(string, ...any) {}
func (discardLogger) Infof(string, ...any)  {}
func (discardLogger) Warnf(string, ...any)  {}
func (discardLogger) Errorf(string, ...any) {}
func (discardLogger) Fatalf(string, ...any) {}

// An registration is a socket that is being taken into a loop.
type registration struct {
	c       *Conn
	arrived atomic.Bool // gnet has called OnOpen
	res     <-chan gnet.RegisteredResult
}

// enroll passes a socket to c's loop, which calls opened. It does not wait: another goroutine
// must await the enrolment.
func (c *Conn) enroll(nc net.Conn) (*registration, error) {
	if nc.RemoteAddr() == nil {
		// It was reset meanwhile. gnet would panic because of the missing address, in a
		// worker that recovers panics, and leak the descriptor.
		_ = nc.Close()
		return nil, unix.ECONNRESET
	}
	e := &registration{c: c}
	res, err := c.loop.el.Enroll(gnet.NewContext(context.Background(), e), nc)
	if err != nil {
		_ = nc.Close()
		return nil, fmt.Errorf("enroll connection: %w", err)
	}
	e.res = res
	return e, nil
}

// rejoin passes a descriptor to c's loop and takes it over, even if it fails, except with ENOTCONN.
// Conn.opened or Conn.failed follows.
func (c *Conn) rejoin(fd int) error {
	nc, err := c.loop.system.Conn(fd)
	if err != nil {
		return err
	}
	e, err := c.enroll(nc)
	if err != nil {
		return err
	}
	go e.await()
	return nil
}

// await waits until the socket is in the loop, or could not be taken into it. It must not be
// called on a loop.
func (e *registration) await() {
	r := <-e.res
	if r.Err == nil && e.arrived.Load() {
		return
	}
	e.c.loop.Post(func(now time.Time) { e.c.failed(now, r.Err) })
}
