package redis

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/program/metric"
	"weir/internal/test/testkit"
	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/store"
	"weir/proxy/store/lane"
	"weir/proxy/store/redis/redistest"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	good := Config{Addrs: []string{"h:6379"}}
	for _, test := range []struct {
		change func(c *Config)
		want   string // empty: nothing wrong
	}{
		{func(c *Config) {}, ""},
		{func(c *Config) { c.Addrs = nil }, "Addrs: is empty"},
		{func(c *Config) { c.Addrs = []string{"h"} }, `Addrs: "h" is not host:port`},
		{func(c *Config) { c.Addrs = []string{"h:1", "h:2"} }, ""},
		{func(c *Config) { c.Addrs, c.Topology = []string{"h:1", "h:2"}, Cluster }, ""},
		{func(c *Config) { c.Addrs, c.Topology = []string{"h:1", "h:2"}, Single },
			"Addrs: cannot be used with a single server"},
		{func(c *Config) { c.Topology, c.DB = Single, 1 }, ""},
		{func(c *Config) { c.Addrs, c.SentinelMaster = []string{"h:1", "h:2"}, "m" }, ""},
		{func(c *Config) { c.Topology, c.SentinelMaster, c.DB = Sentinel, "m", 1 }, ""},
		{func(c *Config) { c.Topology = Sentinel }, "SentinelMaster: is missing; allowed: the name of the master"},
		{func(c *Config) { c.Topology, c.SentinelMaster = Cluster, "m" }, "SentinelMaster: has no effect without Sentinels"},
		{func(c *Config) { c.Topology, c.SentinelMaster = Single, "m" }, "SentinelMaster: has no effect without Sentinels"},
		{func(c *Config) { c.SentinelPassword = "p" }, "SentinelPassword: has no effect without Sentinels"},
		{func(c *Config) { c.SentinelUsername = "u" }, "SentinelUsername: has no effect without Sentinels"},
		{func(c *Config) { c.SentinelMaster, c.SentinelUsername = "m", "u" }, "SentinelPassword: is missing"},
		{func(c *Config) { c.Topology, c.DB = Cluster, 1 }, "DB: cannot be used with a Cluster; allowed: 0"},
		{func(c *Config) { c.Addrs, c.DB = []string{"h:1", "h:2"}, 1 }, "DB: cannot be used with a Cluster"},
		{func(c *Config) { c.Topology = Sentinel + 1 }, "Topology: is unknown"},
		{func(c *Config) { c.TLSCAFile = "f" }, "TLSCAFile: has no effect without TLS"},
		{func(c *Config) { c.TLSServerName = "n" }, "TLSServerName: has no effect without TLS"},
		{func(c *Config) { c.TLSAnyName = true }, "TLSAnyName: has no effect without TLS"},
		{func(c *Config) { c.TLSCertFile, c.TLSKeyFile = "c", "k" }, "TLSCertFile: has no effect without TLS"},
		{func(c *Config) { c.Addrs = []string{"/run/redis.sock"} }, ""},
		{func(c *Config) { c.Addrs, c.SentinelMaster = []string{"/s"}, "m" }, `Addrs: "/s" cannot be used with a Cluster`},
		{func(c *Config) { c.Addrs = []string{"/a", "h:1"} }, `Addrs: "/a" cannot be used with a Cluster`},
		{func(c *Config) { c.DB = -1 }, "DB: must be at least 0, is -1"},
		{func(c *Config) { c.Username = "u" }, "Password: is missing"},
		{func(c *Config) { c.KeyPrefix = "a{b" }, "KeyPrefix: must have no braces"},
		{func(c *Config) { c.Timeout = timeoutMax }, ""},
		{func(c *Config) { c.Timeout = timeoutMax + 1 }, "Timeout: must be 1ms to 2s"},
		{func(c *Config) { c.Timeout = time.Microsecond }, "Timeout: must be 1ms to 2s"},
		{func(c *Config) { c.Failure = store.Cached }, "Failure: must be FailOpen, Local or Closed"},
		{func(c *Config) { c.Failure = store.Local }, "Local: mode local needs a store"},
		{func(c *Config) { c.Failure, c.Local = store.Local, newLocal(t) }, ""},
		{func(c *Config) { c.InFlight = 64 }, ""},
		{func(c *Config) { c.InFlight = 65 }, "InFlight: must be 1 to 64, is 65"},
		{func(c *Config) { c.WaitingMax = -1 }, "WaitingMax: must be at least 1"},
	} {
		cfg := good
		test.change(&cfg)
		err := cfg.Validate()
		if got := fmt.Sprint(err); test.want == "" && err != nil || !strings.HasPrefix(got, test.want) && test.want != "" {
			t.Errorf("%v, want %q", err, test.want)
		}
		if c, errNew := New(cfg); err != nil && (c != nil || errNew == nil) {
			t.Errorf("New made a client of what has the fault %v", err)
		} else if c != nil {
			c.Close()
		}
	}
	bad := Config{DB: -1, Config: lane.Config{InFlight: -1}}
	if n := strings.Count(bad.Validate().Error(), "; "); n != 2 {
		t.Errorf("not all faults: %v", bad.Validate())
	}
}

