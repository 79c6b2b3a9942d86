package main

import (
	"context"
	"time"

	"weir/internal/metric"
	"weir/internal/service"
	"weir/proxy/adaptive"
	"weir/proxy/admin"
	"weir/proxy/config"
	"weir/proxy/decision"
	"weir/proxy/delivery"
	"weir/proxy/rule"
	"weir/proxy/store"
	"weir/proxy/store/postgres"
	"weir/proxy/store/redis"
	"weir/proxy/store/remote"
	"weir/proxy/store/simredis"
	"weir/proxy/wire"
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
func connect(e *service.Env, c *config.Config, local *simredis.Store) (store.Store, error) {
	e.Metrics.Gauge("ratelimiter_store_keys", "keys in the simulated Redis", func() float64 { return float64(local.Keys()) })
	var shared sharedStore
	var err error
	switch {
	case c.UsesRemote():
		shared, err = open(c.Remote, remote.New, func(cfg *remote.Config) { cfg.Local, cfg.Log = local, e.Logger("RemoteStore") })
	case c.UsesPostgres():
		shared, err = open(c.Postgres, postgres.New, func(cfg *postgres.Config) { cfg.Local, cfg.Log = local, e.Logger("PostgresClient") })
	case c.UsesRedis():
		shared, err = open(c.Redis, redis.New, func(cfg *redis.Config) { cfg.Local, cfg.Log = local, e.Logger("RedisClient") })
	default:
		local.Register(e.Metrics)
		return local, nil
	}
	if err != nil {
		return nil, err
	}
	if err := c.StoreStart(shared.Misconfigured()); err != nil {
		shared.Close()
		return nil, err
	}
	shared.Register(e.Metrics)
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

// ruleSources returns the files of rules and clients, and the options for reading them.
func ruleSources(c *config.Config, templates *admin.Templates) (admin.RuleFiles, rule.Options) {
	options := c.RuleOptions()
	if templates != nil {
		options.HasTemplate = templates.Has
	}
	return admin.RuleFiles{Rules: c.Rules.File, Clients: c.Rules.ClientsFile}, options
}

// syncPause is the time between two comparisons of the limit configuration with the
// store.
const syncPause = 500 * time.Millisecond

// A configuration is everything that the proxy enforces.
type configuration struct {
	limits    *admin.Limits
	rules     *admin.Rules
	policies  *admin.Policies
	adaptive  *adaptive.Adaptive // follows the advisor; nil until the front exists
	targets   *targets
	templates *admin.Templates
	finish    time.Duration // how long deliveries may take to finish when the proxy ends
	store     store.Store
	port      *decision.Port       // nil without DECISION_PORT
	deferral  *delivery.Dispatcher // nil without DEFER_URL
}

// memory returns the documents of the simulated Redis, which end with this process. It is
// nil with a shared store.
func (cfg *configuration) memory() *simredis.Documents {
	if local, ok := cfg.store.(*simredis.Store); ok {
		return &local.Documents
	}
	return nil
}

// onReload makes SIGHUP read these again: templates of refusals, the CA files of targets, and
// rules, clients and limits that come from files or from a store that other proxies write to.
func (cfg *configuration) onReload(e *service.Env, c *config.Config, front *wire.Front) {
	shared := cfg.memory() == nil
	if c.Templates != "" { // before the rules, which refer to templates
		e.OnReload(cfg.templates.Reload, "templates")
	}
	var parts []string
	if c.Rules.File != "" || shared {
		parts = append(parts, "rules")
	}
	if c.Rules.ClientsFile != "" {
		parts = append(parts, "clients")
	}
	if parts != nil {
		e.OnReload(func() error { return cfg.rules.Reload(time.Now()) }, parts...)
	}
	if shared {
		e.OnReload(func() error { _, err := cfg.limits.Reload(time.Now()); return err }, "limits")
	}
	if c.Edge.CAFile != "" {
		e.OnReload(func() error { return cfg.targets.reload(front) }, "certificates")
	}
}

// keepConfiguration loads the global limit and the rules, and follows changes in the
// store and the files until ctx ends.
func keepConfiguration(ctx context.Context, e *service.Env, c *config.Config, s store.Store, templates *admin.Templates) (*configuration, error) {
	files, options := ruleSources(c, templates)
	limits, err := admin.NewLimits(time.Now(), c.Limit, s, e.Logger)
	if err != nil {
		return nil, err
	}
	rules, err := admin.NewRules(time.Now(), files, options, s, e.Logger)
	if err != nil {
		return nil, err
	}
	cfg := &configuration{limits: limits, rules: rules, policies: &admin.Policies{Limits: limits, Rules: rules}, store: s, templates: templates, finish: c.DrainTimeout}
	limits.InMemory, rules.InMemory = cfg.memory() != nil, cfg.memory() != nil
	limits.OnChange, rules.OnChange = s.Forgetful, s.Forgetful
	limits.Share(ctx, s, syncPause)
	rules.Share(ctx, s, syncPause)
	return cfg, nil
}
