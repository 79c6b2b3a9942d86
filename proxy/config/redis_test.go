package config

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/program/service"
	"weir/proxy/store"
	"weir/proxy/store/redis"
)

func TestRedisAddresses(t *testing.T) {
	for _, test := range []struct {
		env   []string
		addrs string
		mode  redis.Topology
	}{
		{[]string{"REDIS_HOST", "redis"}, "redis:6379", redis.Auto},
		{[]string{"REDIS_HOST", "redis", "REDIS_PORT", "7000"}, "redis:7000", redis.Auto},
		{[]string{"REDIS_HOST", "redis:7001", "REDIS_PORT", "7000", "REDIS_MODE", "single"}, "redis:7001", redis.Single},
		{[]string{"REDIS_HOST", "::1", "REDIS_MODE", "auto"}, "[::1]:6379", redis.Auto},
		{[]string{"REDIS_HOST", "[::1]:7001", "REDIS_MODE", "cluster"}, "[::1]:7001", redis.Cluster},
		{[]string{"REDIS_HOST", "a, b:7001 ,c"}, "a:6379 b:7001 c:6379", redis.Auto},
		{[]string{"REDIS_HOST", "a:26379,b:26379", "REDIS_SENTINEL_MASTER", "main", "REDIS_MODE", "sentinel"},
			"a:26379 b:26379", redis.Sentinel},
	} {
		cfg, err := must(t, test.env...).Redis()
		if err != nil || strings.Join(cfg.Addrs, " ") != test.addrs || cfg.Topology != test.mode {
			t.Errorf("%v: %v, %v, %v", test.env, cfg.Addrs, cfg.Topology, err)
		}
	}
	if must(t).UsesRedis() || !must(t, "REDIS_HOST", "redis").UsesRedis() {
		t.Error("REDIS_HOST alone says whether there is a Redis")
	}
}

func TestRedisValuesArrive(t *testing.T) {
	cfg, err := must(t, "REDIS_HOST", "a,b", "REDIS_SENTINEL_MASTER", "main", "REDIS_USERNAME", "me", "REDIS_PASSWORD",
		"secret", "REDIS_DB", "3",
		"REDIS_TLS", "true", "REDIS_TLS_CA_FILE", "/ca.pem", "REDIS_TLS_SERVER_NAME", "redis.internal",
		"REDIS_SENTINEL_USERNAME", "watcher", "REDIS_SENTINEL_PASSWORD", "hidden", "REDIS_KEY_PREFIX", "p:",
		"REDIS_TIMEOUT", "50ms", "STORE_FAILURE_MODE", "local").Redis()
	if err != nil {
		t.Fatal(err)
	}
	if cfg.SentinelMaster != "main" || cfg.Username != "me" || cfg.Password != "secret" || cfg.DB != 3 || !cfg.TLS ||
		cfg.TLSCAFile != "/ca.pem" || cfg.TLSServerName != "redis.internal" || cfg.SentinelUsername != "watcher" ||
		cfg.SentinelPassword != "hidden" || cfg.KeyPrefix != "p:" || cfg.Timeout != 50*time.Millisecond ||
		cfg.Failure != store.Local {
		t.Errorf("%+v", cfg)
	}
	for word, mode := range map[string]store.Mode{"open": store.FailOpen, "local": store.Local, "closed": store.Closed} {
		if cfg, err := must(t, "REDIS_HOST", "a", "STORE_FAILURE_MODE", word).Redis(); err != nil || cfg.Failure != mode {
			t.Errorf("%s: %v, %v", word, cfg.Failure, err)
		}
	}
	if cfg, err := must(t, "REDIS_HOST", "a").Redis(); err != nil || cfg.Failure != store.FailOpen ||
		cfg.Timeout != 100*time.Millisecond {
		t.Errorf("by default: %+v, %v", cfg, err)
	}
}

