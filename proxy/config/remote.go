package config

import (
	"errors"
	"strings"
	"time"

	"weir/internal/program/service"
	"weir/proxy/store/remote"
)

// registerRemote adds the settings of a sidecar's store.
func registerRemote(s *service.Settings, r *remote.Config) {
	s.Func("REMOTE_URL", "", "decision ports of master proxies, comma separated, in the order in which they are tried; "+
		"this proxy is their sidecar, and limits are kept there instead of in Redis; "+
		"several masters must share Redis or PostgreSQL", "http://host:port or https://host:port, comma separated",
		parsed(&r.URLs, remote.ParseURLs))
	s.Duration(&r.Timeout, "REMOTE_TIMEOUT", 100*time.Millisecond, time.Millisecond, 2*time.Second,
		"how long a request waits for a master's decision")
	s.Token(&r.Token, "REMOTE_TOKEN",
		"the masters' DECISION_TOKEN; or their ADMIN_TOKEN, with which keys can also be edited here")
	s.String(&r.CAFile, "REMOTE_CA_FILE", "",
		"PEM file of the authorities that signed the masters' certificates; empty: the system's")
	s.NoEffect("REMOTE_URL", "", "REMOTE_TIMEOUT", "REMOTE_TOKEN", "REMOTE_CA_FILE")
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
	value := strings.Join(cfg.URLs, ",")
	var all []error
	if c.UsesRedis() || c.UsesPostgres() {
		all = append(all, &service.SettingError{Name: "REMOTE_URL", Value: value,
			Problem: "excludes REDIS_HOST and POSTGRES_URL", Allowed: "one of them"})
	}
	if c.Adaptive.Mode != "false" {
		all = append(all, &service.SettingError{Name: "ADAPTIVE_MODE", Value: c.Adaptive.Mode,
			Problem: "cannot be used with REMOTE_URL: the master follows the advisor", Allowed: "false"})
	}
	all = append(all, faultsOf(cfg.Validate(), map[string]service.SettingError{"Token": {Name: "REMOTE_TOKEN"}}))
	return cfg, errors.Join(all...)
}
