package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	"weir/internal/certs"
	"weir/internal/service"
	"weir/proxy/admin"
	"weir/proxy/config"
	"weir/proxy/wire"
)

// serve starts the front with its own endpoints, metrics and health.
func serve(ctx context.Context, e *service.Env, c *config.Config, socks *sockets, w wire.Config, cfg *configuration) (*wire.Front, error) {
	log := e.Logger("Proxy")
	targets, err := newTargets(c)
	if err != nil {
		return nil, err
	}
	if w.Targets, err = targets.make(c.Targets); err != nil {
		return nil, err
	}
	pair, err := serverPair(c)
	if err != nil {
		return nil, err
	}
	if pair != nil {
		w.Secure = pair.Config()
		go followPair(ctx, e, pair)
	}
	w.Socket, w.Session, w.Loop, w.Log = socks.data, c.Session(), c.Loop(), e.Logger("RateLimiter")
	w.Balance, w.TargetConnsMax, w.TargetIdle = c.Balance, c.TargetConnsMax, c.TargetIdle
	w.CheckPath, w.CheckInterval, w.MemoryBudget = c.Edge.HealthPath, c.Edge.HealthInterval, c.Edge.MemoryBudget
	w.LookupInterval, w.NameTargets = c.Edge.LookupInterval, c.Edge.AdminPort != 0
	w.DrainTimeout, w.Policy = c.DrainTimeout, cfg.policies.Policy
	w.Loop.Panicked = func(value any, stack []byte) {
		log.Error("A fault of the proxy closed a connection", "fault", fmt.Sprint(value), "stack", string(stack))
	}
	var own *service.Endpoints
	w.Own = func(front *wire.Front) *service.Endpoints {
		cfg.adaptive = newAdaptive(e, c, cfg, front, w.Redis)
		own = endpoints(e, cfg, front, &w, targets)
		return own
	}
	w.Reachable = e.Health.SetReady
	front, err := wire.Start(w)
	if err != nil {
		return nil, err
	}
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
	e.Health.Component("store", func() any { return admin.StoreHealth(w.Redis) })
	e.Health.Component("targets", func() any { return admin.TargetsHealth(front.TargetsUp()) })
	e.Health.SetReady(true)
	return front, nil
}

// endpoints are the proxy's own.
func endpoints(e *service.Env, cfg *configuration, front *wire.Front, w *wire.Config, targets *targets) *service.Endpoints {
	own := service.NewEndpoints(e)
	cfg.limits.Register(own)
	cfg.rules.Register(own)
	cfg.adaptive.Register(own)
	admin.RegisterReload(own, cfg.limits, cfg.rules)
	(&admin.Keys{Set: cfg.rules.Set, HalfLife: front.KeysHalfLife(), Store: &keyStore{front, w.Table, w.Redis}}).Register(own)
	admin.RegisterDecisions(own, func(id string) (any, bool) { return front.Recall(id) })
	(&admin.Targets{
		Status:  func() any { return front.Targets() },
		Replace: func(urls []string) (int, error) { return targets.replace(front, urls) },
	}).Register(own)
	return own
}

// serveAdmin serves the own endpoints on a port of their own until ctx ends.
func serveAdmin(ctx context.Context, e *service.Env, l net.Listener, own http.Handler) {
	log := e.Logger("Admin")
	if err := service.Serve(ctx, l, own, log); err != nil {
		log.Error("The admin port is closed", "error", err)
	}
}

// serverPair reads the certificate of TLS_CERT and TLS_KEY, if there is one.
func serverPair(c *config.Config) (*certs.Pair, error) {
	if c.Edge.CertFile == "" {
		return nil, nil
	}
	pair, err := certs.Load(c.Edge.CertFile, c.Edge.KeyFile)
	if err != nil {
		return nil, &service.SettingError{Name: "TLS_CERT", Value: c.Edge.CertFile, Problem: err.Error(), Allowed: "a PEM certificate and, in TLS_KEY, its key"}
	}
	return pair, nil
}

// followPair reads the certificate again when its files change, until ctx ends.
func followPair(ctx context.Context, e *service.Env, pair *certs.Pair) {
	log := e.Logger("TLS")
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		switch changed, err := pair.Check(); {
		case err != nil:
			log.Warn("The certificate on disk is not usable, going on with the one before", "error", err)
		case changed:
			log.Info("Took the new certificate", "expires", pair.Expires())
		}
	}
}

// targets makes targets of URLs.
type targets struct {
	caFile, name string // of https targets; see certs.Client
}

// newTargets reads what https targets are trusted by.
func newTargets(c *config.Config) (*targets, error) {
	t := &targets{caFile: c.Edge.CAFile, name: c.Edge.ServerName}
	if _, err := certs.Client(t.caFile, ""); err != nil {
		return nil, &service.SettingError{Name: "TARGET_CA_FILE", Value: t.caFile, Problem: err.Error(), Allowed: "a PEM file of certificates"}
	}
	return t, nil
}

func (t *targets) make(list []config.Target) (made []*wire.Target, err error) {
	for _, one := range list {
		w := &wire.Target{URL: one.URL, Addr: one.Addr, Host: one.Host}
		if one.Secure {
			if w.Secure, err = certs.Client(t.caFile, cmp.Or(t.name, one.Name)); err != nil {
				return nil, err
			}
		}
		made = append(made, w)
	}
	return made, nil
}

// replace makes the front's targets those of the URLs.
func (t *targets) replace(front *wire.Front, urls []string) (int, error) {
	var list []config.Target
	for i, url := range urls {
		one, err := config.ParseTarget(url)
		if err != nil {
			return i, err
		}
		for _, before := range list {
			if before.URL == one.URL {
				return i, fmt.Errorf("%q is there twice", url)
			}
		}
		list = append(list, one)
	}
	made, err := t.make(list)
	if err != nil {
		return 0, err
	}
	front.SetTargets(made)
	return 0, nil
}

func urls(list []config.Target) (urls []string) {
	for _, t := range list {
		urls = append(urls, t.URL)
	}
	return urls
}
