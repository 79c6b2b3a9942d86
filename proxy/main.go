// Proxy is a rate-limiting HTTP proxy: it lets through to the targets what
// their limits allow and answers 429 to the rest.
package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"weir/internal/service"
	"weir/proxy/admin"
	"weir/proxy/config"
	"weir/proxy/store/redis"
	"weir/proxy/store/simredis"
	"weir/proxy/wire"
)

func main() {
	var c config.Config
	service.Main(service.Program{
		Name: "proxy", LogName: "Proxy", About: "a rate-limiting HTTP proxy", Port: 8082,
		Settings: c.Register,
		Run:      func(ctx context.Context, e *service.Env) error { return run(ctx, e, &c) },
	})
}

// run serves until ctx ends, then drains.
func run(ctx context.Context, e *service.Env, c *config.Config) error {
	if err := c.Complete(); err != nil {
		return err
	}
	table, err := simredis.New(simredis.Config{KeysMax: c.KeysMax})
	if err != nil {
		return err
	}
	shared, err := connect(e, c, table)
	if err != nil {
		return err
	}
	if shared != nil {
		defer shared.Close()
	}
	limits, err := keepLimits(ctx, e, c, shared)
	if err != nil {
		return err
	}
	front, err := serve(e, c, wire.Config{Table: table, Redis: shared, Policy: limits.Policy}, limits)
	if err != nil {
		return err
	}
	log := e.Logger("Proxy")
	log.Info("Ready", "addr", front.Addr(), "targets", c.Targets)

	<-ctx.Done()
	e.Health.SetReady(false)
	log.Info("Draining")
	if cut := front.Drain(context.WithoutCancel(ctx)); cut > 0 {
		log.Warn("Connections were cut at the end of the drain timeout", "count", cut)
	}
	log.Info("Stopped")
	return nil
}

// connect returns the client of Redis, or nil when the settings name none.
// Redis may be away: it is waited for in the failure mode.
func connect(e *service.Env, c *config.Config, table *simredis.Table) (*redis.Client, error) {
	if !c.UsesRedis() {
		return nil, nil
	}
	cfg, err := c.Redis()
	if err != nil {
		return nil, err
	}
	cfg.Local, cfg.Log = table, e.Logger("RedisClient")
	return redis.New(cfg)
}

// syncPause is how often the limit configuration is held against the store.
const syncPause = 500 * time.Millisecond

// keepLimits holds the limit configuration, and holds it against the store
// until ctx ends.
func keepLimits(ctx context.Context, e *service.Env, c *config.Config, shared *redis.Client) (*admin.Limits, error) {
	if shared == nil {
		return admin.NewLimits(time.Now(), c.Limit, new(simredis.Documents), e.Logger)
	}
	limits, err := admin.NewLimits(time.Now(), c.Limit, shared, e.Logger)
	if err != nil {
		return nil, err
	}
	limits.OnChange = shared.Forgetful
	limits.Share(ctx, shared, syncPause)
	return limits, nil
}

// serve starts the front with its own endpoints, metrics and health.
func serve(e *service.Env, c *config.Config, w wire.Config, limits *admin.Limits) (*wire.Front, error) {
	log := e.Logger("Proxy")
	w.Addr, w.Session, w.Loop, w.Log = e.Addr, c.Session(), c.Loop(), e.Logger("RateLimiter")
	w.Targets, w.Balance, w.TargetConnsMax, w.TargetIdle = c.Targets, c.Balance, c.TargetConnsMax, c.TargetIdle
	w.DrainTimeout = c.DrainTimeout
	w.Loop.Panicked = func(value any, stack []byte) {
		log.Error("A fault of the proxy closed a connection", "fault", fmt.Sprint(value), "stack", string(stack))
	}
	w.Own = func(front *wire.Front) http.Handler {
		mux := service.Endpoints(e)
		limits.Register(mux)
		admin.RegisterDecisions(mux, func(id string) (any, bool) { return front.Recall(id) })
		return service.JSONErrors(mux)
	}
	w.Reachable = e.Health.SetReady
	front, err := wire.Start(w)
	if err != nil {
		return nil, err
	}
	limits.RegisterMetrics(e.Metrics)
	front.Register(e.Metrics)
	e.Health.Component("store", func() any { return admin.StoreHealth(w.Redis) })
	e.Health.Component("targets", func() any { return admin.TargetsHealth(front.TargetsUp()) })
	e.Health.SetReady(true)
	return front, nil
}
