package main

import (
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

// connect returns the client of Redis, or nil when the settings name none.
// Redis may be away: it is waited for in the failure mode. But a Redis that cannot be
// used as it is configured is an error, unless STORE_START says otherwise.
func connect(e *service.Env, c *config.Config, table *simredis.Table) (*redis.Client, error) {
	if !c.UsesRedis() {
		return nil, nil
	}
	cfg, err := c.Redis()
	if err != nil {
		return nil, err
	}
	cfg.Local, cfg.Log = table, e.Logger("RedisClient")
	client, err := redis.New(cfg)
	if err != nil {
		return nil, err
	}
	if err := c.StoreStart(client.Misconfigured()); err != nil {
		client.Close()
		return nil, err
	}
	return client, nil
}

// ruleSources are the files of rules and clients, and what they are read with.
func ruleSources(c *config.Config, templates *admin.Templates) (admin.RuleFiles, rule.Options) {
	options := c.RuleOptions()
	if templates != nil {
		options.HasTemplate = templates.Has
	}
	return admin.RuleFiles{Rules: c.Rules.File, Clients: c.Rules.ClientsFile}, options
}

// syncPause is how often the limit configuration is held against the store.
const syncPause = 500 * time.Millisecond

// A configuration is what is enforced.
type configuration struct {
	limits    *admin.Limits
	rules     *admin.Rules
	policies  *admin.Policies
	adaptive  *adaptive.Adaptive // follows the advisor; nil until there is a front
	targets   *targets
	templates *admin.Templates
	memory    *simredis.Documents // of the simulated Redis; nil with a shared one
}

// onReload has SIGHUP read rules, clients and limits again, where they come from files
// or from a store that others write to, and the authorities of targets, and the templates of refusals.
func (cfg *configuration) onReload(e *service.Env, c *config.Config, front *wire.Front) {
	shared := cfg.memory == nil
	if c.Refusal.Templates != "" { // before the rules, which name some
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

// keepConfiguration holds the global limit and the rules, and holds them
// against the store and the files until ctx ends. The simulated Redis begins with
// what the proxy before knew.
func keepConfiguration(ctx context.Context, e *service.Env, c *config.Config, shared *redis.Client, before *admin.State, templates *admin.Templates) (*configuration, error) {
	files, options := ruleSources(c, templates)
	var docs admin.Documents = shared
	var memory *simredis.Documents
	if shared == nil {
		memory = new(simredis.Documents)
		before.Restore(memory)
		docs = memory
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
	return &configuration{limits: limits, rules: rules, policies: admin.NewPolicies(limits, rules), memory: memory, templates: templates}, nil
}
