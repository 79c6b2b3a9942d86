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
	limits, err := admin.NewLimits(time.Now(), c.Limit, new(simredis.Documents), e.Logger)
	if err != nil {
		return err
	}
	own := func(front *wire.Front) http.Handler {
		mux := service.Endpoints(e)
		limits.Register(mux)
		admin.RegisterDecisions(mux, func(id string) (any, bool) { return front.Recall(id) })
		return service.JSONErrors(mux)
	}
	loops := c.Loop()
	log := e.Logger("Proxy")
	loops.Panicked = func(value any, stack []byte) {
		log.Error("A fault of the proxy closed a connection", "fault", fmt.Sprint(value), "stack", string(stack))
	}
	front, err := wire.Start(wire.Config{
		Addr: e.Addr, Loop: loops, Session: c.Session(),
		Targets: c.Targets, Balance: c.Balance, TargetConnsMax: c.TargetConnsMax, TargetIdle: c.TargetIdle,
		DrainTimeout: c.DrainTimeout, Policy: limits.Policy, Table: table,
		Own: own, Log: e.Logger("RateLimiter"),
	})
	if err != nil {
		return err
	}
	limits.RegisterMetrics(e.Metrics)
	front.Register(e.Metrics)
	e.Health.Component("store", func() any { return map[string]string{"status": "UP", "mode": "simulated"} })
	e.Health.Component("targets", func() any { return map[string]any{"status": "UP", "count": len(c.Targets)} })
	e.Health.SetReady(true)
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
