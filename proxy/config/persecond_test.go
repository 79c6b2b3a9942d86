package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/proxy/store"
	"weir/proxy/store/lane"
	"weir/proxy/store/redis"
)

// The second Redis has an address, credentials and a timeout of its own, and the rest from the first.
func TestRedisPerSecond(t *testing.T) {
	both := []string{"DECISION_PORT", "8083", "RATELIMIT_CHARGE", "independent", "REDIS_HOST", "a", "REDIS_PASSWORD", "p",
		"REDIS_USERNAME", "u", "REDIS_KEY_PREFIX", "k:", "STORE_FAILURE_MODE", "closed", "REDIS_PERSECOND", "true"}
	common := redis.Config{Config: lane.Config{Timeout: 100 * time.Millisecond, Failure: store.Closed}, KeyPrefix: "k:"}
	for _, test := range []struct {
		env  []string
		want func(cfg *redis.Config)
	}{
		{[]string{"REDIS_PERSECOND_URL", "b:1"}, func(cfg *redis.Config) { cfg.Addrs = []string{"b:1"} }},
		{[]string{"REDIS_PERSECOND_URL", "/run/b.sock", "REDIS_PERSECOND_TIMEOUT", "20ms"}, func(cfg *redis.Config) {
			cfg.Addrs, cfg.Timeout = []string{"/run/b.sock"}, 20*time.Millisecond
		}},
		{[]string{"REDIS_PERSECOND_URL", "redis://v:w@b/3", "REDIS_TLS", "true", "REDIS_TLS_CA_FILE", "ca"},
			func(cfg *redis.Config) {
				cfg.Addrs, cfg.DB, cfg.Username, cfg.Password = []string{"b:6379"}, 3, "v", "w"
			}},
		{[]string{"REDIS_PERSECOND_URL", "m,b:1,c:1", "REDIS_PERSECOND_TYPE", "sentinel", "REDIS_PERSECOND_AUTH", "w",
			"REDIS_PERSECOND_SENTINEL_AUTH", "x:y", "REDIS_PERSECOND_TLS", "true", "REDIS_TLS_CA_FILE", "ca"},
			func(cfg *redis.Config) {
				cfg.Addrs, cfg.Topology, cfg.SentinelMaster = []string{"b:1", "c:1"}, redis.Sentinel, "m"
				cfg.Password, cfg.SentinelUsername, cfg.SentinelPassword = "w", "x", "y"
				cfg.TLS, cfg.TLSCAFile = true, "ca"
			}},
	} {
		c, want := must(t, append(test.env, both...)...), common
		test.want(&want)
		if have, err := c.RedisPerSecond(); err != nil || !reflect.DeepEqual(have, want) {
			t.Errorf("%v: %+v, %v, want %+v", test.env, have, err, want)
		}
		if first, err := c.Redis(); err != nil || first.Addrs[0] != "a:6379" || first.Password != "p" {
			t.Errorf("%v: the first is %+v, %v", test.env, first, err)
		}
		if err := c.perSecond.complete(c); err != nil {
			t.Error(err)
		}
	}
	for _, test := range []struct {
		env  []string
		want []string
	}{
		{[]string{"REDIS_PERSECOND_URL", "rediss://b", "REDIS_PERSECOND_TLS", "false"},
			[]string{`REDIS_PERSECOND_TLS: "false" contradicts rediss:// in REDIS_PERSECOND_URL; ` +
				"allowed: true, or redis:// in REDIS_PERSECOND_URL"}},
		// a URL that is not valid hides no other fault
		{[]string{"REDIS_PERSECOND_URL", "http://b", "REDIS_PERSECOND_SENTINEL_AUTH", "x", "REDIS_PERSECOND_AUTH", "u:"},
			[]string{`REDIS_PERSECOND_URL: "http://b" is no address of Redis`, "REDIS_PERSECOND_SENTINEL_AUTH: ",
				"REDIS_PERSECOND_AUTH: "}},
		{[]string{"REDIS_PERSECOND_URL", "rediss://b/x", "REDIS_PERSECOND_TLS", "0", "REDIS_PERSECOND_SENTINEL_AUTH", "x"},
			[]string{"REDIS_PERSECOND_URL: ", "REDIS_PERSECOND_TLS: ", "REDIS_PERSECOND_SENTINEL_AUTH: "}},
		{[]string{"REDIS_PERSECOND_URL", "a/b", "REDIS_PERSECOND_SENTINEL_AUTH", "x"},
			[]string{`REDIS_PERSECOND_URL: "a/b" names no host and port`, "REDIS_PERSECOND_SENTINEL_AUTH: "}},
	} {
		_, err := parse(append(test.env, both...)...)
		lines := strings.Split(fmt.Sprint(err), "\n")
		if !slices.EqualFunc(lines, test.want, strings.HasPrefix) {
			t.Errorf("%v: got %q, want lines that begin with %q", test.env, lines, test.want)
		}
	}
}
