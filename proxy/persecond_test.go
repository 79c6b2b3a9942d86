package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"weir/internal/test/testkit"
	"weir/proxy/store/redis/redistest"
)

// With REDIS_PERSECOND limits per second are in a second Redis, and only there. While it does not answer, the other
// limits are decided, and those per second follow the failure mode.
func TestRedisPerSecond(t *testing.T) {
	first, second := redistest.Start(t), redistest.Start(t)
	root := t.TempDir()
	testkit.WriteFile(t, filepath.Join(root, "shop.yaml"), `
domain: shop
descriptors:
- {key: second, rate_limit: {unit: second, requests_per_unit: 100000}}
- {key: year, rate_limit: {unit: year, requests_per_unit: 100000}}
- {key: weir, rate_limit: {algorithm: token, capacity: 100000, fillRate: 100000}}
`)
	cmd, http, _, debug := asRatelimit(t, "RUNTIME_ROOT", root, "RUNTIME_APPDIRECTORY", ".", "REDIS_SOCKET_TYPE", "tcp",
		"REDIS_URL", first.Addr(), "REDIS_PERSECOND", "true", "REDIS_PERSECOND_SOCKET_TYPE", "tcp",
		"REDIS_PERSECOND_URL", second.Addr(), "REDIS_PERSECOND_POOL_SIZE", "5", "LOG_LEVEL", "WARN")
	p := testkit.StartAt(t, cmd, "127.0.0.1:"+debug)
	ask := func(more string, keys ...string) string {
		var all []string
		for _, key := range keys {
			all = append(all, `{"entries":[{"key":"`+key+`","value":"x"}]`+more+`}`)
		}
		return `{"domain":"shop","descriptors":[` + strings.Join(all, ",") + `]}`
	}
	const back = `,"hitsAddend":1,"isNegativeHits":true`
	ours, metrics := p.At(http), p.At(debug)
	ours.Await("GET /healthcheck", 200, "OK") // the debug port is open earlier
	ours.Require("POST /json", 200, `"limitRemaining":99999`, ask("", "second", "year", "weir"))
	ours.Require("POST /json", 200, "", ask(back, "second", "year", "weir"))
	var there, here string
	testkit.Eventually(t, "a key of the limit per second is in the second Redis", func() bool {
		ours.Require("POST /json", 200, "", ask("", "second", "year", "weir"))
		there, here = second.Do("KEYS", "*rls/*"), first.Do("KEYS", "*rls/*") // keys of a second soon expire
		return strings.Contains(there, "rls/shop/second") && strings.Contains(here, "rls/shop/year")
	})
	if strings.Contains(there, "year") || strings.Contains(there, "weir") || strings.Contains(here, "second") {
		t.Errorf("the second Redis has %q, the first one %q", there, here)
	}

	second.Signal(syscall.SIGSTOP)
	ours.Await("POST /json", 500, "store is unavailable", ask("", "second"))
	p.Logged("WARN RedisPerSecond - Redis connection lost, entering closed mode")
	ours.Require("POST /json", 200, `"limitRemaining":`, ask("", "year", "weir"))
	ours.Require("POST /json", 500, "", ask("", "second", "year"))
	ours.Require("POST /json", 200, "", ask(back, "year"))
	ours.Require("POST /json", 500, "", ask(back, "second"))
	metrics.Require("GET /metrics", 200, "\nratelimiter_redis_connected 1\n")
	metrics.Require("GET /metrics", 200, "\nratelimiter_redis_connected{store=\"persecond\"} 0\n")
	metrics.Await("GET /actuator/health", 200, `"storePerSecond":{"status":"DOWN","mode":"closed"}`)
	second.Signal(syscall.SIGCONT)
	ours.Await("POST /json", 200, `"limitRemaining":`, ask("", "second"))
	p.Logged("WARN RedisPerSecond - Redis reconnected, resuming normal operation")

	first.Signal(syscall.SIGSTOP)
	ours.Await("POST /json", 500, "store is unavailable", ask("", "year"))
	ours.Require("POST /json", 200, `"limitRemaining":`, ask("", "second"))

	second.Do("CONFIG", "SET", "requirepass", "secret")
	cmd, _, _, _ = asRatelimit(t, "RUNTIME_ROOT", root, "RUNTIME_APPDIRECTORY", ".", "REDIS_SOCKET_TYPE", "tcp",
		"REDIS_URL", redistest.Start(t).Addr(), "REDIS_PERSECOND", "true", "REDIS_PERSECOND_URL", second.Addr(),
		"REDIS_PERSECOND_AUTH", "wrong")
	if _, line := testkit.RequireExit(t, cmd, 2); !strings.Contains(line, "REDIS_PERSECOND_URL cannot be used: ") {
		t.Errorf("told %q", line)
	}
	cmd, _, _, _ = asRatelimit(t, "RUNTIME_ROOT", root, "RUNTIME_APPDIRECTORY", ".", "REDIS_SOCKET_TYPE", "tcp",
		"REDIS_URL", second.Addr())
	_, line := testkit.RequireExit(t, cmd, 2)
	for _, part := range []string{`proxy: REDIS_URL: "` + second.Addr() + `" cannot be used: `, "; see REDIS_AUTH, or"} {
		if !strings.Contains(line, part) {
			t.Errorf("told %q, want the names of variables that were set: %s", line, part)
		}
	}
}
