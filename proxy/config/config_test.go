package config

import (
	"errors"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/net/admit"
	"weir/internal/net/http1"
	"weir/internal/program/service"
	"weir/internal/test/testkit"
	"weir/proxy/limit"
	"weir/proxy/rules/decide"
	"weir/proxy/targets/upstream"
)

// parse reads settings as the program does: an environment of names and values
// in turn, then what they mean together.
func parse(env ...string) (*Config, error) {
	c := new(Config)
	s := service.NewSettings("proxy")
	c.Register(s)
	_, err := s.Parse(nil, testkit.Env(env))
	if err == nil {
		err = c.Complete()
	}
	return c, err
}

func must(t *testing.T, env ...string) *Config {
	t.Helper()
	return testkit.Must(parse(env...))(t)
}

func TestDefaults(t *testing.T) {
	c := must(t)
	if addrs(c.Targets) != "127.0.0.1:8081" || c.Balance != upstream.P2C {
		t.Errorf("targets %v, balance %v", c.Targets, c.Balance)
	}
	want := limit.Config{Algorithm: limit.Fixed, Limit: 100, Window: 1, Capacity: 100, FillRate: 100}
	if c.Limit != want {
		t.Errorf("limit %+v", c.Limit)
	}
	s := c.Session()
	if s.Head.HeadBytes != 16<<10 || s.Head.Fields != 100 || s.ResponseHead.HeadBytes != 32<<10 ||
		s.ResponseHead.Fields != 200 || s.BufferBytesMax != 256<<10 || s.BodyBytesMax != 0 {
		t.Errorf("bounds %+v", s)
	}
	if s.HeadTimeout != 10*time.Second || s.BodyTimeout != 15*time.Second || s.IdleTimeout != time.Minute ||
		s.ConnectTimeout != time.Second || s.TargetTimeout != 10*time.Second || c.TargetIdle != 30*time.Second ||
		c.DrainTimeout != 30*time.Second {
		t.Errorf("times %+v, %v, %v", s, c.TargetIdle, c.DrainTimeout)
	}
	if !s.PreserveHost || s.Style.LimitFields != decide.XRateLimit|decide.Standard {
		t.Errorf("fields %+v", s)
	}
	if l := c.Loop(); l.Loops < 1 || l.ConnectionsMax != 0 || l.WriteStall != 15*time.Second {
		t.Errorf("loops %+v", l)
	}
	if c.KeysMax != 10_000_000 {
		t.Errorf("KeysMax %d", c.KeysMax)
	}
}

// A container's CPU limit is known to Go by GOMAXPROCS, not by NumCPU.
func TestEventLoopsAreWhatGoUses(t *testing.T) {
	most := runtime.GOMAXPROCS(runtime.NumCPU() + 1)
	defer runtime.GOMAXPROCS(most)
	if n := must(t).Loop().Loops; n != runtime.NumCPU()+1 {
		t.Errorf("%d loops, want %d", n, runtime.NumCPU()+1)
	}
}

func TestTargets(t *testing.T) {
	for _, test := range []struct{ url, want string }{
		{"http://127.0.0.1:8081", "127.0.0.1:8081"},
		{"http://target", "target:80"},
		{"http://target/", "target:80"},
		{"HTTP://target:1", "target:1"},
		{"http://[::1]:9000", "[::1]:9000"},
		{"http://[::1]", "[::1]:80"},
		{"http://a:1,http://b:2", "a:1 b:2"},
		{" http://a:1 , http://b:2 ", "a:1 b:2"},
	} {
		if c := must(t, "TARGET_URL", test.url); addrs(c.Targets) != test.want {
			t.Errorf("%s: %v, want %s", test.url, c.Targets, test.want)
		}
	}
}

