package main

import (
	"context"
	"sync/atomic"
	"time"

	"weir/internal/program/metric"
	"weir/internal/program/service"
	"weir/proxy/ask/port"
	"weir/proxy/config"
	"weir/proxy/control/adaptive"
	"weir/proxy/control/admin"
	"weir/proxy/limit"
	"weir/proxy/store"
	"weir/proxy/store/postgres"
	"weir/proxy/store/redis"
	"weir/proxy/store/remote"
	"weir/proxy/store/simredis"
	"weir/proxy/wire"
	"weir/proxy/wire/delivery"
)

// A sharedStore is a store that other proxies use as well.
type sharedStore interface {
	store.Store
	Misconfigured() error
	Register(set *metric.Set)
}

// connect returns the store that decides: Redis, PostgreSQL or a master if the settings
// name one, otherwise the local store, which also serves STORE_FAILURE_MODE=local. A
// shared store may be unavailable at first; until it is reached, STORE_FAILURE_MODE
// applies. A store that cannot be used as configured is an error, unless STORE_START says
// otherwise.
func (p *proxy) connect() (store.Store, error) {
	c, local := p.config, p.local
	local.RegisterKeys(p.Metrics)
	var shared sharedStore
	var err error
	switch {
	case c.UsesRemote():
		shared, err = open(c.Remote, remote.New, func(cfg *remote.Config) { cfg.Local, cfg.Log = local, p.Logger("RemoteStore") })
	case c.UsesPostgres():
		shared, err = open(c.Postgres, postgres.New, func(cfg *postgres.Config) { cfg.Local, cfg.Log = local, p.Logger("PostgresClient") })
	case c.UsesRedis():
		shared, err = open(c.Redis, redis.New, func(cfg *redis.Config) { cfg.Local, cfg.Log = local, p.Logger("RedisClient") })
	default:
		local.Register(p.Metrics)
		return local, nil
	}
	if err != nil {
		return nil, err
	}
	if err := c.StoreStart(shared.Misconfigured()); err != nil {
		shared.Close()
		return nil, err
	}
	shared.Register(p.Metrics)
	return shared, nil
}

// open opens a shared store with its settings, which complete completes.
func open[C any, S sharedStore](settings func() (C, error), start func(C) (S, error), complete func(*C)) (sharedStore, error) {
	cfg, err := settings()
	if err != nil {
		return nil, err
	}
	complete(&cfg)
	return start(cfg)
}

// ruleFiles returns the files of rules and clients.
func ruleFiles(c *config.Config, templates *admin.Templates) admin.RuleFiles {
	files := admin.RuleFiles{Rules: c.Rules.File, Clients: c.Rules.ClientsFile, Options: c.RuleOptions()}
	if templates != nil {
		files.Options.HasTemplate = templates.Has
	}
	return files
}

// syncPause is the time between two comparisons of the limit configuration with the
// store.
const syncPause = 500 * time.Millisecond

// A proxy is everything that run sets up.
type proxy struct {
	*service.Env
	config    *config.Config
	store     store.Store     // makes the decisions
	local     *simredis.Store // the same without a shared store
	limits    *admin.Limits
	rules     *admin.Rules
	policies  *admin.Policies
	targets   *targets
	templates *admin.Templates
	socks     *sockets
	port      *port.Port           // nil without DECISION_PORT
	deferral  *delivery.Dispatcher // nil without DEFER_URL
	limitFrom func() string        // says where the limit of the settings comes from
	finish    time.Duration        // how long deliveries may take to finish when the proxy ends
	front     *wire.Front          // nil until serve
	adaptive  *adaptive.Adaptive   // follows the advisor; nil until serve
}

// shared reports whether other proxies use the store as well. If not, its documents end with
// this process.
func (p *proxy) shared() bool { return p.store != p.local }

// registerReloads makes SIGHUP read these again: templates of refusals, the CA files of targets, and
// rules, clients and limits that come from files or from a store that other proxies write to.
func (p *proxy) registerReloads() {
	c, shared := p.config, p.shared()
	if c.Templates != "" { // before the rules, which refer to templates
		p.OnReload(p.templates.Reload, "templates")
	}
	var parts []string
	if c.Rules.File != "" || shared {
		parts = append(parts, "rules")
	}
	if c.Rules.ClientsFile != "" {
		parts = append(parts, "clients")
	}
	if parts != nil {
		p.OnReload(func() error { return p.rules.Reload(time.Now()) }, parts...)
	}
	if shared {
		p.OnReload(func() error { _, err := p.limits.Reload(time.Now()); return err }, "limits")
	}
	if c.Edge.CAFile != "" {
		p.OnReload(func() error { return p.targets.reload(p.front) }, "certificates")
	}
}

// keepConfiguration loads the global limit and the rules, and follows changes in the
// store and the files until ctx ends.
func (p *proxy) keepConfiguration(ctx context.Context) (err error) {
	s := p.store
	if p.limits, err = admin.NewLimits(time.Now(), p.config.Limit, s, p.Logger); err != nil {
		return err
	}
	if p.rules, err = admin.NewRules(time.Now(), ruleFiles(p.config, p.templates), s, p.Logger); err != nil {
		return err
	}
	p.policies = &admin.Policies{Limits: p.limits, Rules: p.rules}
	p.limits.InMemory, p.rules.InMemory = !p.shared(), !p.shared()
	p.limits.OnChange, p.rules.OnChange = s.Forgetful, s.Forgetful
	p.limitFrom = p.impliedLimit()
	p.limits.Share(ctx, s, syncPause)
	p.rules.Share(ctx, s, syncPause)
	return nil
}

// impliedLimit keeps the global limit that is in force if the settings say nothing about it: that of the
// master, and without one none as long as rules or descriptors limit something. It returns what says where
// the limit of the settings comes from. It is called before anything changes.
func (p *proxy) impliedLimit() (from func() string) {
	c := p.config
	switch {
	case c.LimitGiven():
		return func() string { return "settings" }
	case c.UsesRemote():
		return p.masterLimit()
	}
	limits := func() bool { return p.rules.Set().Len() > 0 || c.RateLimit.Config != "" }
	apply := func() {
		cfg := c.Limit
		if limits() {
			cfg.Algorithm = limit.Off
		}
		_ = p.limits.Default(cfg) // it is valid
	}
	p.rules.OnChange = func() {
		p.store.Forgetful()
		apply()
	}
	apply()
	return func() string {
		if limits() {
			return "none, since there are rules or descriptors"
		}
		return "default"
	}
}

// masterLimit follows the limit in force at the master.
func (p *proxy) masterLimit() (from func() string) {
	var known atomic.Bool
	take := func(doc store.Document) {
		if doc.Version == 0 {
			return // an older master
		}
		cfg, err := admin.ReadLimit(doc)
		if err == nil {
			err = p.limits.Default(cfg)
		}
		if err != nil {
			p.Logger("RemoteStore").Warn("The limit of the master is ignored", "reason", err)
			return
		}
		known.Store(true)
	}
	if doc, err := p.store.Read(port.LimitName); err == nil {
		take(doc)
	}
	p.store.Watch(port.LimitName, take)
	return func() string {
		if known.Load() {
			return "master"
		}
		return "default, until the master is reached"
	}
}
