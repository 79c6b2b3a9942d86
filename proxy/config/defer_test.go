package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A key has 32 bytes, and matters with a queue only; without one nothing is deferred.
func TestDeferKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	for bytes, want := range map[int]string{31: "has 31 bytes; allowed: a file of 32 bytes", 32: "", 33: "has 33 bytes"} {
		if err := os.WriteFile(file, make([]byte, bytes), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := parse("DEFER_URL", "file:/q", "DEFER_KEY_FILE", file)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("of %d bytes: %v, want %q", bytes, err, want)
		}
	}
	if s := must(t, "DEFER_KEY_FILE", "/nowhere").Session(); s.DeferPath != "" {
		t.Errorf("without a queue the path is %q", s.DeferPath)
	}
	if must(t, "DEFER_URL", "file:/q", "TARGET_URL", "none", "DECISION_PORT", "8083").RuleOptions().Defers {
		t.Error("rules may have requests kept that nothing delivers")
	}
	c := must(t, "DEFER_URL", "file:/q", "DEFER_PATH", "/later/", "DEFER_BODY_MAX", "1KiB")
	if s := c.Session(); s.DeferPath != "/later/" || s.DeferBodyMax != 1<<10 || !c.RuleOptions().Defers {
		t.Errorf("%+v", s)
	}
}

// Hosts that are called back need a secret; without a queue neither matters.
func TestDeferCallbacks(t *testing.T) {
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	c := must(t, "DEFER_URL", "file:/q", "DEFER_CALLBACK_HOSTS", "hooks.example.com", "DEFER_CALLBACK_SECRET", secret)
	if len(c.Defer.Secret) != 24 || c.Session().Callbacks == nil || !c.RuleOptions().Callbacks {
		t.Errorf("%+v", c.Defer)
	}
	if c := must(t, "DEFER_URL", "file:/q", "DEFER_CALLBACK_SECRET", "x"); c.Session().Callbacks != nil || c.RuleOptions().Callbacks {
		t.Error("without hosts somebody is called back")
	}
	f := func(want string, env ...string) {
		t.Helper()
		if _, err := parse(append(env, "DEFER_URL", "file:/q")...); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "too short") {
			t.Errorf("%q: %v, want %q", env, err, want)
		}
	}
	f("DEFER_CALLBACK_SECRET: \"\" is missing, and DEFER_CALLBACK_HOSTS is set; allowed: whsec_ and base64", "DEFER_CALLBACK_HOSTS", "a")
	f("DEFER_CALLBACK_SECRET: \"***\" has 9 bytes; allowed", "DEFER_CALLBACK_HOSTS", "a", "DEFER_CALLBACK_SECRET", "too short")
	f(`DEFER_CALLBACK_HOSTS: "http://a" is no host; allowed: names or addresses`, "DEFER_CALLBACK_HOSTS", "http://a", "DEFER_CALLBACK_SECRET", secret)
}

// A queue in Redis is on the server of the limits, or on another, with the settings of Redis.
func TestDeferInRedis(t *testing.T) {
	for _, test := range []struct{ url, host, want string }{
		{"redis:", "h", "[h:6379]"}, {"redis://q:1", "", "[q:1]"}, {"redis://q,r:2", "h", "[q:6379 r:2]"},
	} {
		c := must(t, "DEFER_URL", test.url, "REDIS_HOST", test.host, "REDIS_PASSWORD", "x", "REDIS_KEY_PREFIX", "w:")
		if r := c.Defer.redis; fmt.Sprint(r.Addrs) != test.want || r.Password != "x" || r.KeyPrefix != "w:" || !c.Defer.Used() {
			t.Errorf("%s: %+v", test.url, r)
		}
	}
}