// wrong are values that settings cannot have.
var wrong = []struct {
	name, value string
	sentence    string // a part of the error, besides name and value
}{
	{"TARGET_URL", "ftp://target", "does not begin with http://, https://, h2c:// or h2://; allowed: http://host:port"},
	{"TARGET_URL", "http://a:80,http://a", `"http://a:80" is listed twice`},
	{"TARGET_URL", "target:8081", "allowed: http://host:port"},
	{"TARGET_URL", "http://", "is not a URL"},
	{"TARGET_URL", "http://:8081", "has no host"},
	{"TARGET_URL", "http://target:0", "port that is not from 1 to 65535"},
	{"TARGET_URL", "http://target:65536", "port that is not from 1 to 65535"},
	{"TARGET_URL", "http://target:http", "is not a URL"},
	{"TARGET_URL", "http://target/api", "has more than host and port"},
	{"TARGET_URL", "http://target?a", "has more than host and port"},
	{"TARGET_URL", "http://me@target", "has more than host and port"},
	{"TARGET_URL", "http://a:1,", "is not a URL"},
	{"TARGET_URL", "http://a:1,,http://b:1", "is not a URL"},
	{"TARGET_BALANCE", "random", "allowed: p2c, round_robin, least_inflight"},
	{"HOST_HEADER", "both", "allowed: preserve, target"},
	{"TRUSTED_PROXIES", "10.0.0",
		"must be a network or an address such as 10.0.0.0/8 or 2001:db8::1; allowed: networks and addresses"},
	{"TRUSTED_PROXIES", "10.0.0.0/8,", "must be a network or an address"},
	{"TRUSTED_PROXIES", "::ffff:10.0.0.0/104", "must be written as IPv4"},
	{"TRUSTED_PROXIES", "64:ff9b::10.0.0.0/104", "must be written as IPv4"},
	{"UNTRUSTED_FIELDS", "X-A,", `"" must have 1 to 63 characters`},
	{"UNTRUSTED_FIELDS", "X-A,*", `"*" must have 1 to 63 characters`},
	{"UNTRUSTED_FIELDS", "X-*-A", `"X-*-A" has characters other than letters, digits and -; allowed: names`},
	{"RATE_LIMIT_ALGORITHM", "magic", "allowed: fixed, sliding, token, sliding_log, gcra, leaky, off"},
	{"RATE_LIMIT_LIMIT", "0", "is out of range; allowed: 1 … "},
	{"RATE_LIMIT_LIMIT", "1.5", "is not a whole number"},
	{"RATE_LIMIT_WINDOW", "0", "is out of range; allowed: "},
	{"RATE_LIMIT_WINDOW", "NaN", "is out of range"},
	{"RATE_LIMIT_WINDOW", "1s", "is not a number"},
	{"RATE_LIMIT_CAPACITY", "-1", "is out of range; allowed: 1 … "},
	{"RATE_LIMIT_FILL_RATE", "0", "is out of range; allowed: "},
	{"UNDERSCORED_FIELDS", "yes", "allowed: drop, keep"},
	{"TRAILERS", "on", "allowed: pass, drop"},
	{"RATE_LIMIT_HEADERS", "all", "allowed: off, legacy, standard, both, envoy"},
	{"KEYS_MAX", "0", "is out of range; allowed: 1 … 2147483647"},
	{"EVENT_LOOPS", "0", "is out of range; allowed: 1 … 1024"},
	{"MAX_CONNECTIONS", "-1", "is out of range; allowed: 0 … 16777216"},
	{"TARGET_MAX_CONNECTIONS", "0", "is out of range; allowed: 1 … 1048576"},
	{"HEAD_MAX_BYTES", "1023", "is out of range; allowed: 1KiB … 1MiB"},
	{"HEAD_MAX_BYTES", "a lot", "is not a number of bytes"},
	{"FIELDS_MAX", "0", "is out of range; allowed: 1 … 10000"},
	{"TARGET_HEAD_MAX_BYTES", "2MiB", "is out of range; allowed: 1KiB … 1MiB"},
	{"TARGET_FIELDS_MAX", "0", "is out of range; allowed: 1 … 10000"},
	{"BODY_MAX_BYTES", "-1", "is out of range"},
	{"BODY_BUFFER_BYTES", "1023", "is out of range; allowed: 1KiB … 1GiB"},
	{"HEAD_TIMEOUT", "0s", "is out of range; allowed: 1ms … 24h"},
	{"HEAD_TIMEOUT", "10", "is not a duration"},
	{"BODY_TIMEOUT", "0s", "is out of range; allowed: 1ms … 24h"},
	{"IDLE_TIMEOUT", "25h", "is out of range; allowed: 1ms … 24h"},
	{"WRITE_TIMEOUT", "0s", "is out of range; allowed: 1ms … 24h"},
	{"TARGET_CONNECT_TIMEOUT", "0s", "is out of range; allowed: 1ms … 24h"},
	{"TARGET_WAIT_TIMEOUT", "-1s", "is out of range; allowed: 0s … 24h"},
	{"TARGET_STREAM_SHARE", "0", "is out of range; allowed: 0.01 … 1"},
	{"TARGET_TIMEOUT", "0s", "is out of range; allowed: 1ms … 24h"},
	{"TARGET_IDLE_TIMEOUT", "0s", "is out of range; allowed: 1ms … 24h"},
	{"DRAIN_TIMEOUT", "-1s", "is out of range; allowed: 0s … 24h"},
	{"TARGET_HEALTH_PATH", "health", "does not begin with /"},
	{"TARGET_HEALTH_PATH", "/he alth", "bytes that a path cannot have"},
	{"TARGET_HEALTH_INTERVAL", "1ms", "is out of range; allowed: 10ms … 24h"},
	{"ADMIN_PORT", "65536", "is out of range; allowed: 0 … 65535"},
	{"TAKEOVER", "perhaps", "is neither true nor false"},
	{"MEMORY_BUDGET", "-1", "is out of range"},
	{"MAX_CONNECTIONS_PER_IP", "-1", "is out of range; allowed: 0 … 16777216"},
	{"BODY_MIN_RATE", "-1", "is out of range"},
	{"STREAM_TIMEOUT", "0s", "is out of range; allowed: 1ms … 24h"},
	{"TUNNEL_TIMEOUT", "0s", "is out of range; allowed: 1ms"},
	{"DRAIN_GRACE", "-1s", "is out of range; allowed: 0s … 24h"},
	{"UPGRADES", "websocket,h2c", `"h2c" is not supported`},
	{"UPGRADES", "web socket", "is not supported"},
	{"VIA_NAME", "a b", "is not a name"},
	{"DEFER_URL", "redis:x", "is neither redis: nor redis://host:port; set REDIS_TLS for TLS"},
	{"DEFER_URL", "rediss://h", "is neither redis: nor redis://host:port; set REDIS_TLS for TLS"},
	{"DEFER_URL", "redis:", "means the server of REDIS_HOST, which is not set"},
	{"DEFER_URL", "redis://u:p@h", "names no host and port"},
	{"DEFER_URL", "file:queue", "is not file: and an absolute path"},
	{"DEFER_PATH", "later/", "is not such a path"},
	{"DEFER_PATH", "/later", "is not such a path"},
	{"DEFER_PATH", "/config/later/", "is below /config/, which the proxy uses itself"},
	{"DEFER_MAX", "0", "is out of range; allowed: 1 … 10000000"},
	{"DEFER_RATE", "0", "is out of range; allowed: 1 … 1000000"},
	{"DEFER_BODY_MAX", "17MiB", "is out of range; allowed: 0 … 16MiB"},
}

