package wire

import (
	"cmp"
	"context"
	"crypto/tls"
	"hash/maphash"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"weir/internal/net/http1"
	"weir/internal/net/loop"
	"weir/internal/program/metric"
	"weir/internal/program/service"
	"weir/internal/timing/every"
	"weir/proxy/http/exchange"
	"weir/proxy/http/mux"
	"weir/proxy/http/session"
	"weir/proxy/rules/decide"
	"weir/proxy/rules/refusal"
	"weir/proxy/rules/tally"
	"weir/proxy/store"
	"weir/proxy/store/lane"
	"weir/proxy/targets/gate"
	"weir/proxy/targets/gates"
	"weir/proxy/targets/roster"
	"weir/proxy/targets/route"
	"weir/proxy/targets/upstream"
	"weir/proxy/wire/report"
)

// Bounds of the work done outside the loops.
const (
	ownWorkers    = 2    // for own endpoints
	ownWaitingMax = 256  // requests waiting for a worker; beyond: 503
	waitersMax    = 4096 // default of Config.WaitersPerLoop
)

// A Config configures a Server.
type Config struct {
	Sockets []net.Listener // to accept on; Addr is the address of the first
	Secure  *tls.Config    // TLS for clients; nil means plain text
	Loop    loop.Config
	Session session.Settings
	HTTP2   HTTP2Config

	Targets        []*roster.Target
	Roster         roster.Config // Start fills in Loops and Log
	Balance        upstream.Balance
	Seed           uint64  // of the choice of targets; 0: at random
	TargetConnsMax int     // connections to each target over all loops; each loop has at least one
	StreamShare    float64 // share of TargetConnsMax that tunnels and streams may take
	Gate           gates.Settings
	TargetHTTP2    mux.UpstreamSettings
	TargetIdle     time.Duration // how long an idle connection is kept
	// age beyond which a connection is not reused, reduced by up to a quarter at random; 0 means any
	TargetAge    time.Duration
	MemoryBudget int64 // memory use in bytes above which requests are shed; 0 means never
	DrainTimeout time.Duration
	Policy       func() *decide.Policy
	Pages        *atomic.Pointer[refusal.Pages] // refusal templates in force; nil means JSON only
	Access       AccessLog                      // the access log
	Store        store.Store                    // makes the decisions
	Defer        DeferFunc                      // stores refused requests; nil if there is no queue
	LookUp       LookUpFunc                     // looks requests up in the queue; required with Defer
	// returns when deliveries have ended; Drain calls it before it stops the loops; nil if there are none
	Finish  func()
	Local   store.Store                        // decides about deliveries while Store admits everything
	Own     func(f *Server) *service.Endpoints // makes the proxy's own endpoints
	Log     *slog.Logger                       // for refusals of the limiter
	GateLog *slog.Logger                       // for targets that become slow; required with a gate
	// decisions of each kind kept for GET /config/decisions; 0 means 4096
	DecisionsPerLoop int
	// requests waiting for a connection to one target; beyond: 503; 0 means 4096
	WaitersPerLoop int
}

// A Server is the running proxy: listener, loops, sessions.
//
// Safe for concurrent use: what it holds is immutable or owned by loops.
type Server struct {
	Tally   *tally.Tally // decisions by rule
	Targets *roster.List
	Gates   *gates.Gates

	cfg      Config
	group    *loop.Group
	lns      []*loop.Listener
	handlers *service.HandlerPool
	turn     atomic.Uint64 // selects the loop for the next delivery
	loops    loops
	queues   *upstream.QueueSet // of all loops

	connsPerTarget int // of all loops

	background sync.WaitGroup
	running    context.Context // ends when Drain has drained
	stop       context.CancelFunc
	began      time.Time
	memory     *MemoryGuard
	claims     claimsWarning
	looped     atomic.Int64 // requests that have passed this proxy before, since housekeeping looked
	lacks      lackWarning
	differing  peerWarning  // trusted proxies whose fields name different clients
	seed       maphash.Seed // of the hashes by which waiting clients are distinguished
	classes    gates.MetricClasses
	routes     route.Classifier
}

// micros returns how long the proxy has run at now, in microseconds, plus one: never 0.
func (f *Server) micros(now time.Time) int64 { return now.Sub(f.began).Microseconds() + 1 }

