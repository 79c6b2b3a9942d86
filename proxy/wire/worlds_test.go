package wire

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/net/loop"
	"weir/internal/program/metric"
	"weir/internal/program/service"
	"weir/proxy/deferred"
	"weir/proxy/http/exchange"
	"weir/proxy/store"
	"weir/proxy/targets/gates"
	"weir/proxy/targets/roster"
	"weir/proxy/targets/upstream"
	"weir/proxy/wire/wiretest"
)

var (
	simSeed   = flag.Uint64("sim-seed", 0, "play the world of this seed only")
	simEvents = flag.Int("sim-events", 25_000, "events of each world")
	simWorlds = flag.Int("sim-worlds", 60, "how many worlds, of the seeds 1, 2, …")
)

// TestWorlds plays worlds around a proxy until something does not hold.
//
//	go test ./proxy/wire -run Worlds -sim-seed 7 -sim-events 25000
func TestWorlds(t *testing.T) {
	all := wiretest.Tally{Seen: make(map[string]int), Statuses: make(map[int]int)}
	first, last := uint64(1), uint64(*simWorlds)
	if *simSeed > 0 {
		first, last = *simSeed, *simSeed
	}
	for seed := first; seed <= last && !t.Failed(); seed++ {
		saw := playWorld(t, seed, *simEvents)
		all.Add(&saw)
	}
	t.Log(&all)
	if *simSeed == 0 {
		sawAll(t, &all)
	}
}

// playWorld plays the world of a seed.
func playWorld(t *testing.T, seed uint64, events int) (saw wiretest.Tally) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w, err := wiretest.New(seed)
		if err != nil {
			t.Fatal(err)
		}
		p := &inWorld{w: w, watched: make(map[*connection]*watcher), left: make(map[*upstreamConn]bool)}
		w.Await(func() { p.Server, err = Start(p.config()) })
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range p.loops {
			p.listenIn(s)
		}
		if err := w.Play(p, events); err != nil {
			t.Errorf("seed %d, %v\nagain: go test ./proxy/wire -run Worlds -sim-seed %d -sim-events %d", seed, err, seed, events)
		}
		w.Await(func() {
			p.Server.Drain(t.Context())
			w.Store.Close()
		})
		saw = w.Tally
	})
	return saw
}

// sawAll fails when something that the worlds are for did not happen in them.
func sawAll(t *testing.T, all *wiretest.Tally) {
	for _, what := range []string{
		"answers of targets", "answers of the proxy's own", "answers cut off", "requests refused",
		"requests stored", "requests stored whose client had left", "requests not stored", "requests sent again",
		"tunnels", "streams", "trailers", "sides that took nothing", "logins", "private connections", "requests given back",
		"waits for a place", "last pieces that waited", "requests whose client left the target to work",
		"connections used again after their client left"} {
		if n := all.Seen[what]; n < 10 {
			t.Errorf("only %d %s in %d events", n, what, all.Events)
		}
	}
	for _, status := range []int{101, 200, 202, 204, 304, 400, 405, 408, 413, 417, 429, 500, 502, 503, 504, 508} {
		if all.Statuses[status] == 0 {
			t.Errorf("not one outcome of status %d in %d events", status, all.Events)
		}
	}
}

// A world is its seed's: played twice it is the same.
func TestSameSeedSameWorld(t *testing.T) {
	for seed := range uint64(4) {
		first, second := playWorld(t, seed+1, 5000), playWorld(t, seed+1, 5000)
		if first.String() != second.String() {
			t.Errorf("the same seed gave\n%s\n%s", &first, &second)
		}
	}
}

// An inWorld is the proxy of a world.
//
// Owned by the goroutine of its world.
type inWorld struct {
	*Server
	w       *wiretest.World
	watched map[*connection]*watcher // the open connections,
	order   []*watcher               // in their order
	targets []*target                // of all loops, also those that have left the list
	left    map[*upstreamConn]bool   // those that have carried an abandoned exchange
}