// Every setting refuses what it cannot have, in one line that names setting,
// value and what is allowed.
func TestWrongValues(t *testing.T) {
	for _, test := range wrong {
		_, err := parse(test.name, test.value)
		e, ok := errors.AsType[*service.SettingError](err)
		if !ok {
			t.Errorf("%s=%q: %v", test.name, test.value, err)
			continue
		}
		text := e.Error()
		if e.Name != test.name || !strings.HasPrefix(text, test.name+`: "`) || !strings.Contains(text, test.sentence) ||
			!strings.Contains(text, "allowed: ") || strings.Contains(text, "\n") {
			t.Errorf("%s=%q: %s, want something with %q", test.name, test.value, text, test.sentence)
		}
	}
}

// Values that are right each by itself and wrong together.
func TestWrongCombinations(t *testing.T) {
	for _, test := range []struct {
		env      []string
		name     string // the setting that is named
		sentence string
	}{
		{[]string{"TLS_CERT", "1"}, "TLS_KEY", "is missing"},
		{[]string{"TLS_KEY", "1"}, "TLS_CERT", "is missing"},
		{[]string{"RATE_LIMIT_WINDOW", "0.0000015"}, "RATE_LIMIT_WINDOW", "must be whole microseconds"},
		{[]string{"RATE_LIMIT_ALGORITHM", "sliding", "RATE_LIMIT_WINDOW", "60.0001"}, "RATE_LIMIT_WINDOW",
			"must be a multiple of 1ms"},
		{[]string{"RATE_LIMIT_ALGORITHM", "sliding", "RATE_LIMIT_LIMIT", "9007199254740992"}, "RATE_LIMIT_LIMIT",
			"must be at most"},
		{[]string{"RATE_LIMIT_ALGORITHM", "token", "RATE_LIMIT_FILL_RATE", "0.0000015"}, "RATE_LIMIT_FILL_RATE",
			"at most 6 decimals"},
		{[]string{"RATE_LIMIT_ALGORITHM", "token", "RATE_LIMIT_FILL_RATE", "33.333333", "RATE_LIMIT_CAPACITY", "1000000"},
			"RATE_LIMIT_CAPACITY", "must be at most"},
		{[]string{"RATE_LIMIT_ALGORITHM", "token", "RATE_LIMIT_FILL_RATE", "0.000001", "RATE_LIMIT_CAPACITY", "9000"},
			"RATE_LIMIT_FILL_RATE", "within 100 years"},
		{[]string{"RATE_LIMIT_ALGORITHM", "token", "RATE_LIMIT_LIMIT", "5"}, "RATE_LIMIT_LIMIT",
			"has no effect with RATE_LIMIT_ALGORITHM=token"},
		{[]string{"RATE_LIMIT_CAPACITY", "5"}, "RATE_LIMIT_CAPACITY", "has no effect with RATE_LIMIT_ALGORITHM=fixed"},
	} {
		_, err := parse(test.env...)
		e, ok := errors.AsType[*service.SettingError](err)
		if !ok || e.Name != test.name || !slices.Contains(append(test.env, "100", "1", ""), e.Value) ||
			!strings.Contains(e.Problem, test.sentence) {
			t.Errorf("%v: %v, want %s and %q", test.env, err, test.name, test.sentence)
		}
	}
	// What another algorithm could not hold is not this one's fault.
	c := must(t, "RATE_LIMIT_ALGORITHM", "token", "RATE_LIMIT_WINDOW", "0.0000015", "RATE_LIMIT_CAPACITY", "5")
	if want := "RATE_LIMIT_WINDOW=0.0000015 has no effect with RATE_LIMIT_ALGORITHM=token until the " +
		"algorithm is switched"; !slices.Equal(c.Notes, []string{want}) {
		t.Errorf("noted %q, want %q", c.Notes, want)
	}
	if c := must(t, "RATE_LIMIT_ALGORITHM", "off", "RATE_LIMIT_LIMIT", "5"); len(c.Notes) != 1 {
		t.Errorf("noted %q, want that the limit has no effect", c.Notes)
	}
	want := []string{"EXEMPT: /** exempts every request: nothing is limited",
		"EXEMPT: ::/0 exempts all clients with such addresses: no limit applies to them"}
	if c := must(t, "EXEMPT", "/health,/**,10.0.0.0/8,/static/**,::/0"); !slices.Equal(c.Notes, want) {
		t.Errorf("noted %q, want %q", c.Notes, want)
	}
}

