package config

import (
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

func (r *redisSettings) register(s *service.Settings, unused func() string) {
	s.Add(service.SettingList{
		{Name: "REDIS_HOST", Value: service.String(&r.hosts),
			Help: "host of Redis, the path of its unix socket, or a comma-separated list of host:port: nodes of a Cluster, or " +
				"Sentinels; empty: use the simulated Redis"},
	})
	s.AddWithNoEffect(unused, service.SettingList{
		{Name: "REDIS_PORT", Default: "6379", Value: service.Int(&r.port, 1, 65535),
			Help: "port of Redis if REDIS_HOST has none"},
		{Name: "REDIS_USERNAME", Value: service.String(&r.Username), Help: "user name for Redis (ACL)"},
		{Name: "REDIS_PASSWORD", Value: service.Secret(&r.Password), Help: "password of Redis"},
		{Name: "REDIS_DB", Default: "0", Value: service.Int(&r.DB, 0, 1<<20), Help: "database of Redis; 0 in a Cluster"},
		{Name: "REDIS_MODE", Default: "auto",
			Value: service.StringerEnum(&r.Topology, redis.Auto, redis.Single, redis.Cluster, redis.Sentinel),
			Help: "kind of REDIS_HOST; auto: Sentinels if REDIS_SENTINEL_MASTER is set, a Cluster with several hosts, " +
				"otherwise detected"},
		{Name: "REDIS_SENTINEL_MASTER", Value: service.String(&r.SentinelMaster),
			Help: "name of the master that the Sentinels monitor"},
		{Name: "REDIS_SENTINEL_USERNAME", Value: service.String(&r.SentinelUsername),
			Help: "user name for the Sentinels (ACL)"},
		{Name: "REDIS_SENTINEL_PASSWORD", Value: service.Secret(&r.SentinelPassword), Help: "password of the Sentinels"},
		{Name: "REDIS_TLS", Default: "false", Value: service.Bool(&r.TLS), Help: "connect to Redis with TLS"},
		{Name: "REDIS_TLS_CA_FILE", Value: service.String(&r.TLSCAFile),
			Help: "PEM file of the authorities that signed Redis' certificate; empty: the system's"},
		{Name: "REDIS_TLS_SERVER_NAME", Value: service.String(&r.TLSServerName),
			Help: "name in Redis' certificate; empty: the host's"},
		{Name: "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", Default: "false", Value: service.Bool(&r.TLSAnyName),
			Help: "true: Redis' certificate may be for any name, if an authority has signed it"},
		{Name: "REDIS_TLS_CLIENT_CERT", Value: service.String(&r.TLSCertFile),
			Help: "PEM file of the certificate to show to Redis; read again for each connection; empty: none"},
		{Name: "REDIS_TLS_CLIENT_KEY", Value: service.String(&r.TLSKeyFile), Help: "PEM file of its key"},
		{Name: "REDIS_KEY_PREFIX", Value: service.String(&r.KeyPrefix),
			Help: "prefix of every name in Redis, for several installations that share one"},
	})
	s.Add(service.SettingList{
		{Name: "REDIS_TIMEOUT", Default: "100ms", Value: service.Duration(&r.Timeout, time.Millisecond, redisTimeoutMax),
			NoEffect: s.NoEffectWhen("REDIS_HOST", ""), Help: "how long a request waits for a decision"},
		{Name: "STORE_FAILURE_MODE", Default: "open",
			Value: service.Enum(&r.Failure, "open, local, closed", store.FailOpen, store.Local, store.Closed),
			Help: "what happens while Redis, PostgreSQL or all masters are unavailable: open admits everything, local " +
				"enforces the limits in this proxy alone, closed refuses with 503"},
		{Name: "STORE_START", Default: "checked", Value: service.StringEnum(&r.start, "checked, anyway"),
			Help: "checked: do not start if the store refuses the user, the password or the database, or is another program; " +
				"anyway: start in STORE_FAILURE_MODE"},
	})
}

// StoreStartError returns the error that ends the start for an error of the store, with the
// settings to look at. It returns nil if the proxy may start.
func (c *Config) StoreStartError(err error) error {
	fault, ok := errors.AsType[*store.MisconfiguredError](err)
	if !ok || c.redis.start == "anyway" {
		return nil
	}
	setting, see, status := fmt.Sprintf("%s: %q", c.Named("REDIS_HOST"), c.redis.hosts),
		c.lookAt("REDIS_HOST, REDIS_PORT, REDIS_MODE, REDIS_TLS", "REDIS_URL, REDIS_TYPE, REDIS_TLS"), 2
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
		see = c.lookAt("REDIS_USERNAME, REDIS_PASSWORD", "REDIS_AUTH")
	case cause == store.NoDatabase:
		see = c.lookAt("REDIS_DB, REDIS_SENTINEL_MASTER", "REDIS_URL")
	}
	return &service.ExitError{Status: status,
		Err: fmt.Errorf("%s cannot be used: %w; see %s, or start with STORE_START=anyway", setting, fault, see)}
}

