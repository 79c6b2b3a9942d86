// Package decision is the decision port: it gives every connection of its event loops a
// session of package check, and those a lane to the store.
//
//	loop ─▶ conn ─▶ check.Session ─▶ lane of the loop ─▶ store
//	                     │
//	                     ├─▶ documents, as one goroutine reads them
//	                     └─▶ editor, one goroutine that waits for the store
package decision

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/loop"
	"weir/internal/metric"
	"weir/proxy/check"
	"weir/proxy/decide"
	"weir/proxy/envoy"
	"weir/proxy/refusal"
	"weir/proxy/store"
)

const (
	// editsMax bounds the edits that wait; beyond: 503.
	editsMax = 256
	// editTimeout is the default of Config.EditTimeout.
	editTimeout = 2 * time.Second
)

// Access says who may do what.
type Access = check.Access

// Config is what a Port is made of.
type Config struct {
	Socket    net.Listener // to accept on
	Secure    *tls.Config  // nil: plain
	Loop      loop.Config
	Store     store.Store
	Documents []string // names of those that are shown
	Quiet     bool     // the store does not tell of changes: documents are in this process
	Access    Access
	Healthy   func() bool
	// EditTimeout is the longest that an exchange with edits waits for the store; 2 s.
	EditTimeout time.Duration

	// Policy is what is enforced for requests that others describe, and TrustedProxies may.
	Policy          func() *decide.Policy
	TrustedProxies  []netip.Prefix
	PreflightsApart bool
	Style           decide.Style
	Pages           *atomic.Pointer[refusal.Pages] // nil: refusals are JSON

	DrainGrace time.Duration // how long idle connections live in Drain
	// Limits are those of Envoy's rate limit service, and RateLimit says how it decides.
	Limits    *Limits
	RateLimit envoy.Settings

	DrainTimeout time.Duration
}

// A Port is the running decision port.
//
// Safe for concurrent use: what it holds is immutable, atomic or owned by loops.
type Port struct {
	cfg       Config
	group     *loop.Group
	listener  *loop.Listener
	rooms     []*room
	counts    counts
	documents documents
	series    *series

	edits      chan edit
	background sync.WaitGroup
	stop       chan struct{}
	draining   atomic.Bool
}

// Start accepts until Drain.
func Start(cfg Config) (*Port, error) {
	cfg.EditTimeout = cmp.Or(cfg.EditTimeout, editTimeout)
	g, err := loop.Start(cfg.Loop)
	if err != nil {
		return nil, err
	}
	p := &Port{cfg: cfg, group: g, edits: make(chan edit, editsMax), stop: make(chan struct{}), series: newSeries()}
	p.documents.begin(&cfg)
	for _, l := range g.Loops() {
		p.rooms = append(p.rooms, newRoom(p, l))
	}
	p.background.Go(func() { p.documents.keep(p.stop) })
	p.background.Go(p.keepEditing)
	p.listener = g.Serve(cfg.Socket, cfg.Secure, func(now time.Time, c *loop.Conn) loop.Handler {
		return p.rooms[c.Loop().Index()].accept(now, c)
	})
	return p, nil
}

// Addr is the address listened on.
func (p *Port) Addr() net.Addr { return p.listener.Addr() }

// trusts reports whether an address is that of a trusted proxy.
func (p *Port) trusts(a netip.Addr) bool {
	return slices.ContainsFunc(p.cfg.TrustedProxies, func(one netip.Prefix) bool { return one.Contains(a.Unmap()) })
}

// File is a duplicate of the socket, for a successor.
func (p *Port) File() (*os.File, error) { return p.listener.File() }

// Drain stops accepting, lets what is under way finish, at most for the drain timeout or
// until ctx ends, and stops the loops. It reports how many connections it had to cut.
func (p *Port) Drain(ctx context.Context) (cut int) {
	p.draining.Store(true)
	p.listener.Close()
	for _, r := range p.rooms {
		r.loop.Post(r.drain)
	}
	cut = p.group.Emptied(ctx, p.cfg.DrainTimeout)
	close(p.stop)
	p.background.Wait()
	p.group.Stop()
	for _, r := range p.rooms {
		r.lane.Close()
	}
	return cut
}

// Recall returns the refusal that an asker was told about as decision id.
func (p *Port) Recall(id string) (any, bool) {
	for _, r := range p.rooms {
		if found, ok := r.refusals.Find(id); ok {
			return found.Explain(id), true
		}
	}
	return nil, false
}

// Register adds the port's metrics to set.
func (p *Port) Register(set *metric.Set) {
	p.counts.register(set)
	p.series.register(set)
	p.cfg.Limits.register(set)
	set.Gauge("ratelimiter_check_connections", "connections to the decision port", func() float64 { return float64(p.group.Stats().Open) })
}

// An edit is one that waits.
type edit struct {
	room    *room
	session *check.Session
	edit    *check.Edit
	until   time.Time // nobody waits for it from then on
}

// keepEditing does one edit after another, but for those that nobody waits for any more.
func (p *Port) keepEditing() {
	for {
		select {
		case <-p.stop:
			return
		case e := <-p.edits:
			if !time.Now().Before(e.until) {
				continue
			}
			changed, err := p.edit(e.edit)
			e.room.loop.Post(func(now time.Time) {
				if e.session.HandleEdited(now, e.edit, changed, err) {
					e.session.Owner.(*conn).answered()
				}
			})
		}
	}
}

func (p *Port) edit(e *check.Edit) (bool, error) {
	if e.Add == 0 {
		return p.cfg.Store.Forget(e.Rule, e.Key)
	}
	return p.cfg.Store.Add(e.Rule, e.Key, e.Add)
}