// Settings that mostly are mistakes are accepted and noted.
func TestMistakesAreNoted(t *testing.T) {
	want := []string{"TRUSTED_PROXIES: ::/0 trusts everybody: each client can claim any address, and has a limit for each"}
	if c := must(t, "TRUSTED_PROXIES", "10.0.0.0/8,::/0"); !slices.Equal(c.Notes, want) {
		t.Errorf("noted %q, want %q", c.Notes, want)
	}
	for _, test := range []struct {
		addr, targets string
		want          string
	}{
		{"0.0.0.0:8082", "http://127.0.0.1:8082", "http://127.0.0.1:8082"},
		{"0.0.0.0:8082", "http://a:8082,http://LOCALHOST:8082", "http://LOCALHOST:8082"},
		{"0.0.0.0:8082", "http://[::1]:8082", "http://[::1]:8082"},
		{"[::]:80", "http://0.0.0.0", "http://0.0.0.0:80"},
		{"127.0.0.1:8082", "http://localhost:8082", "http://localhost:8082"},
		{"10.0.0.1:8082", "http://10.0.0.1:8082", "http://10.0.0.1:8082"},
		{"10.0.0.1:8082", "http://127.0.0.1:8082", ""},
		{"0.0.0.0:8082", "http://127.0.0.1:8081,http://192.0.2.1:8082,http://other:8082", ""},
		{"0.0.0.0:0", "http://127.0.0.1:8082", ""},
	} {
		if got, found := must(t, "TARGET_URL", test.targets).SelfTarget(test.addr); got.URL != test.want ||
			found != (test.want != "") {
			t.Errorf("of %s, %s is itself %q (%t), want %q", test.targets, test.addr, got.URL, found, test.want)
		}
	}
}

