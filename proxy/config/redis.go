package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"weir/internal/data/strict"
	"weir/internal/program/service"
	"weir/proxy/store"
	"weir/proxy/store/redis"
)

// redisSettings has the settings of the store in Redis, as given.
type redisSettings struct {
	redis.Config // without Addrs
	hosts        string
	port         int
	start        string
}

func (r *redisSettings) register(s *service.Settings) {
	s.String(&r.hosts, "REDIS_HOST", "",
		"host of Redis, or a comma-separated list of host:port: nodes of a Cluster, or Sentinels; empty: use "+
			"the simulated Redis")
	s.Int(&r.port, "REDIS_PORT", 6379, 1, 65535, "port of Redis if REDIS_HOST has none")
	s.String(&r.Username, "REDIS_USERNAME", "", "user name for Redis (ACL)")
	s.Secret(&r.Password, "REDIS_PASSWORD", "password of Redis")
	s.Int(&r.DB, "REDIS_DB", 0, 0, 1<<20, "database of Redis; 0 in a Cluster")
	s.Choice("REDIS_MODE", "auto",
		"kind of REDIS_HOST; auto: Sentinels if REDIS_SENTINEL_MASTER is set, a Cluster with several "+
			"hosts, otherwise detected",
		service.Among(&r.Topology, redis.Auto, redis.Single, redis.Cluster, redis.Sentinel))
	s.String(&r.SentinelMaster, "REDIS_SENTINEL_MASTER", "", "name of the master that the Sentinels monitor")
	s.String(&r.SentinelUsername, "REDIS_SENTINEL_USERNAME", "", "user name for the Sentinels (ACL)")
	s.Secret(&r.SentinelPassword, "REDIS_SENTINEL_PASSWORD", "password of the Sentinels")
	s.Bool(&r.TLS, "REDIS_TLS", false, "connect to Redis with TLS")
	s.String(&r.TLSCAFile, "REDIS_TLS_CA_FILE", "",
		"PEM file of the authorities that signed Redis' certificate; empty: the system's")
	s.String(&r.TLSServerName, "REDIS_TLS_SERVER_NAME", "", "name in Redis' certificate; empty: the host's")
	s.String(&r.KeyPrefix, "REDIS_KEY_PREFIX", "",
		"prefix of every name in Redis, for several installations that share one")
	s.Duration(&r.Timeout, "REDIS_TIMEOUT", 100*time.Millisecond, time.Millisecond, 2*time.Second,
		"how long a request waits for a decision")
	s.Word("STORE_FAILURE_MODE", "open", []string{"open", "local", "closed"},
		"what happens while Redis, PostgreSQL or all masters are unavailable: open admits everything, local enforces the "+
			"limits in this proxy alone, closed refuses with 503",
		func(word string) error { r.Failure = failureModes[word]; return nil })
	s.Enum(&r.start, "STORE_START", "checked", []string{"checked", "anyway"},
		"checked: do not start if the store refuses the user, the password or the database, or is another program; "+
			"anyway: start in STORE_FAILURE_MODE")
}

// failureModes are the values of STORE_FAILURE_MODE.
var failureModes = map[string]store.Mode{"open": store.FailOpen, "local": store.Local, "closed": store.Closed}

// StoreStart returns the error that ends the start for an error of the store, with the
// settings to look at. It returns nil if the proxy may start.
func (c *Config) StoreStart(err error) error {
	fault, ok := errors.AsType[*store.MisconfiguredError](err)
	if !ok || c.redis.start == "anyway" {
		return nil
	}
	setting, see, status := fmt.Sprintf("REDIS_HOST: %q", c.redis.hosts),
		"REDIS_HOST, REDIS_PORT, REDIS_MODE, REDIS_TLS", 2
	switch cause := fault.Cause; {
	case c.UsesRemote():
		setting, see = "REMOTE_URL", "REMOTE_URL, REMOTE_TOKEN"
	case c.UsesPostgres():
		setting, see = "POSTGRES_URL", "POSTGRES_URL, POSTGRES_SCHEMA"
		if cause != store.WrongProtocol {
			see += ", POSTGRES_MIGRATE"
		}
		if cause == store.NoSchema { // no setting is wrong
			status = 1
		}
	case cause == store.Unauthenticated, cause == store.Unauthorized:
		see = "REDIS_USERNAME, REDIS_PASSWORD"
	case cause == store.NoDatabase:
		see = "REDIS_DB, REDIS_SENTINEL_MASTER"
	}
	return &service.ExitError{Status: status,
		Err: fmt.Errorf("%s cannot be used: %w; see %s, or start with STORE_START=anyway", setting, fault, see)}
}

