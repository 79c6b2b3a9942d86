// Package port runs the decision port: each connection on its event loops gets a
// session of package check, and the sessions share the loop's lane to the store.
//
//	loop ─▶ conn ─▶ check.Session ─▶ lane of the loop ─▶ store
//	                     │
//	                     ├─▶ documents, as one goroutine reads them
//	                     └─▶ editor, one goroutine that waits for the store
//
// The port has event loops of its own. Each has a lane, which sends the loop's asks to the store in
// batches. Envoy's rate limit service has [Limits] of its own, from the files of a [Source] or from
// an xDS server. The documents are the configuration that sidecars share with this proxy, their
// master; they are published every 100 ms. Sidecars poll the marks: fingerprints, one for each
// document. The document ratelimiter:limit is not in the store: it is the limit in force at the
// master, for sidecars without a limit of their own. If a counter is a queue (leaky), the answer
// is delayed until the request's slot. DECISION_HOLD_MAX bounds that: it is the MaxDelay of the
// counters. A caller that does not wait for the answer is still charged, since it may have
// admitted the request.
package port

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"weir/internal/net/http1"
	"weir/internal/net/http2"
	"weir/internal/net/loop"
	"weir/internal/program/metric"
	"weir/internal/program/service"
	"weir/proxy/ask/check"
	"weir/proxy/ask/envoy"
	"weir/proxy/rules/decide"
	"weir/proxy/rules/refusal"
	"weir/proxy/store"
)

// editTimeout is the default of Config.EditTimeout.
const editTimeout = 2 * time.Second

// AccessPolicy says which requests are allowed.
type AccessPolicy = check.AccessPolicy

// A Listener is a socket of the port.
type Listener struct {
	Socket net.Listener // to accept on
	Secure *tls.Config  // nil means plain text
	Access AccessPolicy
}

// Config configures a Port.
type Config struct {
	Listener
	Further   []Listener // that the port listens on as well
	Loop      loop.Config
	Store     store.Store
	PerSecond store.Store // has the limits per second of Envoy's rate limit service; nil: Store has
	Documents []string    // names of the documents provided
	// Limit returns the content of a further document, LimitDocument, which is not in the store; nil: there is none.
	Limit   func() []byte
	Local   bool         // documents are in this process: the store reports no changes
	Head    http1.Limits // of requests
	Healthy func() bool
	// EditTimeout bounds how long an exchange with edits waits for the store. The default
	// is 2 s.
	EditTimeout time.Duration

	// Policy returns the policy for described requests, which trusted proxies may send.
	Policy          func() *decide.Policy
	Trusts          func(netip.Addr) bool
	PreflightsApart bool
	// AdmitUndescribed says that requests that cannot be described are admitted. They are logged once a minute.
	AdmitUndescribed bool
	Log              *slog.Logger
	HoldMax          time.Duration // how long leaky limits may hold the answer to a described request
	Style            decide.RefusalStyle
	Pages            *atomic.Pointer[refusal.Pages] // nil: refusals are JSON

	HTTP2    http2.Limits  // of connections
	Age      time.Duration // maximum age of a connection of HTTP/2, varied by ageSpread; 0: none
	AgeGrace time.Duration // how long its streams may continue then; 0: until they end

	DrainGrace time.Duration // how long idle connections stay open in Drain
	// Limits are those of Envoy's rate limit service, and RateLimit its settings.
	Limits    *Limits
	RateLimit envoy.Settings
	Statsd    Statsd
	// NeedsLimits says that the port is not healthy until limits have been loaded, and NeedsDomain that it is not
	// while they are of no domain.
	NeedsLimits, NeedsDomain bool

	DrainTimeout time.Duration
}