func TestValuesArrive(t *testing.T) {
	c := must(t, "TARGET_URL", "http://a:1,http://b:2", "TARGET_BALANCE", "round_robin", "HOST_HEADER", "target",
		"UNDERSCORED_FIELDS", "keep",
		"TRUSTED_PROXIES", "10.0.0.0/8, ::1", "UNTRUSTED_FIELDS", "X-Remote-User, X-Auth-*", "RATE_LIMIT_ALGORITHM",
		"token", "RATE_LIMIT_LIMIT", "5",
		"RATE_LIMIT_WINDOW", "0.5", "RATE_LIMIT_CAPACITY", "6", "RATE_LIMIT_FILL_RATE", "1.5", "RATE_LIMIT_HEADERS", "legacy",
		"KEYS_MAX", "7", "EVENT_LOOPS", "3", "MAX_CONNECTIONS", "8", "TARGET_MAX_CONNECTIONS", "9", "HEAD_MAX_BYTES", "2KiB",
		"FIELDS_MAX", "10", "TARGET_HEAD_MAX_BYTES", "5KiB", "TARGET_FIELDS_MAX", "11", "BODY_MAX_BYTES", "3KiB",
		"BODY_BUFFER_BYTES", "4KiB", "HEAD_TIMEOUT", "1s", "BODY_TIMEOUT", "2s",
		"IDLE_TIMEOUT", "3s", "WRITE_TIMEOUT", "4s", "TARGET_CONNECT_TIMEOUT", "5s", "TARGET_TIMEOUT", "6s",
		"TARGET_WAIT_TIMEOUT", "9s", "TARGET_STREAM_SHARE", "0.5",
		"TARGET_IDLE_TIMEOUT", "7s", "DRAIN_TIMEOUT", "8s")
	if c.Limit != (limit.Config{Algorithm: limit.Token, Limit: 5, Window: 0.5, Capacity: 6, FillRate: 1.5}) {
		t.Errorf("limit %+v", c.Limit)
	}
	if c.Balance != upstream.RoundRobin || c.KeysMax != 7 || c.TargetConnsMax != 9 || c.StreamShare != 0.5 ||
		c.TargetIdle != 7*time.Second || c.DrainTimeout != 8*time.Second {
		t.Errorf("%+v", c)
	}
	if l := c.Loop(); l.Loops != 3 || l.ConnectionsMax != 8 || l.WriteStall != 4*time.Second {
		t.Errorf("loops %+v", l)
	}
	s := c.Session()
	if s.Head.HeadBytes != 2<<10 || s.Head.Fields != 10 || s.ResponseHead.HeadBytes != 5<<10 ||
		s.ResponseHead.Fields != 11 || s.BodyBytesMax != 3<<10 || s.BufferBytesMax != 4<<10 {
		t.Errorf("bounds %+v", s)
	}
	if s.HeadTimeout != time.Second || s.BodyTimeout != 2*time.Second || s.IdleTimeout != 3*time.Second ||
		s.ConnectTimeout != 5*time.Second || s.TargetTimeout != 6*time.Second || s.WaitTimeout != 9*time.Second {
		t.Errorf("times %+v", s)
	}
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	if s.PreserveHost || !s.Underscores || s.Style.LimitFields != decide.XRateLimit || !slices.Equal(s.TrustedProxies,
		trusted) {
		t.Errorf("fields %+v", s)
	}
}

