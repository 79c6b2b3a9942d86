package serve

import (
	"fmt"
	"net/http"
	"testing"

	"weir/internal/program/metric"
	"weir/internal/program/service"
	"weir/internal/test/testkit"
	"weir/target/model"
)

// A rig is a target that runs for one test, and a client.
type rig struct {
	*Server
	t      *testing.T
	env    *service.Env
	log    *testkit.Log
	client *testkit.Client
}

// start runs a target on two loops with the behaviour cfg. It is stopped when
// the test ends.
func start(t *testing.T, cfg model.Config) *rig {
	t.Helper()
	return startWith(t, Config{Model: cfg, Loops: 2, DrainTimeout: testkit.Timeout, Seed: 1})
}

func startWith(t *testing.T, cfg Config) *rig {
	t.Helper()
	r := startDrainable(t, cfg)
	r.client = testkit.NewClient(t, "http://"+r.Addr().String())
	t.Cleanup(func() {
		r.client.CloseIdleConnections()
		r.cfg.DrainTimeout = 0
		r.Drain()
	})
	return r
}

// startDrainable is startWith without the cleanup: the test ends the target.
func startDrainable(t *testing.T, cfg Config) *rig {
	t.Helper()
	r := &rig{t: t, log: new(testkit.Log)}
	r.env = newEnv(t, r.log)
	var err error
	if r.Server, err = Start(r.env, cfg); err != nil {
		t.Fatal(err)
	}
	return r
}

// newEnv is what service.Main gives to a program.
func newEnv(t *testing.T, log *testkit.Log) *service.Env {
	t.Helper()
	return &service.Env{
		Addr: testkit.FreeAddr(t), Health: new(service.Health), Metrics: metric.New(),
		Log: log.Logger(),
	}
}

func (r *rig) url(path string) string { return "http://" + r.Addr().String() + path }

// do sends a request with net/http and returns status, fields and body.
func (r *rig) do(method, path, body string) (int, http.Header, string) {
	r.t.Helper()
	return r.client.Do(method, path, body)
}

// want sends a request and fails unless it is answered with status and body.
func (r *rig) want(method, path, body string, status int, text string) {
	r.t.Helper()
	gotStatus, _, gotText := r.do(method, path, body)
	if gotStatus != status || gotText != text {
		r.t.Errorf("%s %s: %d %q, want %d %q", method, path, gotStatus, gotText, status, text)
	}
}

// until waits until what is true.
func (r *rig) until(what string, is func() bool) {
	r.t.Helper()
	testkit.Eventually(r.t, what, is)
}

// inside waits until so many requests are being served and so many wait.
func (r *rig) inside(busy, waiting int) {
	r.t.Helper()
	r.until(fmt.Sprintf("%d busy and %d waiting", busy, waiting), func() bool {
		b, w := r.station.load()
		return b == float64(busy) && w == float64(waiting)
	})
}

func (r *rig) dial() *testkit.Conn {
	r.t.Helper()
	return testkit.Dial(r.t, r.Addr().String())
}

// send opens n connections and sends a request on each.
func (r *rig) send(n int, request string) (conns []*testkit.Conn) {
	r.t.Helper()
	for range n {
		c := r.dial()
		c.Send(request)
		conns = append(conns, c)
	}
	return conns
}

// occupy sends a request that occupies the only worker, and then n that wait, in order.
func (r *rig) occupy(n int) (busy *testkit.Conn, waiting []*testkit.Conn) {
	r.t.Helper()
	busy = r.send(1, get)[0]
	r.inside(1, 0)
	for i := range n {
		waiting = append(waiting, r.send(1, get)...)
		r.inside(1, i+1)
	}
	return busy, waiting
}

const get = "GET /api/test HTTP/1.1\r\nHost: x\r\n\r\n"

// samples reads the metrics.
func (r *rig) samples() map[string]float64 {
	r.t.Helper()
	status, _, text := r.do("GET", "/metrics", "")
	if status != 200 {
		r.t.Fatalf("metrics: %d", status)
	}
	return testkit.Samples(r.t, text)
}
