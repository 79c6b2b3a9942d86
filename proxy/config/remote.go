package config

import (
	"errors"
	"time"

	"weir/internal/program/service"
	"weir/proxy/store/remote"
)

// registerRemote adds the settings of a sidecar's store.
func registerRemote(s *service.Settings, r *remote.Config) {
	s.Add(service.SettingList{
		{Name: "REMOTE_URL",
			Value: service.Func(&r.URLs, "http://host:port or https://host:port, comma separated", remote.ParseURLs),
			Help: "decision ports of master proxies, comma separated, in the order in which they are tried; this proxy is " +
				"their sidecar, and limits are kept there instead of in Redis; several masters must share Redis or PostgreSQL"},
	})
	s.AddWithNoEffect(s.NoEffectWhen("REMOTE_URL", ""), service.SettingList{
		{Name: "REMOTE_TIMEOUT", Default: "100ms", Value: service.Duration(&r.Timeout, time.Millisecond, 2*time.Second),
			Help: "how long a request waits for a master's decision"},
		{Name: "REMOTE_TOKEN", Value: service.BearerToken(&r.Token),
			Help: "the masters' DECISION_TOKEN; or their ADMIN_TOKEN, with which keys can also be edited here"},
		{Name: "REMOTE_CA_FILE", Value: service.String(&r.CAFile),
			Help: "PEM file of the authorities that signed the masters' certificates; empty: the system's"},
	})
}

// UsesRemote reports whether limits are kept at masters.
func (c *Config) UsesRemote() bool { return len(c.remote.URLs) > 0 }

// StoreTimeout returns how long a decision of the shared store is waited for. It is 0
// without one.
func (c *Config) StoreTimeout() time.Duration {
	switch {
	case c.UsesRemote():
		return c.remote.Timeout
	case c.UsesPostgres():
		return c.postgres.Timeout
	case c.UsesRedis():
		return c.redis.Timeout
	}
	return 0
}

// Remote returns the configuration of a sidecar's store, without Local and Log. The error
// joins a *service.SettingError for each fault.
func (c *Config) Remote() (remote.Config, error) {
	cfg := c.remote
	cfg.Failure = c.redis.Failure
	s := c.settings
	return cfg, errors.Join(
		s.FaultIf(c.UsesRedis() || c.UsesPostgres(), "REMOTE_URL", "excludes REDIS_HOST and POSTGRES_URL", "one of them"),
		s.FaultIf(c.Adaptive.Mode != "false", "ADAPTIVE_MODE",
			"cannot be used with REMOTE_URL: the master follows the advisor", "false"),
		faultsOf(s, cfg.Validate(), map[string]string{"Token": "REMOTE_TOKEN"}))
}