// VIA_NAME=off takes Via away, and leaves the proxy a name of its own.
func TestViaOff(t *testing.T) {
	for name, want := range map[string]bool{"": true, "edge-1": true, "off": false} {
		if s := must(t, "VIA_NAME", name).Session(); s.Via != want || s.Pseudonym == "off" || s.Pseudonym == "" {
			t.Errorf("VIA_NAME=%s: Via %t, pseudonym %q", name, s.Via, s.Pseudonym)
		}
	}
}

func TestRateLimitFields(t *testing.T) {
	for word, want := range map[string]decide.LimitFields{"off": 0, "legacy": decide.XRateLimit,
		"standard": decide.Standard,
		"both":     decide.XRateLimit | decide.Standard, "envoy": decide.Envoy} {
		if s := must(t, "RATE_LIMIT_HEADERS", word).Session(); s.Style.LimitFields != want {
			t.Errorf("%s: families %b, want %b", word, s.Style.LimitFields, want)
		}
	}
}

// addrs is the targets' addresses.
func addrs(targets []Target) string {
	var list []string
	for _, t := range targets {
		list = append(list, t.Addr)
	}
	return strings.Join(list, " ")
}

func TestTargetParts(t *testing.T) {
	for _, test := range []struct {
		url  string
		want Target
	}{
		{"http://a", Target{"http://a:80", "a:80", "a", "a", false, false}},
		{"http://a:81/", Target{"http://a:81", "a:81", "a:81", "a", false, false}},
		{"https://a", Target{"https://a:443", "a:443", "a", "a", true, false}},
		{"https://a:80", Target{"https://a:80", "a:80", "a:80", "a", true, false}},
		{"https://[::1]", Target{"https://[::1]:443", "[::1]:443", "[::1]", "::1", true, false}},
		{"h2c://a", Target{"h2c://a:80", "a:80", "a", "a", false, true}},
		{"h2://a", Target{"h2://a:443", "a:443", "a", "a", true, true}},
	} {
		if got, err := parseTarget(test.url); err != nil || got != test.want {
			t.Errorf("%s: %+v, %v; want %+v", test.url, got, err, test.want)
		}
	}
}

func TestDecisionValuesArrive(t *testing.T) {
	c := must(t, "DECISION_PORT", "9", "DECISION_HOLD_MAX", "2s", "DECISION_HEAD_MAX_BYTES", "1MiB",
		"DECISION_FIELDS_MAX", "7", "DECISION_UNDESCRIBED", "refuse")
	if d := c.Decision; d.HoldMax != 2*time.Second || d.AdmitUndescribed ||
		d.Head != (http1.Limits{HeadBytes: 1 << 20, Fields: 7}) {
		t.Errorf("%+v", d)
	}
	if d := must(t).Decision; d.HoldMax != 250*time.Millisecond || !d.AdmitUndescribed ||
		d.Head != (http1.Limits{HeadBytes: 64 << 10, Fields: 500}) {
		t.Errorf("by default: %+v", d)
	}
	if most := c.DecisionLoop().InboundMax; most <= 2<<20 || most == c.Loop().InboundMax {
		t.Errorf("the loops read at most %d bytes of a head", most)
	}
}

