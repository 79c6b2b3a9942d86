package wire

import (
	"bytes"
	"context"
	"flag"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/program/metric"
	"weir/internal/program/service"
	"weir/internal/test/testkit"
	"weir/proxy/config"
	"weir/proxy/control/admin"
	"weir/proxy/store/simredis"
	"weir/proxy/targets/roster"
)

// TestMain lets more tests run at the same time than there are cores: those that are parallel
// wait for the clock most of the time. The flag -parallel overrides it.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	m.Run()
}

// century is a window in which all tests fall, whenever they run: the one that
// began in 1970.
const century = 100 * 365 * 24 * time.Hour

// A rig is a proxy that runs for one test.
type rig struct {
	*Server
	t       *testing.T
	env     *service.Env
	limits  *admin.Limits
	rules   *admin.Rules
	log     *testkit.Log
	held    chan struct{} // GET /config/adaptive is answered when it is closed
	holding atomic.Int64  // requests that wait for that
	drained sync.Once
	cut     int

	targets   map[string]*fakeTarget // by their names in transcripts
	connected []*testClient          // the clients of transcripts that are connected
	step      string                 // of the transcript
}

// serve is start before a target with a script, which is named target in transcripts.
func serve(t *testing.T, script func(c *targetConn), env ...string) *rig {
	t.Helper()
	return serveWith(t, asSet, script, env...)
}

// serveWith is startWith before such a target.
func serveWith(t *testing.T, tweak func(c *Config), script func(c *targetConn), env ...string) *rig {
	t.Helper()
	return before(t, tweak, map[string]*fakeTarget{"target": newTarget(t, script)}, env...)
}

// before is startWith before targets, in the order of their names.
func before(t *testing.T, tweak func(c *Config), targets map[string]*fakeTarget, env ...string) *rig {
	t.Helper()
	var urls []string
	for _, name := range slices.Sorted(maps.Keys(targets)) {
		urls = append(urls, targets[name].url())
	}
	r := startWith(t, tweak, strings.Join(urls, ","), env...)
	r.targets = targets
	return r
}

// asSet changes nothing.
func asSet(*Config) {}

// start runs a proxy on two loops before the targets, as the program does. env
// are settings, names and values in turn; the limit is one that nobody meets.
// The proxy ends with the test.
func start(t *testing.T, targets string, env ...string) *rig {
	t.Helper()
	return startWith(t, func(*Config) {}, targets, env...)
}

// startWith is start with a word about what no setting says.
func startWith(t *testing.T, tweak func(c *Config), targets string, env ...string) *rig {
	t.Helper()
	c := configure(t, append(env, "TARGET_URL", targets, "EVENT_LOOPS", "2", "MAX_CONNECTIONS", "4000",
		"RATE_LIMIT_LIMIT", "1000000000", "RATE_LIMIT_WINDOW", strconv.Itoa(int(century.Seconds())),
		"TARGET_TIMEOUT", testkit.Timeout.String(), "TARGET_CONNECT_TIMEOUT", testkit.Timeout.String(),
		"TARGET_WAIT_TIMEOUT", testkit.Timeout.String(), "HEAD_TIMEOUT", testkit.Timeout.String(),
		"BODY_TIMEOUT", testkit.Timeout.String(), "DRAIN_TIMEOUT", testkit.Timeout.String(), "DRAIN_GRACE", "200ms",
		"VIA_NAME", "weir",
		"GATE_WAIT", "1m")) // tests hold targets: nobody is shed for that
	r := &rig{t: t, log: new(testkit.Log), held: make(chan struct{})}
	r.env = &service.Env{Guard: &service.AccessGuard{Open: true}, Health: new(service.Health), Metrics: metric.New(),
		Log: r.log.Logger()}
	local, err := simredis.NewStore(simredis.Config{KeysMax: c.KeysMax})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(local.Close)
	local.Register(r.env.Metrics)
	local.RegisterKeys(r.env.Metrics)
	if r.limits, err = admin.NewLimits(time.Now(), c.Limit, local, r.env.Logger); err != nil {
		t.Fatal(err)
	}
	files := admin.RuleFiles{Rules: c.Rules.File, Clients: c.Rules.ClientsFile, Options: c.RuleOptions()}
	if r.rules, err = admin.NewRules(time.Now(), files, local, r.env.Logger); err != nil {
		t.Fatal(err)
	}
	r.rules.Share(t.Context(), local, time.Second)
	loops := c.Loop()
	loops.Panicked = func(v any, stack []byte) { t.Errorf("the proxy panicked: %v\n%s", v, stack) }
	cfg := Config{
		Loop: loops, Session: c.Session(), HTTP2: HTTP2Config{Settings: c.HTTP2()},
		Targets: targetsOf(c), Balance: c.Balance, TargetConnsMax: c.TargetConnsMax, StreamShare: c.StreamShare,
		TargetIdle: c.TargetIdle, TargetAge: c.TargetAge, TargetHTTP2: c.TargetHTTP2(),
		Roster: c.Server.Roster, DrainTimeout: c.DrainTimeout,
		Policy: (&admin.PolicyCache{Limits: r.limits, Rules: r.rules}).Policy, Store: local,
		Gate: c.Gate,
		Own:  r.own, Log: r.env.Logger("RateLimiter"), GateLog: r.env.Logger("Gate"), DecisionsPerLoop: 64,
	}
	cfg.Roster.Named = true
	tweak(&cfg)
	if cfg.Sockets == nil {
		cfg.Sockets = []net.Listener{testkit.Listen(t)}
	}
	if r.Server, err = Start(cfg); err != nil {
		t.Fatal(err)
	}
	r.limits.RegisterMetrics(r.env.Metrics)
	r.Register(r.env.Metrics)
	r.env.Health.SetReady(true)
	t.Cleanup(func() {
		over, cancel := context.WithCancel(context.Background())
		cancel()
		r.drain(over)
	})
	return r
}

