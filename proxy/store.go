package main

import (
	"weir/internal/program/metric"
	"weir/proxy/rules/keys"
	"weir/proxy/store"
	"weir/proxy/store/postgres"
	"weir/proxy/store/redis"
	"weir/proxy/store/remote"
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
		shared, err = open(c.Remote, remote.New, func(cfg *remote.Config) {
			cfg.Local, cfg.ShowKey, cfg.Log = local, keys.AppendRedacted, p.Logger("RemoteStore")
		})
	case c.UsesPostgres():
		shared, err = open(c.Postgres, postgres.New, func(cfg *postgres.Config) {
			cfg.Local, cfg.ShowKey, cfg.Log = local, keys.AppendRedacted, p.Logger("PostgresClient")
		})
	case c.UsesRedis():
		shared, err = p.openRedis(c.Redis, "RedisClient")
	default:
		local.Register(p.Metrics)
		return local, nil
	}
	if err != nil {
		return nil, err
	}
	if err := c.StoreStartError(shared.Misconfigured()); err != nil {
		shared.Close()
		return nil, err
	}
	shared.Register(p.Metrics)
	return shared, nil
}

// openRedis opens a store in Redis, whose log lines have that name.
func (p *proxy) openRedis(settings func() (redis.Config, error), name string) (sharedStore, error) {
	return open(settings, redis.New, func(cfg *redis.Config) {
		cfg.Local, cfg.ShowKey, cfg.Log = p.local, keys.AppendRedacted, p.Logger(name)
	})
}

// connectPerSecond returns the store for limits per second of Envoy's rate limit service; nil: there is no second one.
func (p *proxy) connectPerSecond() (store.Store, error) {
	c := p.config
	if !c.UsesPerSecond() {
		return nil, nil
	}
	second, err := p.openRedis(c.RedisPerSecond, "RedisPerSecond")
	if err != nil {
		return nil, err
	}
	if err := c.PerSecondStartError(second.Misconfigured()); err != nil {
		second.Close()
		return nil, err
	}
	second.Register(p.Metrics.With("store", "persecond"))
	return second, nil
}

// closeStores closes the stores that connect and connectPerSecond have returned.
func (p *proxy) closeStores() {
	if p.shared() {
		p.store.Close()
	}
	if p.perSecond != nil {
		p.perSecond.Close()
	}
}

// forgetRefusals is called after every change of limits for Envoy's rate limit service.
func (p *proxy) forgetRefusals() {
	p.store.ForgetRefusals()
	if p.perSecond != nil {
		p.perSecond.ForgetRefusals()
	}
}

// open opens a shared store with its settings, which complete completes.
func open[C any, S sharedStore](settings func() (C, error), start func(C) (S, error),
	complete func(*C)) (sharedStore, error) {
	cfg, err := settings()
	if err != nil {
		return nil, err
	}
	complete(&cfg)
	return start(cfg)
}