func TestEdgeValuesArrive(t *testing.T) {
	c := must(t, "TARGET_URL", "https://a", "TLS_CERT", "c.pem", "TLS_KEY", "k.pem", "TARGET_CA_FILE", "ca.pem",
		"TARGET_TLS_SERVER_NAME", "b",
		"TARGET_HEALTH_PATH", "/up?full=1", "TARGET_HEALTH_INTERVAL", "1s", "ADMIN_PORT", "9", "ADMIN_BIND", "::1",
		"ADMIN_TLS", "false", "HEALTH_ON_DATA_PORT", "true", "TAKEOVER", "true",
		"MEMORY_BUDGET", "1GiB", "MAX_CONNECTIONS_PER_IP", "3", "BODY_MIN_RATE", "5", "STREAM_TIMEOUT", "1m",
		"TUNNEL_TIMEOUT", "2m",
		"DRAIN_GRACE", "3s", "UPGRADES", "WebSocket, chat/1.0", "VIA_NAME", "edge-1")
	e := c.Server
	if e.CertFile != "c.pem" || e.KeyFile != "k.pem" || e.CAFile != "ca.pem" || e.ServerName != "b" ||
		e.Roster.CheckPath != "/up?full=1" ||
		e.Roster.CheckInterval != time.Second || e.AdminPort != 9 || e.AdminBind != "::1" || e.AdminTLS || !e.Takeover ||
		e.MemoryBudget != 1<<30 {
		t.Errorf("%+v", e)
	}
	if l := c.Loop(); l.PerAddressMax != 3 || l.HandshakeTimeout != 10*time.Second {
		t.Errorf("loops %+v", l)
	}
	s := c.Session()
	if s.BodyRateMin != 5 || s.StreamTimeout != time.Minute || s.TunnelTimeout != 2*time.Minute ||
		s.DrainGrace != 3*time.Second ||
		!slices.Equal(s.Upgrades, []string{"websocket", "chat/1.0"}) || s.Pseudonym != "edge-1" || !e.HealthOnDataPort ||
		s.OwnPaths == nil {
		t.Errorf("sessions %+v", s)
	}
	if c := must(t); c.Server.AdminBind != "127.0.0.1" || !c.Server.AdminTLS || c.Server.MemoryBudget <= 0 ||
		len(c.Session().Pseudonym) != len("weir-000000") || c.Session().OwnPaths == nil {
		t.Errorf("by default: %+v", c.Server)
	}
}

// More connections than there are descriptors are noted, also with a bound that is just too high.
func TestConnectionsBeyondDescriptors(t *testing.T) {
	free := int(admit.DescriptorsFree())
	for most, want := range map[int]int{0: 0, free: 0, free + 1: 1} {
		if c := must(t, "MAX_CONNECTIONS", strconv.Itoa(most)); len(c.Notes) != want {
			t.Errorf("MAX_CONNECTIONS=%d: noted %q, want %d notes", most, c.Notes, want)
		}
	}
}

// TARGET_PROTOCOL applies to targets of its kind, and the scheme of a target to that one.
func TestTargetProtocol(t *testing.T) {
	const all = "http://a,https://b,h2c://c,h2://d"
	for word, want := range map[string]string{"http1": "c:80 d:443", "h2c": "a:80 c:80 d:443", "h2": "b:443 c:80 d:443"} {
		var got []Target
		c := must(t, "TARGET_URL", all, "TARGET_PROTOCOL", word, "TARGET_STREAMS_MAX", "7")
		for _, one := range c.Targets {
			if c.UsesHTTP2(&one) {
				got = append(got, one)
			}
		}
		if addrs(got) != want {
			t.Errorf("%s: HTTP/2 to %s, want %s", word, addrs(got), want)
		}
		if h := c.TargetHTTP2(); h.StreamsMax != 7 || h.HTTP2.ConnWindow != 7*streamWindow || h.HTTP2.GlitchBurst >= 0 {
			t.Errorf("%+v", h)
		}
	}
	if got := must(t, "HTTP2", "all", "HTTP2_STREAMS_MAX", "7").HTTP2().HTTP2.ConnWindow; got != 7*streamWindow {
		t.Errorf("clients may send %d bytes that are not passed on, want %d", got, 7*streamWindow)
	}
}
