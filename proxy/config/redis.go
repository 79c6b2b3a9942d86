package config

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"weir/internal/service"
	"weir/proxy/store"
	"weir/proxy/store/lane"
	"weir/proxy/store/redis"
)

// redisSettings are the settings of the store in Redis, as given.
type redisSettings struct {
	hosts, username, password, prefix            string
	port, db                                     int
	topology                                     redis.Topology
	sentinel, sentinelUsername, sentinelPassword string
	secure                                       bool
	caFile, serverName                           string
	timeout                                      time.Duration
	mode                                         store.Mode
	start                                        string
}

// register adds the settings to s.
func (r *redisSettings) register(s *service.Settings) {
	s.String(&r.hosts, "REDIS_HOST", "", "host of Redis, or host:port of several, comma separated: nodes of a Cluster, or the Sentinels; empty: the simulated Redis")
	s.Int(&r.port, "REDIS_PORT", 6379, 1, 65535, "port of a REDIS_HOST without one")
	s.String(&r.username, "REDIS_USERNAME", "", "ACL user of Redis")
	s.Secret(&r.password, "REDIS_PASSWORD", "password of Redis")
	s.Int(&r.db, "REDIS_DB", 0, 0, 1<<20, "database of Redis; 0 in a Cluster")
	s.Word("REDIS_MODE", "auto", []string{"auto", "single", "cluster", "sentinel"}, "what REDIS_HOST is; auto: Sentinels with REDIS_SENTINEL_MASTER, a Cluster with several hosts, else what the server says",
		func(word string) (err error) { r.topology, err = redis.ParseTopology(word); return err })
	s.String(&r.sentinel, "REDIS_SENTINEL_MASTER", "", "name of the master that the Sentinels of REDIS_HOST watch")
	s.String(&r.sentinelUsername, "REDIS_SENTINEL_USERNAME", "", "ACL user of the Sentinels")
	s.Secret(&r.sentinelPassword, "REDIS_SENTINEL_PASSWORD", "password of the Sentinels")
	s.Bool(&r.secure, "REDIS_TLS", false, "connect to Redis with TLS")
	s.String(&r.caFile, "REDIS_TLS_CA_FILE", "", "PEM file of the authorities that signed Redis' certificate; empty: the system's")
	s.String(&r.serverName, "REDIS_TLS_SERVER_NAME", "", "name in Redis' certificate; empty: the host's")
	s.String(&r.prefix, "REDIS_KEY_PREFIX", "", "prefix of every name in Redis, for several installations that share one")
	s.Duration(&r.timeout, "REDIS_TIMEOUT", 100*time.Millisecond, time.Millisecond, 2*time.Second, "longest that a request waits for a decision")
	s.Word("STORE_FAILURE_MODE", "open", []string{"open", "local", "closed"}, "what happens while Redis, PostgreSQL or every master is unavailable: open admits all, local limits by this proxy alone, closed refuses with 503",
		func(word string) (err error) { r.mode, err = store.ParseFailureMode(word); return err })
	s.Enum(&r.start, "STORE_START", "checked", []string{"checked", "anyway"},
		"checked: a store that refuses the user, the password or the database, or is another program, ends the start; anyway: the proxy starts in STORE_FAILURE_MODE")
}

// StoreStart returns the error that ends the start for one that the store met, with the
// settings to look at; nil: the proxy starts.
func (c *Config) StoreStart(err error) error {
	fault, ok := errors.AsType[*store.MisconfiguredError](err)
	if !ok || c.redis.start == "anyway" {
		return nil
	}
	if c.UsesRemote() {
		return &service.ExitError{Status: 2, Err: fmt.Errorf("REMOTE_URL cannot be used: %w; see REMOTE_URL, REMOTE_TOKEN, or start with STORE_START=anyway", fault)}
	}
	if c.UsesPostgres() {
		status := 2
		if fault.Cause == store.NoSchema { // no setting is wrong
			status = 1
		}
		return &service.ExitError{Status: status, Err: fmt.Errorf("POSTGRES_URL cannot be used: %w; see %s, or start with STORE_START=anyway", fault, seePostgres(fault.Cause))}
	}
	see := "REDIS_HOST, REDIS_PORT, REDIS_MODE, REDIS_TLS"
	switch fault.Cause {
	case store.Unauthenticated, store.Unauthorized:
		see = "REDIS_USERNAME, REDIS_PASSWORD"
	case store.NoDatabase:
		see = "REDIS_DB, REDIS_SENTINEL_MASTER"
	}
	return &service.ExitError{Status: 2, Err: fmt.Errorf("REDIS_HOST: %q cannot be used: %w; see %s, or start with STORE_START=anyway", c.redis.hosts, fault, see)}
}

