package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"

	"weir/internal/service"
	"weir/proxy/admin"
	"weir/proxy/config"
	"weir/proxy/gates"
	"weir/proxy/roster"
	"weir/proxy/store"
	"weir/proxy/tally"
	"weir/proxy/wire"
)

// serve starts the front with its own endpoints, metrics and health.
func serve(ctx context.Context, e *service.Env, c *config.Config, socks *sockets, w wire.Config, cfg *configuration) (*wire.Front, error) {
	log := e.Logger("Proxy")
	var err error
	if w.Targets, err = cfg.targets.start(); err != nil {
		return nil, err
	}
	pair, err := keepPair(ctx, e, dataPair(c))
	if err != nil {
		return nil, err
	}
	if pair != nil {
		w.Secure = pair.Config()
	}
	w.Sockets, w.Session, w.Loop, w.Log = socks.data, c.Session(), c.Loop(), e.Logger("RateLimiter")
	w.GateLog = e.Logger("Gate")
	w.Balance, w.TargetConnsMax, w.StreamShare = c.Balance, c.TargetConnsMax, c.StreamShare
	w.Gate = gates.Settings(c.Gate)
	w.TargetIdle, w.TargetAge = c.TargetIdle, c.TargetAge
	w.MemoryBudget = c.Edge.MemoryBudget
	w.Roster = roster.Config{CheckPath: c.Edge.HealthPath, CheckInterval: c.Edge.HealthInterval, LookupInterval: c.Edge.LookupInterval,
		Named: c.Edge.AdminPort != 0, Reachable: readiness(e, c)}
	w.DrainTimeout, w.Policy, w.Pages = c.DrainTimeout, cfg.policies.Policy, cfg.templates.Pages()
	w.Loop.Panicked = func(value any, stack []byte) {
		log.Error("A connection was closed because of a bug in the proxy", "fault", fmt.Sprint(value), "stack", string(stack))
	}
	var own *service.Endpoints
	w.Own = func(front *wire.Front) *service.Endpoints {
		cfg.adaptive = newAdaptive(e, c, cfg, front)
		own = endpoints(e, cfg, front)
		return own
	}
	w.Defer, w.Finish = cfg.accept(), cfg.closeDeferral
	front, err := wire.Start(w)
	if err != nil {
		return nil, err
	}
	cfg.startDeferral(e, front)
	if socks.admin != nil {
		l := socks.admin
		if w.Secure != nil && c.Edge.AdminTLS {
			l = tls.NewListener(l, w.Secure)
		}
		ctx, stop := context.WithCancel(ctx)
		socks.stopAdmin = stop
		go serveAdmin(ctx, e, l, own)
	}
	cfg.limits.RegisterMetrics(e.Metrics)
	cfg.rules.RegisterMetrics(e.Metrics)
	cfg.adaptive.RegisterMetrics(e.Metrics)
	front.Register(e.Metrics)
	cfg.onReload(e, c, front)
	e.Health.Component("rules", func() any { return cfg.rules.Health() })
	e.Health.Component("store", func() any { return admin.StoreHealth(cfg.store) })
	reportTargets(e, c, front)
	e.Health.SetReady(true)
	return front, nil
}

// readiness returns the function to call when it changes whether any target can be reached, or
// nil if there are no targets.
func readiness(e *service.Env, c *config.Config) func(bool) {
	if len(c.Targets) == 0 {
		return nil
	}
	return e.Health.SetReady
}

// reportTargets adds the state of the targets to the health report, if there are any.
func reportTargets(e *service.Env, c *config.Config, front *wire.Front) {
	if len(c.Targets) > 0 {
		e.Health.Component("targets", func() any { return admin.TargetsHealth(front.Targets.Up()) })
	}
}

// endpoints returns the proxy's own endpoints.
func endpoints(e *service.Env, cfg *configuration, front *wire.Front) *service.Endpoints {
	own := service.NewEndpoints(e)
	cfg.limits.Register(own)
	cfg.rules.Register(own)
	cfg.adaptive.Register(own)
	admin.RegisterReload(own, cfg.limits, cfg.rules)
	(&admin.Keys{Set: cfg.rules.Set, HalfLife: tally.KeysHalfLife, Store: keyStore{front, cfg.store}}).Register(own)
	admin.RegisterDecisions(own, func(id string) (any, bool) {
		if decision, ok := front.Recall(id); ok || cfg.port == nil {
			return decision, ok
		}
		return cfg.port.Recall(id)
	})
	if cfg.deferral != nil {
		cfg.deferral.RegisterEndpoints(own)
	}
	(&admin.Targets{
		None:    len(cfg.targets.settings) == 0,
		Status:  func() any { return front.Targets.Status() },
		Gates:   func(target string, limit int) any { return front.Gates.Report(target, limit) },
		Replace: func(urls []string) (int, error) { return cfg.targets.replace(front, urls) },
	}).Register(own)
	return own
}

// A keyStore shows and edits the state of single keys.
type keyStore struct {
	*wire.Front
	store.Store
}

// serveAdmin serves the own endpoints on the admin port until ctx ends.
func serveAdmin(ctx context.Context, e *service.Env, l net.Listener, own http.Handler) {
	log := e.Logger("Admin")
	if err := service.Serve(ctx, l, own, log); err != nil {
		log.Error("The admin port is closed", "error", err)
	}
}