// A Server serves the decision port.
//
// Safe for concurrent use: its fields are immutable, atomic or owned by loops.
type Server struct {
	cfg       Config
	group     *loop.Group
	listeners []*loop.Listener // the first is that of Config.Socket
	sides     []*side
	counts    counts
	documents documents
	series    *series
	sender    *sender // nil without Statsd
	odd       undescribed

	edits      *service.BoundedQueue[edit]
	background sync.WaitGroup
	stop       context.CancelFunc // of background
	draining   atomic.Bool
}

// Start accepts connections until Drain.
func Start(cfg Config) (*Server, error) {
	cfg.EditTimeout = cmp.Or(cfg.EditTimeout, editTimeout)
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	g, err := loop.Start(cfg.Loop)
	if err != nil {
		return nil, err
	}
	p := &Server{cfg: cfg, group: g, edits: service.NewBoundedQueue[edit](editsMax), series: newSeries()}
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	p.documents.begin(&p.cfg)
	for _, l := range g.Loops() {
		p.sides = append(p.sides, newSide(p, l))
	}
	p.background.Go(func() { p.documents.keep(ctx) })
	p.background.Go(p.keepEditing)
	if cfg.Statsd.Addr != "" {
		p.sender = newSender(cfg.Statsd, p.series, cfg.Limits)
		p.background.Go(func() { p.sender.keep(ctx) })
	}
	for _, l := range append([]Listener{cfg.Listener}, cfg.Further...) {
		p.listeners = append(p.listeners, g.Serve(l.Socket, l.Secure, func(now time.Time, c *loop.Conn) loop.Handler {
			return p.sides[c.Loop().Index()].accept(now, c, &l.Access)
		}))
	}
	return p, nil
}

// Addr returns the listening address.
func (p *Server) Addr() net.Addr { return p.listeners[0].Addr() }

// Sockets returns the listening sockets of TCP, for a successor.
func (p *Server) Sockets() (all []syscall.Conn) {
	for _, l := range p.listeners {
		if _, ok := l.Addr().(*net.TCPAddr); ok {
			all = append(all, l)
		}
	}
	return all
}

// Drain stops accepting, lets requests in flight finish, at most for the drain timeout or
// until ctx ends, and stops the loops. It returns how many connections it had to cut.
func (p *Server) Drain(ctx context.Context) (cut int) {
	p.draining.Store(true)
	for _, l := range p.listeners {
		l.Close()
	}
	for _, r := range p.sides {
		r.loop.Post(r.drain)
	}
	cut = p.group.AwaitEmpty(ctx, p.cfg.DrainTimeout)
	p.stop()
	p.edits.Close()
	p.background.Wait()
	p.group.Stop()
	for _, r := range p.sides {
		r.lane.Close()
		if r.perSecond != nil {
			r.perSecond.Close()
		}
	}
	return cut
}

// Recall returns the refusal whose decision id an asker was sent.
func (p *Server) Recall(id string) (any, bool) {
	for _, r := range p.sides {
		if found, ok := r.refusals.Find(id); ok {
			return found.Explain(id), true
		}
	}
	return nil, false
}

// healthy reports whether the port accepts requests.
func (p *Server) healthy() bool {
	domains := p.cfg.Limits.Domains()
	some, _ := domains.Len()
	return !p.draining.Load() && p.cfg.Healthy() && (domains != nil || !p.cfg.NeedsLimits) &&
		(some > 0 || !p.cfg.NeedsDomain)
}

// Register adds the port's metrics to set.
func (p *Server) Register(set *metric.Set) {
	p.counts.register(set)
	p.odd.register(set)
	p.series.register(set)
	p.cfg.Limits.register(set)
	if p.sender != nil {
		set.Counter("ratelimiter_statsd_errors_total", "packets of statistics that could not be sent", p.sender.errors.Load)
	}
	stats := p.group.Stats()
	set.Gauge("ratelimiter_check_connections", "connections to the decision port",
		func() float64 { return float64(stats.Open.Load()) })
	set.Counter("ratelimiter_check_connections_total", "connections to the decision port that were accepted",
		stats.Accepted.Load)
}
