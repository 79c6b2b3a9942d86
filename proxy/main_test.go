package main

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m, main) }

// program returns a command that runs the proxy. Its environment is env, alternating names and values.
func program(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	return testkit.ServiceCommand(t, env, args...)
}

// A running is a started proxy.
type running struct{ *testkit.Program }

// launch starts the proxy, in front of an echo unless env names a target, and waits until it is ready.
func launch(t *testing.T, env []string, args ...string) *running {
	t.Helper()
	if !slices.Contains(env, "TARGET_URL") {
		env = append(slices.Clone(env), "TARGET_URL", echo(t))
	}
	cmd := program(t, env, args...)
	cmd.Stderr = os.Stderr
	return &running{testkit.Launch(t, cmd, "INFO Proxy - Ready addr=")}
}

// echo starts a target that answers with the path of the request, and returns its URL.
func echo(t *testing.T) string {
	return serve(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Path) })
}

// named is a target that answers with a name.
func named(t *testing.T, name string) string {
	return serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, name) })
}

// serve starts a target, which ends with the test, and returns its URL.
func serve(t *testing.T, target http.HandlerFunc) string {
	s := httptest.NewServer(target)
	t.Cleanup(s.Close)
	return s.URL
}

// serveTLS is serve with a certificate.
func serveTLS(t *testing.T, own tls.Certificate, target http.HandlerFunc) string {
	s := httptest.NewUnstartedServer(target)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{own}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

// limited is an environment with a global limit that is used up after n requests.
func limited(n int) []string {
	return []string{"RATE_LIMIT_LIMIT", fmt.Sprint(n), "RATE_LIMIT_WINDOW", fmt.Sprint(century)}
}

// cannotStart fails unless the program ends with the status and one line, which contains text and
// not the password s3cret.
func cannotStart(t *testing.T, env []string, status int, text string) {
	t.Helper()
	_, line := testkit.RequireExit(t, program(t, env), status)
	if !strings.Contains(line, text) || strings.Count(line, "\n") != 1 || strings.Contains(line, "s3cret") {
		t.Errorf("%q: %q, want one line with %q", env, line, text)
	}
}

func TestWrongSettings(t *testing.T) {
	for _, test := range []struct {
		env, args []string
		line      string
	}{
		{[]string{"TARGET_URL", "gopher://x"}, nil,
			`proxy: TARGET_URL: "gopher://x" does not begin with http://, https://, h2c:// or h2://; allowed: http://host:port, comma separated, also with https, h2c or h2; none`},
		{nil, []string{"-event-loops", "0"}, `proxy: EVENT_LOOPS: "0" is out of range; allowed: 1 … 1024`},
		{[]string{"RATE_LIMIT_WINDOW", "0.0000015"}, nil,
			`proxy: RATE_LIMIT_WINDOW: "0.0000015" must be whole microseconds (6 decimals)`},
		{nil, []string{"-no-such-thing"}, `proxy: flag provided but not defined: -no-such-thing; -help lists the settings`},
		{nil, []string{"rules.yaml"},
			`proxy: unexpected argument "rules.yaml": a file is named by -rules-file or RULES_FILE; -help lists the settings`},
		{nil, []string{"version"}, `proxy: unexpected argument "version": the flag is -version; -help lists the settings`},
		{nil, []string{"TARGET_URL=http://x"},
			`proxy: unexpected argument "TARGET_URL": write it before proxy as a variable, or -target-url=… as a flag; -help lists the settings`},
		{[]string{"RULES_FILE", "/dev/null/r", "CLIENTS_FILE", "/dev/null/c", "REDIS_HOST", "redis://h", "TLS_CERT",
			"/dev/null/t", "EVENT_LOOPS", "x", "LIMIT_MIN_RPS", "9", "LIMIT_MAX_RPS", "8"}, nil,
			`proxy: EVENT_LOOPS: "x" is not a whole number; allowed: 1 … 1024
proxy: TLS_KEY: "" is missing; allowed: TLS_CERT and TLS_KEY together, or neither
proxy: LIMIT_MIN_RPS: "9" is more than LIMIT_MAX_RPS, 8; allowed: at most that
proxy: REDIS_HOST: "redis://h" names no host and port; allowed: host or host:port, comma separated, or the path of a socket; for the rest of a redis:// URL use REDIS_USERNAME, REDIS_PASSWORD, REDIS_DB, REDIS_TLS
proxy: RULES_FILE: "/dev/null/r" cannot be read: not a directory
proxy: CLIENTS_FILE: "/dev/null/c" cannot be read: not a directory`},
		{[]string{"DEFER_URL", "file:/no/such/queue"}, nil,
			`proxy: DEFER_URL: "file:/no/such/queue" is in the folder /no/such, which does not exist; allowed: a file in a folder that exists and that the proxy may write to: create it, or name another`},
	} {
		if _, stderr := testkit.RequireExit(t, program(t, test.env, test.args...), 2); stderr != test.line+"\n" {
			t.Errorf("%v %v: told\n%swant\n%s", test.env, test.args, stderr, test.line)
		}
	}
}

func TestTakenPort(t *testing.T) {
	ln := testkit.Listen(t)
	_, port, err := net.SplitHostPort(ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	cannotStart(t, []string{"PORT", port}, 1,
		"proxy: port "+port+" is taken: set PORT, or TAKEOVER=true to replace a proxy that is running there\n")
}

// -help knows every setting that there is.
func TestHelp(t *testing.T) {
	known := settings(t)
	for name := range strings.FieldsSeq(`PORT BIND LOG_LEVEL LOG_FORMAT LOG_FILE
		ACCESS_LOG ACCESS_LOG_FORMAT ACCESS_LOG_WHICH ACCESS_LOG_SAMPLE REQUEST_ID REFUSAL_STATUS REFUSAL_TEMPLATES REFUSAL_FIELDS
		TARGET_URL TARGET_BALANCE EXEMPT CORS PREFLIGHT HOST_HEADER UNDERSCORED_FIELDS TRAILERS TRUSTED_PROXIES
		RATE_LIMIT_ALGORITHM RATE_LIMIT_LIMIT RATE_LIMIT_WINDOW RATE_LIMIT_CAPACITY RATE_LIMIT_FILL_RATE RATE_LIMIT_HEADERS
		REDIS_HOST REDIS_PORT REDIS_PASSWORD REDIS_USERNAME REDIS_DB REDIS_TLS REDIS_SENTINEL_MASTER REDIS_TIMEOUT
		REDIS_TLS_CA_FILE REDIS_KEY_PREFIX STORE_FAILURE_MODE KEYS_MAX
		POSTGRES_URL POSTGRES_TIMEOUT POSTGRES_CONNECTIONS POSTGRES_SCHEMA POSTGRES_KEY_PREFIX POSTGRES_DURABLE POSTGRES_MIGRATE
		EVENT_LOOPS MAX_CONNECTIONS HEAD_MAX_BYTES FIELDS_MAX BODY_MAX_BYTES BODY_BUFFER_BYTES HEAD_TIMEOUT BODY_TIMEOUT IDLE_TIMEOUT
		TARGET_CONNECT_TIMEOUT TARGET_WAIT_TIMEOUT TARGET_STREAM_SHARE TARGET_TIMEOUT TARGET_IDLE_TIMEOUT TARGET_MAX_CONNECTIONS DRAIN_TIMEOUT
		CONNECTION_MAX_REQUESTS CONNECTION_MAX_AGE TARGET_CONNECTION_MAX_AGE TARGET_DNS_INTERVAL
		TLS_CERT TLS_KEY TARGET_CA_FILE TARGET_TLS_SERVER_NAME TARGET_HEALTH_PATH TARGET_HEALTH_INTERVAL
		ADMIN_PORT ADMIN_BIND ADMIN_TLS ADMIN_TOKEN ADMIN_OPEN HEALTH_ON_DATA_PORT TAKEOVER
		MEMORY_BUDGET MAX_CONNECTIONS_PER_IP BODY_MIN_RATE STREAM_TIMEOUT TUNNEL_TIMEOUT DRAIN_GRACE UPGRADES VIA_NAME
		ADAPTIVE_MODE ADVISOR_URL ADVISOR_TOKEN ADAPTIVE_UPDATE_INTERVAL ADAPTIVE_TIMEOUT LIMIT_MIN_RPS LIMIT_MAX_RPS LIMIT_MAX_STEP ALGORITHM_MIN_DWELL
		ADAPTIVE_STALE_AFTER ADAPTIVE_TIME_SCALE
		DECISION_PORT DECISION_BIND DECISION_TOKEN DECISION_OPEN DECISION_TLS_CERT DECISION_TLS_KEY DECISION_TLS_CLIENT_CA
		RATELIMIT_CONFIG MERGE_DOMAIN_CONFIG RATELIMIT_CHARGE SHADOW_MODE QUOTA_MODE RESPONSE_DYNAMIC_METADATA DEBT_MAX NEAR_LIMIT_RATIO
		DECISION_TLS_CLIENT_SAN GRPC_PORT GRPC_BIND GRPC_TLS_CERT GRPC_TLS_KEY GRPC_TLS_CLIENT_CA GRPC_TLS_CLIENT_SAN GRPC_UDS
		LIMIT_LIMIT_HEADER LIMIT_REMAINING_HEADER LIMIT_RESET_HEADER PROMETHEUS_ADDR PROMETHEUS_PATH SETTINGS_FROM
		CHECK_RATELIMIT CONFIG_TYPE
		CONFIG_GRPC_XDS_SERVER_URL CONFIG_GRPC_XDS_NODE_ID CONFIG_GRPC_XDS_NODE_METADATA CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS
		CONFIG_GRPC_XDS_SERVER_USE_TLS CONFIG_GRPC_XDS_SERVER_TLS_CACERT CONFIG_GRPC_XDS_SERVER_TLS_SAN
		CONFIG_GRPC_XDS_CLIENT_TLS_CERT CONFIG_GRPC_XDS_CLIENT_TLS_KEY XDS_CLIENT_BACKOFF_INITIAL_INTERVAL
		XDS_CLIENT_BACKOFF_MAX_INTERVAL XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES FORCE_START_WITHOUT_INITIAL_CONFIG
		USE_STATSD STATSD_HOST STATSD_PORT EXTRA_TAGS STATS_FLUSH_INTERVAL HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED
		REDIS_TLS_SKIP_HOSTNAME_VERIFICATION REDIS_TLS_CLIENT_CERT REDIS_TLS_CLIENT_KEY
		REMOTE_URL REMOTE_TIMEOUT REMOTE_TOKEN REMOTE_CA_FILE`) {
		if known[name] == "" {
			t.Errorf("%s is not explained", name)
		}
	}
}

func TestVersion(t *testing.T) {
	if out, _ := testkit.RequireExit(t, program(t, nil, "-version"), 0); !strings.HasPrefix(out, "proxy ") ||
		strings.Count(out, "\n") != 1 {
		t.Errorf("told %q", out)
	}
}

func TestServes(t *testing.T) {
	url := echo(t)
	p := launch(t, []string{"TARGET_URL", url, "RATE_LIMIT_LIMIT", "7"}, "-rate-limit-limit", "1",
		"-rate-limit-window", fmt.Sprint(century))
	first := p.Logged("INFO Proxy - Started version=")
	if !strings.Contains(first, " TARGET_URL="+url) || !strings.Contains(first, " RATE_LIMIT_LIMIT=1 ") {
		t.Errorf("the first line is %q", first)
	}
	for _, want := range []struct {
		path   string
		status int
		part   string
	}{
		{"/a/b", 200, "/a/b"},
		{"/a/b", 429, `"rule":"global"`},
		{"/config/limits", 200, `"source":"default"`},
		{"/actuator/health/readiness", 200, `"status":"UP"`},
		{"/metrics", 200, "\nratelimiter_current_limit 1\n"},
		{"/metrics", 200, "\nratelimiter_mode{type=\"normal\"} 1\n"},
		{"/metrics", 200, "\ngo_goroutines "},
	} {
		p.Require("GET "+want.path, want.status, want.part)
	}
	var health struct {
		Status     string
		Components struct {
			Store struct{ Status, Mode string }
		}
	}
	p.Decode("/actuator/health", &health)
	if store := health.Components.Store; health.Status != "UP" || store.Status != "UP" || store.Mode != "simulated" {
		t.Errorf("health: %+v", health)
	}
}

// SIGTERM under load: what is under way is finished, what the target has
// answered every client has got, and the program ends well.
func TestSignalUnderLoad(t *testing.T) {
	const clients = 8
	var served atomic.Int64
	arrived, open := make(chan bool, clients), make(chan bool)
	target := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			arrived <- true
			<-open
		}
		served.Add(1)
	})
	// nothing but the signal ends what is held
	p := launch(t, []string{"TARGET_URL", target, "RATE_LIMIT_LIMIT", "1000000", "RATE_LIMIT_WINDOW", "3600",
		"GATE", "off", "TARGET_TIMEOUT", testkit.Timeout.String(),
		"PORT", testkit.FreePort(t)}) // nobody else gets the port
	var got atomic.Int64
	var done [clients]atomic.Int64
	var held, busy sync.WaitGroup
	for i := range clients {
		held.Go(func() {
			n := drive(t, p.Addr, "/held", nil) // 2, if its loop learns of the signal after the first
			if n < 1 || n > 2 {
				t.Errorf("a request under way got %d answers", n)
			}
			got.Add(int64(n))
		})
		busy.Go(func() { got.Add(int64(drive(t, p.Addr, "/x", &done[i]))) })
	}
	for range clients {
		<-arrived
	}
	for i := range done { // each has a connection: who is only about to dial is refused from now on
		for done[i].Load() < 50 && !t.Failed() {
			time.Sleep(time.Millisecond)
		}
	}
	p.Signal(syscall.SIGTERM)
	p.Logged("INFO Proxy - Draining")
	busy.Wait() // their connections have ended while others are held
	if p.Listens() {
		t.Error("somebody still listens")
	}
	close(open)
	held.Wait()
	p.RequireExit(0)
	p.Logged("INFO Proxy - Stopped")
	if served.Load() != got.Load() {
		t.Errorf("the target answered %d requests, clients got %d answers", served.Load(), got.Load())
	}
}

// drive asks for path over one connection, again and again, until an answer
// says that it was the last, or the connection ends between two answers. It
// returns how many came, all of them 200.
func drive(t *testing.T, addr, path string, done *atomic.Int64) (n int) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(testkit.Timeout))
	in := bufio.NewReader(c)
	for {
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
		if _, err := in.Peek(1); err != nil {
			return n // it was idle for too long to be waited for
		}
		res, err := http.ReadResponse(in, nil)
		if err != nil || res.StatusCode != 200 {
			t.Errorf("answered %v, %v", res, err)
			return n
		}
		if n++; done != nil {
			done.Add(1)
		}
		if res.Close {
			return n
		}
	}
}