// TLS with an authority of one's own, and an ACL user who may no more than needed.
func TestTLSAndUser(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "redis.sock")
	s, addr, certFile, keyFile := redistest.StartTLS(t, "--databases", "4", "--unixsocket", socket)
	allow(s, "w:")
	cfg := Config{Config: lane.Config{Timeout: timeoutMax}, Addrs: []string{addr}, dialTimeout: timeoutMax, TLS: true,
		TLSCAFile: certFile, Username: "weir", Password: "secret", DB: 3, KeyPrefix: "w:"}
	c := newTestStore(t, cfg)
	l := newLoop(t, c)
	if ans := l.ask(1, counter("k", fixed(10))); ans.Mode != store.Exact || ans.Granted != 1 {
		t.Errorf("got %+v", ans)
	}
	if _, written, err := c.CompareAndSet(docName, 0, []byte("1")); err != nil || !written {
		t.Errorf("document: %v, %v", written, err)
	}
	if changed, err := c.Add("r", []byte("k"), 1); !changed || err != nil {
		t.Errorf("give: %v, %v", changed, err)
	}
	if _, err := c.Forget("r", []byte("k")); err != nil {
		t.Error(err)
	}
	if n := s.Do("-n", "3", "exists", "w:"+docName); n != "1" {
		t.Errorf("the document is not in database 3: %s", n)
	}
	for name, change := range map[string]func(*Config){
		"a unix socket":     func(cfg *Config) { cfg.TLS, cfg.TLSCAFile, cfg.Addrs = false, "", []string{socket} },
		"another name, any": func(cfg *Config) { cfg.TLSServerName, cfg.TLSAnyName = "example.com", true },
		"a certificate of ours": func(cfg *Config) {
			s.Do("config", "set", "tls-auth-clients", "yes")
			cfg.TLSCertFile, cfg.TLSKeyFile = certFile, keyFile
		},
	} {
		right := cfg
		change(&right)
		if c := newTestStore(t, right); !c.Connected() {
			t.Errorf("%s: not connected", name)
		}
		s.Do("config", "set", "tls-auth-clients", "no")
	}
	for name, change := range map[string]func(*Config){
		"no certificate of ours": func(*Config) { s.Do("config", "set", "tls-auth-clients", "yes") },
		"not trusted, any name":  func(cfg *Config) { cfg.TLSCAFile, cfg.TLSAnyName = "", true },
		"not trusted":            func(cfg *Config) { cfg.TLSCAFile = "" },
		"no authority":           func(cfg *Config) { cfg.TLSCAFile = keyFile },
		"another name":           func(cfg *Config) { cfg.TLSServerName = "example.com" },
		"TLS on a port":          func(cfg *Config) { cfg.Addrs = []string{s.Addr()} },
		"none on TLS's":          func(cfg *Config) { cfg.TLS, cfg.TLSCAFile = false, "" },
	} {
		wrong, log := cfg, new(testkit.Log)
		change(&wrong)
		wrong.Log = log.Logger()
		if c := newTestStore(t, wrong); c.Connected() || log.Count("Redis connection lost, entering fail-open mode") != 1 {
			t.Errorf("%s: connected %v, logged %s", name, c.Connected(), log.String())
		}
		s.Do("config", "set", "tls-auth-clients", "no")
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	minute := limittest.Must(limit.Config{Algorithm: limit.Fixed, Limit: 100, Window: 60})
	token := limittest.Must(limit.Config{Algorithm: limit.Token, Capacity: 1, FillRate: 1})
	for _, test := range []struct {
		prefix, rule, key string
		limit             *limit.Limit
		want              string
	}{
		{"", "per-partner", "acme", minute, "ratelimiter:11:per-partner{4:acme}fixed:60000000"},
		{"weir:", "global", "", token, "weir:ratelimiter:6:global{0:}token"},
		{"", "r", "}", token, "ratelimiter:1:r{1:}}token"},
		{"", "config", "", token, "ratelimiter:6:config{0:}token"},
	} {
		if got := string(appendName([]byte("x"), test.prefix, &store.Counter{Rule: test.rule, Key: []byte(test.key),
			Limit: test.limit})); got != "x"+test.want {
			t.Errorf("(%s, %s) is called %q, want %q", test.rule, test.key, got, test.want)
		}
	}
	// rules with the same key are in one slot, whatever the key is made of
	for _, key := range []string{"", "acme", "}", "{", "{}", "a}b", "\x00\xff", strings.Repeat("k", 500)} {
		first := slotOf(string(appendName(nil, "p:", &store.Counter{Rule: "one", Key: []byte(key), Limit: minute})))
		if second := slotOf(string(appendName(nil, "p:",
			&store.Counter{Rule: "two", Key: []byte(key), Limit: token}))); first != second {
			t.Errorf("key %.10q: slots %d and %d", key, first, second)
		}
	}
}