// UsesRedis reports whether limits are kept in Redis.
func (c *Config) UsesRedis() bool { return c.redis.hosts != "" }

// withoutRedis says why settings of Redis have no effect.
func (c *Config) withoutRedis() string {
	if c.UsesRedis() || c.Defer.inRedis {
		return ""
	}
	return "while REDIS_HOST is not set"
}

// RedisPair returns the files of the certificate for Redis, and of its key.
func (c *Config) RedisPair() (cert, key string) {
	if c.withoutRedis() != "" {
		return "", ""
	}
	return c.redis.TLSCertFile, c.redis.TLSKeyFile
}

// RedisCAFile returns the file of the authorities for Redis, if the store or the queue is
// in Redis.
func (c *Config) RedisCAFile() string {
	if c.withoutRedis() != "" {
		return ""
	}
	return c.redis.TLSCAFile
}

// Redis returns the configuration of the store in Redis, without Local and Log. The error
// joins a *service.SettingError for each fault.
func (c *Config) Redis() (redis.Config, error) {
	r := c.redis
	if !r.TLS && c.perSecond.used && c.perSecond.secure() { // whose certificates they are
		r.withoutTLS()
	}
	return r.config(c.settings, "REDIS_HOST", r.hosts)
}

// withoutTLS drops what only a connection with TLS has.
func (r *redisSettings) withoutTLS() {
	r.TLS, r.TLSAnyName, r.TLSCAFile, r.TLSServerName, r.TLSCertFile, r.TLSKeyFile = false, false, "", "", "", ""
}

// config returns the configuration for connecting to the hosts that a setting names.
func (r *redisSettings) config(s *service.Settings, setting, hosts string) (redis.Config, error) {
	cfg, err := r.at(setting, hosts)
	if err != nil {
		return cfg, err
	}
	pair := pairComplete(s, "REDIS_TLS_CLIENT_CERT", "REDIS_TLS_CLIENT_KEY")
	return cfg, errors.Join(pair, faultsOf(s, cfg.Validate(), map[string]string{
		"Addrs": setting, "DB": "REDIS_DB", "KeyPrefix": "REDIS_KEY_PREFIX", "Password": "REDIS_PASSWORD",
		"SentinelMaster": "REDIS_SENTINEL_MASTER", "SentinelUsername": "REDIS_SENTINEL_USERNAME",
		"SentinelPassword": "REDIS_SENTINEL_PASSWORD", "TLSCAFile": "REDIS_TLS_CA_FILE",
		"TLSServerName": "REDIS_TLS_SERVER_NAME", "TLSAnyName": "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION",
		"TLSCertFile": "REDIS_TLS_CLIENT_CERT",
	}))
}

// at returns r with the addresses of the hosts that a setting names.
func (r *redisSettings) at(setting, hosts string) (redis.Config, error) {
	cfg := r.Config
	for host := range strings.SplitSeq(hosts, ",") {
		addr := strings.TrimSpace(host)
		if strings.HasPrefix(addr, "/") {
			cfg.Addrs = append(cfg.Addrs, addr)
			continue
		}
		if _, _, err := net.SplitHostPort(addr); err != nil &&
			(!strings.Contains(addr, ":") || net.ParseIP(strings.Trim(addr, "[]")) != nil) {
			addr = net.JoinHostPort(strings.Trim(addr, "[]"), strconv.Itoa(r.port))
		}
		if _, err := hostPort(addr); err != nil {
			return cfg, &service.SettingError{Name: setting, Value: hosts,
				Problem: fmt.Sprintf("%q names no host and port", host),
				Allowed: "host or host:port, comma separated, or the path of a socket; for the rest of a redis:// URL use REDIS_USERNAME, " +
					"REDIS_PASSWORD, REDIS_DB, REDIS_TLS"}
		}
		cfg.Addrs = append(cfg.Addrs, addr)
	}
	return cfg, nil
}

// faultsOf returns the faults of a configuration as faults of the settings that its fields come from. The
// other fields are not settings, or are checked separately.
func faultsOf(s *service.Settings, err error, settings map[string]string) error {
	faults, _ := errors.AsType[strict.Faults](err)
	var all []error
	for _, f := range faults {
		if name := settings[f.Path]; name != "" {
			problem, allowed, _ := strings.Cut(f.Message, "; allowed: ")
			all = append(all, s.Fault(name, problem, allowed))
		}
	}
	return errors.Join(all...)
}