// Start accepts on the sockets and serves until Drain.
func Start(cfg Config) (*Server, error) {
	cfg.Loop.Plain = refusal.HTTPOnTLSPort
	cfg.Loop.Shares = func(peer netip.Addr) bool { return !cfg.Session.Trusts(peer) }
	g, err := loop.Start(cfg.Loop)
	if err != nil {
		return nil, err
	}
	f := &Server{Tally: tally.New(cfg.Policy, cfg.Log), cfg: cfg, group: g, began: time.Now(), seed: maphash.MakeSeed(),
		queues: upstream.NewQueueSet(len(g.Loops()))}
	f.memory = f.newMemory()
	f.running, f.stop = context.WithCancel(context.Background())
	for i, l := range g.Loops() {
		f.loops = append(f.loops, newLoopServer(f, l, portion(cfg.TargetConnsMax, len(g.Loops()), i)))
	}
	cfg.Roster.Loops, cfg.Roster.Log = f.loops, cfg.Log
	f.Targets = roster.New(cfg.Roster)
	f.Gates = gates.New(gates.Config{Settings: cfg.Gate, Bounds: f.bounds(), Targets: f.Targets, Of: f.loops.gate,
		Classes: &f.classes, Log: cfg.GateLog})
	f.Targets.Set(cfg.Targets)
	f.handlers = service.NewHandlerPool(cfg.Own(f), ownWorkers, ownWaitingMax).Dedicate("/deferred/", ownWaitingMax)
	for _, ln := range cfg.Sockets {
		f.lns = append(f.lns, f.listen(ln))
	}
	f.background.Go(f.housekeeping)
	f.background.Go(func() { f.Targets.Run(f.running) })
	f.background.Go(func() { f.memory.Watch(f.running.Done()) })
	return f, nil
}

// portion returns loop i's part of a bound that n loops share. Each part is at least one.
func portion(bound, n, i int) int {
	p := bound / n
	if i < bound%n {
		p++
	}
	return max(1, p)
}

// listen accepts clients on ln and takes ownership of it.
func (f *Server) listen(ln net.Listener) *loop.Listener {
	return f.group.Serve(ln, f.cfg.Secure, func(now time.Time, c *loop.Conn) loop.Handler {
		return f.loops[c.Loop().Index()].accept(now, c)
	})
}

// Addr returns the address of the first socket.
func (f *Server) Addr() net.Addr { return f.lns[0].Addr() }

// Sockets returns the listening sockets, for a successor.
func (f *Server) Sockets() (all []syscall.Conn) {
	for _, ln := range f.lns {
		all = append(all, ln)
	}
	return all
}

// leaveTime is how long connections are still accepted on an address that is given up,
// for clients that have connected already or are about to.
const leaveTime = time.Second

// Leave accepts the clients that wait on the socket of an address that the proxy gives
// up, and then closes it. It returns at once.
func (f *Server) Leave(ln net.Listener) {
	leaving := f.listen(ln)
	f.background.Go(func() {
		over, cancel := context.WithTimeout(f.running, leaveTime)
		defer cancel()
		<-over.Done()
		leaving.Close()
	})
}

// housekeeping logs refusals and the states of targets, once a second.
func (f *Server) housekeeping() {
	rules := f.Tally.NewRefusalLogger()
	var slow gates.SlowdownLogger
	var targets roster.StateLogger
	var wrong complaints
	var connections connectionsWatch
	every.Interval(f.running.Done(), time.Second, func(now time.Time) {
		rules.Tick(now)
		f.claims.warn(now, f.cfg.Log)
		connections.look(now, f.group, f.cfg.Log)
		warnDiffering(now, f.cfg.Log, &f.differing)
		targets.Poll(now, f.Targets)
		slow.Poll(now, f.Gates)
		wrong.look(now, f)
	})
	rules.Flush()
}

// Drain stops accepting, lets requests in flight finish, at most for the drain timeout or
// until ctx ends, and stops the loops. It returns how many connections it had to cut.
func (f *Server) Drain(ctx context.Context) (cut int) {
	for _, ln := range f.lns {
		ln.Close()
	}
	for _, s := range f.loops {
		s.loop.Post(s.drain)
	}
	var finish sync.WaitGroup
	if f.cfg.Finish != nil {
		finish.Go(f.cfg.Finish)
	}
	cut = f.group.AwaitEmpty(ctx, f.cfg.DrainTimeout)
	finish.Wait()
	f.stop()
	f.background.Wait()
	f.handlers.Close()
	f.group.Stop()
	if w := f.cfg.Access.Writer; w != nil {
		w.Close()
	}
	for _, s := range f.loops {
		s.lane.Close()
		if s.local != nil {
			s.local.Close()
		}
	}
	return cut
}

