package config

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"weir/internal/program/service"
	"weir/proxy/store"
	"weir/proxy/store/redis"
)

// perSecondSettings are those of a second Redis, as given. They have the names that envoyproxy/ratelimit uses.
type perSecondSettings struct {
	used               bool
	url                string
	topology           redis.Topology
	auth, sentinelAuth string // a password, or name:password
	tls                bool
	timeout            time.Duration // 0: as of the first one
}

func (p *perSecondSettings) register(s *service.Settings) {
	s.Add(service.SettingList{
		{Name: "REDIS_PERSECOND", Default: "false", Value: service.Bool(&p.used),
			NoEffect: s.NoEffectWhen("DECISION_PORT", "0"),
			Help: "true: limits per second for Envoy's rate limit service are in a second Redis, and all others in that of " +
				"REDIS_HOST; needs RATELIMIT_CHARGE=independent"},
	})
	s.AddWithNoEffect(s.NoEffectWhen("REDIS_PERSECOND", "false"), service.SettingList{
		{Name: "REDIS_PERSECOND_URL", Value: service.Secret(&p.url),
			Help: "second Redis: host:port, redis://user:password@host:port/db, or the path of its socket; a comma-separated " +
				"list for a Cluster; the master's name before the addresses of Sentinels; REDIS_TLS_CA_FILE, " +
				"REDIS_TLS_CLIENT_CERT and REDIS_KEY_PREFIX apply to it as well"},
		{Name: "REDIS_PERSECOND_TYPE", Default: "auto",
			Value: service.StringerEnum(&p.topology, redis.Auto, redis.Single, redis.Cluster, redis.Sentinel),
			Help:  "kind of the second Redis, as REDIS_MODE; Sentinels must be named"},
		{Name: "REDIS_PERSECOND_AUTH", Value: service.Secret(&p.auth), Help: "its password, or user:password (ACL)"},
		{Name: "REDIS_PERSECOND_SENTINEL_AUTH", Value: service.Secret(&p.sentinelAuth), Help: "likewise of its Sentinels"},
		{Name: "REDIS_PERSECOND_TLS", Value: service.Bool(&p.tls),
			Help: "connect to it with TLS; empty: if REDIS_PERSECOND_URL begins with rediss://"},
		{Name: "REDIS_PERSECOND_TIMEOUT", Value: service.Duration(&p.timeout, time.Millisecond, redisTimeoutMax),
			Help: "how long a request waits for its decision; empty: REDIS_TIMEOUT"},
	})
}

// complete checks the settings together with those of the first Redis.
func (p *perSecondSettings) complete(c *Config) error {
	if !p.used {
		return nil
	}
	_, err := c.RedisPerSecond()
	return errors.Join(err, c.settings.FaultIf(!c.UsesRedis(), "REDIS_PERSECOND",
		"is a second Redis beside that of REDIS_HOST, which is not set", "together with REDIS_HOST, or false"),
		c.settings.FaultIf(c.RateLimit.settings.AllOrNothing, "REDIS_PERSECOND",
			"distributes limits over two stores, which cannot decide together",
			"together with RATELIMIT_CHARGE=independent, or false"))
}

// secure reports whether the connection has TLS.
func (p *perSecondSettings) secure() bool { return p.tls || strings.Contains(p.url, "rediss://") }

// UsesPerSecond reports whether limits per second are in a Redis of their own.
func (c *Config) UsesPerSecond() bool { return c.perSecond.used }

// RedisPerSecond returns the configuration of the second Redis, as [Config.Redis] does of the first.
func (c *Config) RedisPerSecond() (cfg redis.Config, err error) {
	const setting = "REDIS_PERSECOND_URL"
	p, r := &c.perSecond, c.redis
	u, wrong := readRedisURL(setting, p.url, p.topology == redis.Sentinel)
	if p.url == "" {
		wrong = c.settings.Fault(setting, "is required by REDIS_PERSECOND=true", "host:port, or redis://host:port")
	}
	if r.DB, err = strconv.Atoi(cmp.Or(u.db, "0")); err != nil {
		wrong = c.settings.Fault(setting, "names a database that is not a number", "redis://host:port/1")
	}
	r.Topology, r.SentinelMaster, r.Timeout = p.topology, u.master, cmp.Or(p.timeout, r.Timeout)
	r.SentinelUsername, r.SentinelPassword = nameAndPassword(p.sentinelAuth)
	r.Username, r.Password = u.username, u.password
	if p.auth != "" {
		r.Username, r.Password = nameAndPassword(p.auth)
	}
	r.TLS, r.TLSServerName = true, ""
	if !p.secure() {
		r.withoutTLS()
	}
	if cfg = r.Config; wrong == nil {
		cfg, wrong = r.at(setting, u.hosts)
	}
	fields := map[string]string{"Password": "REDIS_PERSECOND_AUTH", "SentinelUsername": "REDIS_PERSECOND_SENTINEL_AUTH",
		"SentinelPassword": "REDIS_PERSECOND_SENTINEL_AUTH"}
	if wrong == nil { // otherwise what the URL says is not known
		fields["Addrs"], fields["DB"], fields["SentinelMaster"] = setting, setting, setting
	}
	plain := c.settings.FaultIf(u.tls && c.settings.Text("REDIS_PERSECOND_TLS") == "false", "REDIS_PERSECOND_TLS",
		"contradicts rediss:// in REDIS_PERSECOND_URL", "true, or redis:// in REDIS_PERSECOND_URL")
	return cfg, errors.Join(wrong, plain, faultsOf(c.settings, cfg.Validate(), fields))
}

// PerSecondStartError is as [Config.StoreStartError], about the second Redis.
func (c *Config) PerSecondStartError(err error) error {
	fault, ok := errors.AsType[*store.MisconfiguredError](err)
	if !ok || c.redis.start == "anyway" {
		return nil
	}
	return &service.ExitError{Status: 2, Err: fmt.Errorf("REDIS_PERSECOND_URL cannot be used: %w; see REDIS_PERSECOND_URL, "+
		"REDIS_PERSECOND_TYPE, REDIS_PERSECOND_AUTH, REDIS_PERSECOND_TLS, or start with STORE_START=anyway", fault)}
}