func TestWrongRedisSettings(t *testing.T) {
	for _, test := range []struct {
		env      []string
		name     string // the setting that is named
		sentence string
	}{
		{[]string{"REDIS_PORT", "0"}, "REDIS_PORT", "is out of range; allowed: 1 … 65535"},
		{[]string{"REDIS_DB", "-1"}, "REDIS_DB", "is out of range"},
		{[]string{"REDIS_TLS", "perhaps"}, "REDIS_TLS", "is neither true nor false"},
		{[]string{"REDIS_TIMEOUT", "3s"}, "REDIS_TIMEOUT", "is out of range; allowed: 1ms … 2s"},
		{[]string{"STORE_FAILURE_MODE", "ignore"}, "STORE_FAILURE_MODE", "allowed: open, local, closed"},
		{[]string{"REDIS_HOST", "a,,b"}, "REDIS_HOST", "names no host and port"},
		{[]string{"REDIS_HOST", ":6379"}, "REDIS_HOST", "allowed: host or host:port"},
		{[]string{"REDIS_HOST", "a:"}, "REDIS_HOST", "names no host and port"},
		{[]string{"REDIS_HOST", "a:6379:0"}, "REDIS_HOST", "names no host and port"},
		{[]string{"REDIS_HOST", "a:65536"}, "REDIS_HOST", "names no host and port"},
		{[]string{"REDIS_HOST", "a,b", "REDIS_DB", "1"}, "REDIS_DB", `"1" cannot be used with a Cluster; allowed: 0`},
		{[]string{"REDIS_HOST", "a", "REDIS_DB", "1", "REDIS_MODE", "cluster"}, "REDIS_DB", "Cluster"},
		{[]string{"REDIS_HOST", "a", "REDIS_MODE", "clustered"}, "REDIS_MODE", "allowed: auto, single, cluster, sentinel"},
		{[]string{"REDIS_HOST", "a,b", "REDIS_MODE", "single"}, "REDIS_HOST",
			`"a,b" cannot be used with a single server; allowed: one address`},
		{[]string{"REDIS_HOST", "a", "REDIS_MODE", "sentinel"}, "REDIS_SENTINEL_MASTER", "is missing"},
		{[]string{"REDIS_HOST", "a", "REDIS_MODE", "cluster", "REDIS_SENTINEL_MASTER", "m"}, "REDIS_SENTINEL_MASTER",
			"has no effect without Sentinels"},
		{[]string{"REDIS_HOST", "a", "REDIS_SENTINEL_PASSWORD", "p"}, "REDIS_SENTINEL_PASSWORD",
			"has no effect without Sentinels"},
		{[]string{"REDIS_HOST", "a", "REDIS_SENTINEL_MASTER", "m", "REDIS_SENTINEL_USERNAME", "u"},
			"REDIS_SENTINEL_PASSWORD", "is missing"},
		{[]string{"REDIS_HOST", "a", "REDIS_TLS_SERVER_NAME", "n"}, "REDIS_TLS_SERVER_NAME", "has no effect without TLS"},
		{[]string{"REDIS_HOST", "a", "REDIS_KEY_PREFIX", "{a}"}, "REDIS_KEY_PREFIX", "braces"},
		{[]string{"REDIS_HOST", "a", "REDIS_USERNAME", "me"}, "REDIS_PASSWORD", "is missing"},
	} {
		c, err := parse(test.env...)
		if err == nil {
			_, err = c.Redis()
		}
		e, ok := errors.AsType[*service.SettingError](err)
		if !ok || e.Name != test.name || !strings.Contains(e.Error(), test.sentence) {
			t.Errorf("%v: %v, want %s and %q", test.env, err, test.name, test.sentence)
		}
	}
	if cfg, err := must(t, "REDIS_HOST", "a,b", "REDIS_SENTINEL_MASTER", "main", "REDIS_DB",
		"1").Redis(); err != nil || !slices.Equal(cfg.Addrs, []string{"a:6379", "b:6379"}) {
		t.Errorf("Sentinels and a database: %v", err)
	}
}
