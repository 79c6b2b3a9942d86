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
)

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
	targets  *targets
	memory   *simredis.Documents // of the simulated Redis; nil with a shared one
}

// keepConfiguration holds the global limit and the rules, and holds them
// against the store and the files until ctx ends. The simulated Redis begins with
// what the proxy before knew.
func keepConfiguration(ctx context.Context, e *service.Env, c *config.Config, shared *redis.Client, before *admin.State) (*configuration, error) {
	files := admin.RuleFiles{Rules: c.Rules.File, Clients: c.Rules.ClientsFile}
	options := rule.Options{ClientKey: c.Rules.ClientKey, DescriptorKeys: c.Rules.DescriptorKeys}
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
	return &configuration{limits: limits, rules: rules, policies: admin.NewPolicies(limits, rules), memory: memory}, nil
}