// UsesRedis reports whether limits are kept in Redis.
func (c *Config) UsesRedis() bool { return c.redis.hosts != "" }

// RedisCAFile is the file of the authorities for Redis, if the store or the queue is there.
func (c *Config) RedisCAFile() string {
	if c.UsesRedis() || c.Defer.inRedis {
		return c.redis.caFile
	}
	return ""
}

// Redis is the settings of the store in Redis; Local and Log are for the caller
// to fill in. The error joins a *service.SettingError for each fault.
func (c *Config) Redis() (redis.Config, error) { return c.redis.config("REDIS_HOST", c.redis.hosts) }

// config is how to connect to the hosts that a setting names.
func (r *redisSettings) config(setting, hosts string) (redis.Config, error) {
	cfg := redis.Config{
		Topology: r.topology, SentinelMaster: r.sentinel, SentinelUsername: r.sentinelUsername, SentinelPassword: r.sentinelPassword,
		Username: r.username, Password: r.password, DB: r.db,
		TLS: r.secure, TLSCAFile: r.caFile, TLSServerName: r.serverName, KeyPrefix: r.prefix, Config: lane.Config{Timeout: r.timeout, Failure: r.mode},
	}
	for host := range strings.SplitSeq(hosts, ",") {
		addr := strings.TrimSpace(host)
		if _, _, err := net.SplitHostPort(addr); err != nil && (!strings.Contains(addr, ":") || net.ParseIP(strings.Trim(addr, "[]")) != nil) {
			addr = net.JoinHostPort(strings.Trim(addr, "[]"), strconv.Itoa(r.port))
		}
		if h, p, err := net.SplitHostPort(addr); err != nil || h == "" || !validPort(p) || strings.ContainsAny(h, "/@?#") {
			return cfg, &service.SettingError{Name: setting, Value: hosts, Problem: fmt.Sprintf("%q names no host and port", host),
				Allowed: "host, or host:port, comma separated; what else a redis:// URL says has settings of its own: REDIS_USERNAME, REDIS_PASSWORD, REDIS_DB, REDIS_TLS"}
		}
		cfg.Addrs = append(cfg.Addrs, addr)
	}
	return cfg, r.fault(cfg, setting, hosts)
}

// fault is what is wrong with the settings together, or nil.
func (r *redisSettings) fault(cfg redis.Config, setting, hosts string) error {
	faults, _ := errors.AsType[lane.Faults](cfg.Validate())
	settings := map[string]struct{ name, value string }{
		"Addrs": {setting, hosts}, "DB": {"REDIS_DB", strconv.Itoa(r.db)}, "KeyPrefix": {"REDIS_KEY_PREFIX", r.prefix},
		"Password": {"REDIS_PASSWORD", ""}, "SentinelMaster": {"REDIS_SENTINEL_MASTER", r.sentinel},
		"SentinelUsername": {"REDIS_SENTINEL_USERNAME", r.sentinelUsername}, "SentinelPassword": {"REDIS_SENTINEL_PASSWORD", ""},
		"TLSCAFile": {"REDIS_TLS_CA_FILE", r.caFile}, "TLSServerName": {"REDIS_TLS_SERVER_NAME", r.serverName},
	}
	var all []error
	for _, f := range faults {
		if s, ok := settings[f.Field]; ok { // the others are not settings, or checked by themselves
			all = append(all, &service.SettingError{Name: s.name, Value: s.value, Problem: f.Problem, Allowed: f.Allowed})
		}
	}
	return errors.Join(all...)
}