// targetsOf are the settings' targets, without TLS.
func targetsOf(c *config.Config) (targets []*roster.Target) {
	for _, t := range c.Targets {
		targets = append(targets, &roster.Target{URL: t.URL, Addr: t.Addr, Host: t.Host, HTTP2: c.UsesHTTP2(&t)})
	}
	return targets
}

// configure reads settings; of those given twice the first counts.
func configure(t *testing.T, env []string) *config.Config {
	t.Helper()
	c := new(config.Config)
	s := service.NewSettings("proxy")
	c.Register(s)
	_, err := s.Parse(nil, testkit.Env(env))
	if err == nil {
		err = c.Complete()
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// own makes the own endpoints.
func (r *rig) own(f *Server) *service.Endpoints {
	own := service.NewEndpoints(r.env)
	r.limits.Register(own)
	r.rules.Register(own)
	admin.RegisterReload(own, r.limits, r.rules)
	admin.RegisterDecisions(own, func(id string) (any, bool) { return f.Recall(id) })
	own.HandleFunc("GET /config/adaptive", func(http.ResponseWriter, *http.Request) {
		r.holding.Add(1)
		select {
		case <-r.held:
		case <-r.t.Context().Done():
		}
	})
	return own
}

// drain ends the proxy, once, and returns how many connections were cut.
func (r *rig) drain(ctx context.Context) int {
	r.drained.Do(func() { r.cut = r.Drain(ctx) })
	return r.cut
}

// until waits until what is true.
func (r *rig) until(what string, is func() bool) {
	r.t.Helper()
	testkit.Eventually(r.t, strings.TrimSpace(what+"\n"+r.step), is)
}

// await waits until ch is closed, or the test has failed.
func await(t *testing.T, ch <-chan bool) {
	select {
	case <-ch:
	case <-t.Context().Done():
	}
}

// samples reads the metrics, beside the data path.
func (r *rig) samples() map[string]float64 {
	r.t.Helper()
	var text bytes.Buffer
	r.env.Metrics.Write(&text)
	return testkit.Samples(r.t, text.String())
}

func (r *rig) dial() *testkit.Conn { return r.dialFrom("127.0.0.1") }

// dialFrom connects from an address of the loopback network.
func (r *rig) dialFrom(ip string) *testkit.Conn {
	r.t.Helper()
	return testkit.DialFrom(r.t, ip, r.Addr().String())
}

// together has n clients do something at the same time, and returns what waits for them.
func (r *rig) together(n int, do func(i int, c *testkit.Conn)) (wait func()) {
	r.t.Helper()
	var all sync.WaitGroup
	for i := range n {
		c := r.dial()
		all.Go(func() { do(i, c) })
	}
	return all.Wait
}

// load has n clients do something again and again, until it fails or the test calls end. The count is how
// often they have done it.
func (r *rig) load(n int, do func(i int, c *testkit.Conn) bool) (done *atomic.Int64, end func()) {
	r.t.Helper()
	done, over := new(atomic.Int64), new(atomic.Bool)
	wait := r.together(n, func(i int, c *testkit.Conn) {
		for !over.Load() && do(i, c) {
			done.Add(1)
		}
	})
	return done, func() {
		over.Store(true)
		wait()
	}
}

// answers sends a request and reads the head of its answer, which must be 200.
func (r *rig) answers(c *testkit.Conn, request string) *http.Response {
	r.t.Helper()
	c.Send(request)
	res := testkit.Must(http.ReadResponse(c.In, nil))(r.t)
	equal(r.t, "the status", res.StatusCode, 200)
	return res
}

const get = "GET /api HTTP/1.1\r\nHost: x\r\n\r\n"