// UsesRedis reports whether limits are kept in Redis.
func (c *Config) UsesRedis() bool { return c.redis.hosts != "" }

// RedisCAFile returns the file of the authorities for Redis, if the store or the queue is
// in Redis.
func (c *Config) RedisCAFile() string {
	if c.UsesRedis() || c.Defer.inRedis {
		return c.redis.TLSCAFile
	}
	return ""
}

// Redis returns the configuration of the store in Redis, without Local and Log. The error
// joins a *service.SettingError for each fault.
func (c *Config) Redis() (redis.Config, error) { return c.redis.config("REDIS_HOST", c.redis.hosts) }

// config returns the configuration for connecting to the hosts that a setting names.
func (r *redisSettings) config(setting, hosts string) (redis.Config, error) {
	cfg := r.Config
	for host := range strings.SplitSeq(hosts, ",") {
		addr := strings.TrimSpace(host)
		if _, _, err := net.SplitHostPort(addr); err != nil &&
			(!strings.Contains(addr, ":") || net.ParseIP(strings.Trim(addr, "[]")) != nil) {
			addr = net.JoinHostPort(strings.Trim(addr, "[]"), strconv.Itoa(r.port))
		}
		if h, p, err := net.SplitHostPort(addr); err != nil || h == "" || !validPort(p) || strings.ContainsAny(h, "/@?#") {
			return cfg, &service.SettingError{Name: setting, Value: hosts,
				Problem: fmt.Sprintf("%q names no host and port", host),
				Allowed: "host or host:port, comma separated; for the rest of a redis:// URL use REDIS_USERNAME, " +
					"REDIS_PASSWORD, REDIS_DB, REDIS_TLS"}
		}
		cfg.Addrs = append(cfg.Addrs, addr)
	}
	return cfg, faultsOf(cfg.Validate(), map[string]service.SettingError{
		"Addrs": {Name: setting, Value: hosts}, "DB": {Name: "REDIS_DB", Value: strconv.Itoa(r.DB)},
		"KeyPrefix": {Name: "REDIS_KEY_PREFIX", Value: r.KeyPrefix},
		"Password":  {Name: "REDIS_PASSWORD"}, "SentinelMaster": {Name: "REDIS_SENTINEL_MASTER", Value: r.SentinelMaster},
		"SentinelUsername": {Name: "REDIS_SENTINEL_USERNAME", Value: r.SentinelUsername},
		"SentinelPassword": {Name: "REDIS_SENTINEL_PASSWORD"},
		"TLSCAFile":        {Name: "REDIS_TLS_CA_FILE", Value: r.TLSCAFile},
		"TLSServerName":    {Name: "REDIS_TLS_SERVER_NAME", Value: r.TLSServerName},
	})
}

// faultsOf returns the faults of a store's configuration as faults of the settings that its
// fields come from. The other fields are not settings, or are checked separately.
func faultsOf(err error, settings map[string]service.SettingError) error {
	faults, _ := errors.AsType[strict.Faults](err)
	var all []error
	for _, f := range faults {
		if s, ok := settings[f.Path]; ok {
			problem, allowed, _ := strings.Cut(f.Message, "; allowed: ")
			s.Problem, s.Allowed = problem, cmp.Or(s.Allowed, allowed)
			all = append(all, &s)
		}
	}
	return errors.Join(all...)
}