// A loopServer is the proxy's state on one loop.
//
// Owned by its loop; counts are atomic and may be read by others.
type loopServer struct {
	shared     *Server
	loop       *loop.Loop
	env        session.Env
	targets    *upstream.Balancer[*target]
	long       []*upstream.Waiter[occupant]               // scratch of lengthen
	longUntil  time.Time                                  // many exchanges took long by themselves shortly before
	queue      *upstream.Queue[occupant]                  // waiting for a place
	parked     int                                        // how many wait outside the queue, see park
	queueLooks bool                                       // queueAlarm is set
	queueAlarm *loop.Alarm                                // made when first needed
	seen       atomic.Pointer[map[*roster.Target]*target] // the loop's targets, for other goroutines
	draining   bool
	tally      *tally.LoopTally
	counts     *report.LoopCounters
	routes     *route.LoopClassifier    // routes of requests, for gates
	classes    *gates.LoopMetricClasses // priority classes of requests, for metrics
	refusals   *report.RecentDecisions[report.RefusedRequest]
	sheds      *report.RecentDecisions[report.ShedRequest] // nil if no gate sheds
	access     *accessSide                                 // nil if there is no access log
	head       http1.Head                                  // of an answer, while it is read
	up         []byte                                      // what is being sent to a target
	effects    []*session.Effects                          // free, see takeEffects
	streams    []*upstreamConn                             // free, see takeStream

	connsPerTarget, waitersMax int

	lane       store.Lane
	deliveries session.Env     // for deliveries of stored requests
	muxes      mux.Env         // for connections of HTTP/2 from clients,
	lending    mux.UpstreamEnv // and to targets
	behind     []*http2Conn    // have streams that wait for connections to targets, see http2Conn.begin
	turns      *loop.Alarm     // rings when the first of them may begin some; made when first needed
	http2      http2Counts
	protocols  [protocols]metric.Counter // finished requests by protocol
	local      store.Lane                // nil if there are no deliveries
}

func newLoopServer(f *Server, l *loop.Loop, connsPerTarget int) *loopServer {
	s := &loopServer{shared: f, classes: f.classes.NewLoop(), routes: f.routes.NewLoopClassifier(), loop: l,
		counts: report.NewLoopCounters(), refusals: report.NewRecentDecisions[report.RefusedRequest](f.cfg.DecisionsPerLoop),
		connsPerTarget: connsPerTarget, waitersMax: cmp.Or(f.cfg.WaitersPerLoop, waitersMax)}
	probeMax := f.cfg.Session.TargetTimeout + f.cfg.Session.ConnectTimeout
	if f.cfg.Gate.Mode == gate.On {
		s.sheds = report.NewRecentDecisions[report.ShedRequest](f.cfg.DecisionsPerLoop)
	}
	s.targets = upstream.NewBalancer(f.cfg.Balance, probeMax, inFlightOf,
		rand.New(rand.NewPCG(uint64(l.Index()), cmp.Or(f.cfg.Seed, rand.Uint64()))))
	s.targets.Bound((*target).room)
	s.queue = upstream.NewQueue[occupant](s.waitersMax, s.look)
	s.queue.Waits(f.cfg.Gate.WaitMax, cmp.Or(f.cfg.Gate.SLO, upstream.TolerableWait))
	s.queue.JoinSet(f.queues, l.Index())
	f.connsPerTarget += connsPerTarget
	s.publish()
	s.lane = lane.ForLoop(f.cfg.Store, l)
	s.tally = f.Tally.NewShard(s.lane.Ask)
	s.env = session.Env{Settings: &f.cfg.Session, Env: exchange.Env{Policy: f.cfg.Policy, Pages: f.cfg.Pages, Ask: s.ask,
		Sheds: s.sheds != nil, Overloaded: f.memory.Refuses, Refused: s.refused, Random: s.refusals.Random()}}
	s.muxes = mux.Env{Exchange: &s.env.Env, Settings: &f.cfg.HTTP2.Settings, EndOf: s.env.EndOf}
	s.lending.Settings = &f.cfg.TargetHTTP2
	s.env.Env.Settings = &s.env.Settings.Settings
	s.setDeferring()
	if w := f.cfg.Access.Writer; w != nil {
		s.access = &accessSide{AccessLog: &f.cfg.Access, ring: w.Ring(l.Index())}
	}
	return s
}

// drainPart is over which part of DRAIN_GRACE, or of DRAIN_TIMEOUT if that is shorter, the announcements to the clients
// of HTTP/2 are spread: 1/drainPart. The rest is left to those that are told last.
const drainPart = 2

func (s *loopServer) drain(now time.Time) {
	s.draining = true
	spread := min(s.shared.cfg.HTTP2.DrainGrace, s.shared.cfg.DrainTimeout) / drainPart
	s.loop.Each(func(_ *loop.Conn, h loop.Handler) {
		switch h := h.(type) {
		case *connection:
			h.s.HandleDrain(now)
			h.arm()
		case *http2Conn:
			h.drain(now, s.env.Part(spread))
		}
	})
}

// askOwn passes a request to an own endpoint, which answers off the loop.
func (c *client) askOwn(now time.Time, r *exchange.OwnRequest) {
	l, raw := c.server.loop, append(session.AppendRequest(nil, r.Request, ""), r.Body...)
	remote, local := c.peer.addrs()
	asked := c.server.shared.handlers.Submit(raw, service.Addrs{Remote: remote, Local: local, Client: r.From},
		func(r service.Response) {
			l.Post(func(now time.Time) { c.answerOwn(now, r) })
		})
	if !asked {
		c.answerOwn(now, service.Overloaded())
	}
}

func (c *client) answerOwn(now time.Time, r service.Response) {
	if c.closed {
		return
	}
	c.x.HandleOwn(now, (*exchange.OwnResponse)(&r))
	c.apply(now)
}
