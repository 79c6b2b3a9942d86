// Proxy is a rate-limiting HTTP proxy: it lets through to the targets what
// their limits allow and answers 429 to the rest.
package main

import (
	"cmp"
	"context"
	"time"

	"weir/internal/service"
	"weir/proxy/adaptive"
	"weir/proxy/admin"
	"weir/proxy/config"
	"weir/proxy/rule"
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
	e.Guard.Fronted = c.TrustsLoopback()
	c.Adaptive.Token = cmp.Or(c.Adaptive.Token, e.Guard.Token)
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
	cfg, err := keepConfiguration(ctx, e, c, shared)
	if err != nil {
		return err
	}
	socks, err := openSockets(ctx, e, c)
	if err != nil {
		return err
	}
	beside, stop := context.WithCancel(context.WithoutCancel(ctx)) // what goes on until nothing is left
	defer stop()
	front, err := serve(beside, e, c, socks, wire.Config{Table: table, Redis: shared}, cfg)
	if err != nil {
		socks.close()
		return err
	}
	return live(ctx, e, front, socks, cfg.adaptive, urls(c.Targets))
}

// live waits until ctx ends or a successor takes over, and drains.
func live(ctx context.Context, e *service.Env, front *wire.Front, socks *sockets, advised *adaptive.Adaptive, targets []string) error {
	log := e.Logger("Proxy")
	socket, err := front.Socket()
	if err != nil {
		return err
	}
	taken, withdraw, err := socks.offer(e, socket)
	if err != nil {
		front.Drain(ctx)
		return err
	}
	log.Info("Ready", "addr", front.Addr(), "targets", targets)
	leave := follow(ctx, advised)
	select {
	case <-ctx.Done():
		withdraw()
	case <-taken:
		log.Info("A successor has taken the port over")
		socks.stopAdmin() // it answers there from now on
	}
	leave() // whoever drains applies nothing
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

// A configuration is what is enforced.
type configuration struct {
	limits   *admin.Limits
	rules    *admin.Rules
	policies *admin.Policies
	adaptive *adaptive.Adaptive // follows the advisor; nil until there is a front
}

// keepConfiguration holds the global limit and the rules, and holds them
// against the store and the files until ctx ends.
func keepConfiguration(ctx context.Context, e *service.Env, c *config.Config, shared *redis.Client) (*configuration, error) {
	files := admin.RuleFiles{Rules: c.Rules.File, Clients: c.Rules.ClientsFile}
	options := rule.Options{ClientKey: c.Rules.ClientKey, DescriptorKeys: c.Rules.DescriptorKeys}
	var docs admin.Documents = new(simredis.Documents)
	if shared != nil {
		docs = shared
	}
	limits, err := admin.NewLimits(time.Now(), c.Limit, docs, e.Logger)
	if err != nil {
		return nil, err
	}
	rules, err := admin.NewRules(time.Now(), files, options, docs, e.Logger)
	if err != nil {
		return nil, err
	}
	limits.InMemory, rules.InMemory = shared == nil, shared == nil
	if shared != nil {
		limits.OnChange, rules.OnChange = shared.Forgetful, shared.Forgetful
		limits.Share(ctx, shared, syncPause)
	}
	rules.Share(ctx, shared, syncPause)
	return &configuration{limits: limits, rules: rules, policies: admin.NewPolicies(limits, rules)}, nil
}