// The prober writes into the slot that failed.
func TestProbeNames(t *testing.T) {
	t.Parallel()
	c := &backend{cfg: Config{KeyPrefix: "w:"}}
	for suspect, want := range map[string]string{
		"":                            "w:ratelimiter:probe",
		"w:" + docName:                "w:ratelimiter:probe", // which is looked at, too
		"w:ratelimiter:6:global{1:k}": "w:ratelimiter:6:global{1:k}ratelimiter:probe",
		"w:ratelimiter:6:global{1:}}": "w:ratelimiter:6:global{1:}}ratelimiter:probe",
		"w:ratelimiter:3:a{b{4:acme}": "w:ratelimiter:3:a{b{4:acme}ratelimiter:probe",
	} {
		got := c.probeName(suspect)
		if got != want || strings.Contains(suspect, "{") && slotOf(got) != slotOf(suspect) {
			t.Errorf("after %q: %q, want %q", suspect, got, want)
		}
	}
}

// Slots as the server computes them.
func TestSlots(t *testing.T) {
	t.Parallel()
	s := redistest.StartNode(t)
	for _, name := range []string{"", "123456789", "foo", "{user1000}.following", "foo{}{bar}", "foo{{bar}}zap",
		"foo{bar}{zap}", "a}b{c", "ratelimiter:11:per-partner{4:acme}token"} {
		if got, want := fmt.Sprint(slotOf(name)), s.Do("cluster", "keyslot", name); got != want {
			t.Errorf("%q is in slot %s, the server says %s", name, got, want)
		}
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	s, c, l := newWorld(t)
	set := metric.New()
	c.Register(set)
	l.ask(3, counter("k", fixed(2)))
	l.ask(4, counter("k", fixed(2)))
	has := func(lines ...string) {
		t.Helper()
		var b bytes.Buffer
		set.Write(&b)
		for _, line := range lines {
			if !strings.Contains(b.String(), "\n"+line+"\n") {
				t.Errorf("no line %q in\n%s", line, b.String())
			}
		}
	}
	has("ratelimiter_redis_connected 1", `ratelimiter_mode{type="normal"} 1`, `ratelimiter_mode{type="failopen"} 0`,
		"ratelimiter_store_decisions_total 3", "ratelimiter_store_remembered_total 4", "ratelimiter_redis_errors_total 0",
		fmt.Sprintf("ratelimiter_store_commands_total %d", c.Stats().Commands),
		"ratelimiter_redis_request_duration_seconds_count 2", // the script was not known at first
		`ratelimiter_store_undecided_total{reason="away"} 0`)
	s.Kill()
	testkit.Eventually(t, "redis counts as away", func() bool { return !c.Connected() })
	l.ask(5, counter("k", fixed(2)))
	has("ratelimiter_redis_connected 0", `ratelimiter_mode{type="normal"} 0`, `ratelimiter_mode{type="failopen"} 1`,
		`ratelimiter_mode{type="local"} 0`, `ratelimiter_mode{type="closed"} 0`,
		"ratelimiter_store_decisions_total 3", `ratelimiter_store_undecided_total{reason="away"} 5`)
}
