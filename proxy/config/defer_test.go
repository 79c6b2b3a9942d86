package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/test/testkit"
)

// A key has 32 bytes, and matters with a queue only; without one nothing is deferred.
func TestDeferKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	for bytes, want := range map[int]string{31: "has 31 bytes; allowed: a regular file of 32 bytes", 32: "",
		33: "is larger than 32 bytes"} {
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

// Only queues in files are of one proxy.
func TestDeferAdvertise(t *testing.T) {
	const list = "http://a,http://b"
	if s := must(t, "DEFER_URL", "file:/q", "DEFER_ADVERTISE", list).Defer.ProxyURLs(); len(s) != 2 {
		t.Errorf("%d instances", len(s))
	}
	if s := must(t, "DEFER_URL", "redis:", "REDIS_HOST", "h", "DEFER_ADVERTISE", list).Defer.ProxyURLs(); s != nil {
		t.Errorf("a shared queue has the instances %v, want none", s)
	}
	if _, err := parse("DEFER_URL", "file:/q", "DEFER_ADVERTISE", "a"); err == nil ||
		!strings.Contains(err.Error(), `DEFER_ADVERTISE: "a" is not such a URL; allowed: http://host:port`) {
		t.Errorf("%v", err)
	}
}

// Hosts that are called back need a secret; without a queue neither matters.
func TestDeferCallbacks(t *testing.T) {
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	c := must(t, "DEFER_URL", "file:/q", "DEFER_CALLBACK_HOSTS", "hooks.example.com", "DEFER_CALLBACK_SECRET", secret)
	if len(c.Defer.Secret) != 24 || c.Session().Callbacks == nil || !c.RuleOptions().Callbacks {
		t.Errorf("%+v", c.Defer)
	}
	if c := must(t, "DEFER_URL", "file:/q", "DEFER_CALLBACK_SECRET", "x"); c.Session().Callbacks != nil ||
		c.RuleOptions().Callbacks {
		t.Errorf("without hosts: callbacks of sessions %v, of rules %t; want none", c.Session().Callbacks,
			c.RuleOptions().Callbacks)
	}
	f := func(want string, env ...string) {
		t.Helper()
		if _, err := parse(append(env, "DEFER_URL", "file:/q")...); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "too short") {
			t.Errorf("%q: %v, want %q", env, err, want)
		}
	}
	f("DEFER_CALLBACK_SECRET: \"\" is missing, and DEFER_CALLBACK_HOSTS is set; allowed: whsec_ and base64",
		"DEFER_CALLBACK_HOSTS", "a")
	f("DEFER_CALLBACK_SECRET: \"***\" has 9 bytes; allowed", "DEFER_CALLBACK_HOSTS", "a", "DEFER_CALLBACK_SECRET",
		"too short")
	f(`DEFER_CALLBACK_HOSTS: "http://a" is not a host; allowed: names or addresses`, "DEFER_CALLBACK_HOSTS",
		"http://a", "DEFER_CALLBACK_SECRET", secret)
}

// A queue in Redis is on the server of the limits, or on another, with the settings of Redis.
func TestDeferInRedis(t *testing.T) {
	for _, test := range []struct{ url, host, want string }{
		{"redis:", "h", "[h:6379]"}, {"redis://q:1", "", "[q:1]"}, {"redis://q,r:2", "h", "[q:6379 r:2]"},
	} {
		c := must(t, "DEFER_URL", test.url, "REDIS_HOST", test.host, "REDIS_PASSWORD", "x", "REDIS_KEY_PREFIX", "w:")
		if r := c.Defer.redis; fmt.Sprint(r.Addrs) != test.want || r.Password != "x" || r.KeyPrefix != "w:" ||
			!c.Defer.Used() {
			t.Errorf("%s: %+v", test.url, r)
		}
	}
}

// A queue in PostgreSQL has a URL of its own or that of limits, and nothing shows its password.
func TestDeferPostgres(t *testing.T) {
	const url = "postgres://weir:s3cret@localhost/weir"
	for _, test := range []struct {
		env           []string
		setting, told string
	}{
		{[]string{"DEFER_URL", url}, "DEFER_URL", ""},
		{[]string{"DEFER_URL", "postgres:", "POSTGRES_URL", url}, "POSTGRES_URL", ""},
		{[]string{"DEFER_URL", url, "POSTGRES_URL", "postgres://other@localhost/weir"}, "DEFER_URL", ""},
		{[]string{"DEFER_URL", "postgres:"}, "", "names no server, and POSTGRES_URL is not set"},
		{[]string{"DEFER_URL", "postgres://localhost/weir?password=s3cret"}, "", "names no user"},
		{[]string{"DEFER_URL", "postgres://weir:12/s3cret@localhost/weir"}, "", "DEFER_URL"},
		{[]string{"DEFER_URL", "mysql://weir:s3cret@localhost/weir"}, "",
			"is not file: and an absolute path, nor a redis: or postgres: URL"},
	} {
		c, err := parse(test.env...)
		switch {
		case test.told == "" && (err != nil || !c.Defer.Used() || c.Defer.setting != test.setting ||
			c.Defer.inPostgres != url):
			t.Errorf("%q: %v, the queue of %s", test.env, err, c.Defer.setting)
		case test.told != "" && (err == nil || !strings.Contains(err.Error(), test.told) ||
			strings.Contains(err.Error(), "s3cret")):
			t.Errorf("%q: %v, want %q", test.env, err, test.told)
		}
	}
	for _, env := range [][]string{{"DEFER_URL", url}, {}} {
		c := must(t, append(env, "POSTGRES_SCHEMA", "orders")...)
		if why := c.withoutPostgres(); (why == "") != (len(env) > 0) {
			t.Errorf("%q: the schema has no effect %q", env, why)
		}
	}
	testkit.Contains(t, must(t, "POSTGRES_MIGRATE", "print").PostgresSchema(), "take_1", "deferred_put_1")
}
