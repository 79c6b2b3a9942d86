package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"

	"golang.org/x/net/netutil"

	"weir/internal/program/service"
	"weir/proxy/control/admin"
	"weir/proxy/rules/tally"
	"weir/proxy/store"
	"weir/proxy/wire"
)

// metricsConnsMax bounds the connections of PROMETHEUS_ADDR, and so the answers in progress. Further ones wait in the
// queue of the socket.
const metricsConnsMax = 64

// serve starts the server with its own endpoints, metrics and health.
func (p *proxy) serve(ctx context.Context, access wire.AccessLog) error {
	c, log := p.config, p.Logger("Proxy")
	w := wire.Config{Store: p.store, Local: p.local, Access: access}
	var err error
	if w.Targets, err = p.targets.make(p.targets.list()); err != nil {
		return err
	}
	pair, err := keepPair(ctx, p.Env, dataPair(c))
	if err != nil {
		return err
	}
	overTLS, plain := c.HTTP2Used()
	if w.HTTP2 = (wire.HTTP2Config{Settings: c.HTTP2(), PriorKnowledge: plain}); pair != nil {
		if w.Secure = pair.Config(); overTLS {
			w.Secure = pair.HTTP2()
		}
	}
	w.Sockets, w.Session, w.Loop, w.Log = p.socks.data, c.Session(), c.Loop(), p.Logger("RateLimiter")
	w.GateLog = p.Logger("Gate")
	w.Balance, w.TargetConnsMax, w.StreamShare = c.Balance, c.TargetConnsMax, c.StreamShare
	w.Gate = c.Gate
	w.TargetIdle, w.TargetAge, w.TargetHTTP2 = c.TargetIdle, c.TargetAge, c.TargetHTTP2()
	w.MemoryBudget = c.Server.MemoryBudget
	w.Roster = c.Server.Roster
	if len(c.Targets) > 0 {
		w.Roster.Reachable = p.Health.SetReady
	}
	w.DrainTimeout, w.Policy, w.Pages = c.DrainTimeout, p.policies.Policy, p.templates.Pages()
	w.Loop.Panicked = func(value any, stack []byte) {
		log.Error("A connection was closed because of a bug in the proxy", "fault", fmt.Sprint(value), "stack", string(stack))
	}
	var own *service.Endpoints
	w.Own = func(server *wire.Server) *service.Endpoints {
		p.server, p.adaptive = server, p.newAdaptive(server)
		own = p.endpoints()
		return own
	}
	w.Finish = p.closeDeferral
	if p.deferral != nil {
		w.Defer, w.LookUp = p.deferral.Accept, p.deferral.LookUp
	}
	if _, err = wire.Start(w); err != nil {
		return err
	}
	p.startDeferral()
	ctx, p.socks.stopAdmin = context.WithCancel(ctx)
	if l := p.socks.admin; l != nil {
		if w.Secure != nil && c.Server.AdminTLS {
			l = tls.NewListener(l, w.Secure)
		}
		go serveAdmin(ctx, p.Env, "ADMIN_PORT", l, own.ForOperators())
	}
	if l := p.socks.metrics; l != nil {
		go serveAdmin(ctx, p.Env, "PROMETHEUS_ADDR", netutil.LimitListener(l, metricsConnsMax),
			own.Metrics(c.Server.MetricsPath))
	}
	p.report()
	p.Health.SetReady(true)
	return nil
}

// report registers metrics, the parts of the health report, and what SIGHUP reads again.
func (p *proxy) report() {
	p.limits.RegisterMetrics(p.Metrics)
	p.rules.RegisterMetrics(p.Metrics)
	p.adaptive.RegisterMetrics(p.Metrics)
	p.server.Register(p.Metrics)
	p.registerReloads()
	p.Health.Component("rules", func() any { return p.rules.Health() })
	p.Health.Component("store", func() any { return admin.StoreHealth(p.store) })
	if p.perSecond != nil {
		p.Health.Component("storePerSecond", func() any { return admin.StoreHealth(p.perSecond) })
	}
	if len(p.config.Targets) > 0 {
		p.Health.Component("targets", func() any { return admin.TargetsHealth(p.server.Targets.Up()) })
	}
}

// endpoints returns the proxy's own endpoints.
func (p *proxy) endpoints() *service.Endpoints {
	own := service.NewEndpoints(p.Env)
	p.limits.Register(own)
	p.rules.Register(own)
	p.adaptive.Register(own)
	admin.RegisterReload(own, p.limits, p.rules)
	(&admin.Keys{Set: p.rules.Set, HalfLife: tally.KeysHalfLife, Store: keyStore{p.server, p.store}}).Register(own)
	admin.RegisterDecisions(own, func(id string) (any, bool) {
		if decision, ok := p.server.Recall(id); ok || p.port == nil {
			return decision, ok
		}
		return p.port.Recall(id)
	})
	if p.deferral != nil {
		p.deferral.RegisterEndpoints(own)
	}
	own.HandleFunc("GET /rlconfig", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if p.descriptors != nil {
			_, _ = w.Write(p.descriptors.Domains().AppendText(nil))
		}
	})
	(&admin.Targets{
		None:    len(p.targets.settings) == 0,
		Status:  func() any { return p.server.Targets.Status() },
		Gates:   func(target string, limit int) any { return p.server.Gates.Report(target, limit) },
		Replace: func(urls []string) (int, error) { return p.targets.replace(p.server, urls) },
	}).Register(own)
	return own
}

// A keyStore shows and edits the state of single keys.
type keyStore struct {
	*wire.Server
	store.Store
}

// serveAdmin serves own endpoints on a port of their own, which the setting names, until ctx ends.
func serveAdmin(ctx context.Context, e *service.Env, setting string, l net.Listener, own http.Handler) {
	log := e.Logger("Admin")
	if err := service.Serve(ctx, l, own, log); err != nil {
		log.Error("The port is closed", "setting", setting, "addr", l.Addr(), "error", err)
	}
}