// config returns the configuration for the world.
func (p *inWorld) config() Config {
	w := p.w
	return Config{
		Loop: loop.Config{System: w.Kernel, Loops: w.Profile.Loops, ConnectionsMax: 1000, InboundMax: 4 << 10,
			OutboundMax: 4 << 10, Panicked: func(v any, stack []byte) { w.Fail("panic: %v\n%s", v, stack) }},
		Sockets: []net.Listener{w.Listener}, Session: w.Settings,
		Targets: w.Targets(), Roster: roster.Config{Dial: probe},
		Balance: w.Profile.Balance, Seed: w.Profile.Seed, TargetConnsMax: w.Profile.Conns, WaitersPerLoop: w.Profile.Waiters,
		StreamShare: w.Profile.StreamShare, TargetIdle: 30 * time.Second,
		Gate:   gates.Settings{Mode: w.Profile.Gate, Wait: 500 * time.Millisecond},
		Policy: w.Policy, Store: w.Store, Defer: p.store, LookUp: p.lookUp,
		Own: p.own, Log: slog.New(slog.DiscardHandler), GateLog: slog.New(slog.DiscardHandler), DecisionsPerLoop: 64,
	}
}

// probe is that of the roster, which is not what the worlds are about.
func probe(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("not reachable")
}

// own makes the own endpoints.
func (p *inWorld) own(*Server) *service.Endpoints {
	own := service.NewEndpoints(&service.Env{Guard: &service.AccessGuard{Open: true}, Health: new(service.Health),
		Metrics: metric.New()})
	for _, pattern := range []string{"GET /config/limits", "POST /config/limits"} {
		own.HandleFunc(pattern, p.w.Own)
	}
	return own
}

// store stores a request in the world's queue.
func (p *inWorld) store(_ time.Time, k *exchange.DeferredRequest, from *exchange.ClientInfo,
	stored func(deferred.PutResult)) {
	p.w.Defer(k, stored, from.Owner.(*client).server.loop.Post)
}

// lookUp finds nothing.
func (p *inWorld) lookUp(_ time.Time, _ *exchange.DeferredRequest, known func(bool)) {
	p.w.After(p.w.Within(10*time.Millisecond), func() { known(false) })
}

// listenIn has the world know which connection asks the store.
func (p *inWorld) listenIn(s *loopServer) {
	ask := s.env.Ask
	s.env.Ask = func(now time.Time, x *exchange.Exchange, a *store.Ask, ans *store.Answer) bool {
		c := x.Owner.(*client)
		if f := p.front(c); f != nil {
			f.Asks(c.closed)
		}
		return ask(now, x, a, ans)
	}
}

// front returns what the world knows of a client.
func (p *inWorld) front(c *client) *wiretest.ClientView {
	if w, ok := c.peer.(*watcher); ok {
		return w.front
	}
	p.w.Fail("a client is not watched")
	return nil
}

// SetTargets implements wiretest.Proxy, as do the following.
func (p *inWorld) SetTargets(list []*roster.Target) { go p.Targets.Set(list) }

// Checked is described at wiretest.Proxy.
func (p *inWorld) Checked(spec *roster.Target, up bool) {
	checkResult, recheck := upstream.CheckedDown, time.Second
	if up {
		checkResult, recheck = upstream.CheckedUp, 0
	}
	p.loops.Checked(spec, checkResult, recheck)
}

// Drain is described at wiretest.Proxy.
func (p *inWorld) Drain(drains bool) {
	for _, s := range p.loops {
		s.loop.Post(func(now time.Time) {
			if s.draining = drains; drains {
				s.drain(now)
			}
		})
	}
}

// Short is described at wiretest.Proxy.
func (p *inWorld) Short(short bool, some func() bool) {
	p.memory.Shedding.Store(short)
	if some == nil {
		return
	}
	for _, s := range p.loops {
		s.loop.Post(func(now time.Time) {
			s.loop.Each(func(_ *loop.Conn, h loop.Handler) {
				if c, ok := h.(*connection); ok && some() {
					c.shedHeld(now)
				}
			})
		})
	}
}
