package serve

import (
	"context"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/goccy/go-json"

	"weir/advisor/config"
	"weir/advisor/core"
	"weir/advisor/policy"
	"weir/internal/program/metric"
	"weir/internal/program/service"
	"weir/internal/test/testkit"
)

// monday is the time at which the tests begin.
var monday = time.Date(2026, 1, 19, 0, 0, 0, 0, time.UTC)

// A rig is an advisor that runs for one test, and a client.
type rig struct {
	*Server
	t      *testing.T
	log    *testkit.Log
	client *testkit.Client
	stop   func()
}

// defaults returns the default settings.
func defaults() config.Config {
	return config.Config{LimitMin: 5, LimitMax: 100_000, StateEvery: time.Hour, Zone: time.UTC}
}

// start starts an advisor. It is stopped when the test ends, or by stop.
func start(t *testing.T, cfg config.Config) *rig {
	t.Helper()
	log := new(testkit.Log)
	env := &service.Env{Addr: "127.0.0.1:0", Health: new(service.Health), Metrics: metric.New(), Log: log.Logger()}
	s := testkit.Must(New(t.Context(), env, cfg))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	r := &rig{Server: s, t: t, log: log, client: testkit.NewClient(t, "http://"+s.Addr().String())}
	r.stop = sync.OnceFunc(func() {
		r.client.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

// do sends a request and returns status and body.
func (r *rig) do(method, path, body string) (int, string) {
	r.t.Helper()
	status, _, text := r.client.Do(method, path, body)
	return status, text
}

// want sends a request, fails unless the answer has the status, and returns its JSON.
func (r *rig) want(status int, method, path, body string) map[string]any {
	r.t.Helper()
	got, text := r.do(method, path, body)
	if got != status {
		r.t.Fatalf("%s %s %s: %d %s, want %d", method, path, body, got, text, status)
	}
	var a map[string]any
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		r.t.Fatalf("%s %s is answered %s: %v", method, path, text, err)
	}
	return a
}

// post posts a snapshot, and fails unless it is answered.
func (r *rig) post(s *core.Snapshot) map[string]any {
	r.t.Helper()
	return r.want(200, "POST", "/v1/limit-config", string(record(s)))
}

// day returns a rate with a daily course: 100/s at noon, 20/s at midnight.
func day(at time.Time) float64 {
	return 60 - 40*math.Cos(2*math.Pi*float64(at.Unix()%86400)/86400)
}

// snapAt returns the snapshot of the 30 s up to at, with a limit that refuses nothing.
func snapAt(at time.Time) *core.Snapshot {
	return &core.Snapshot{At: at, Interval: 30 * time.Second, Observed: day(at), Forwarded: day(at), P95: 0.02,
		Ended: 30 * day(at),
		Limit: policy.Limit{Algorithm: policy.Fixed, Limit: 200, Window: 1}}
}

// feed lets a lockedCore process the snapshots of a span, and fails if one is not learned from.
func feed(t *testing.T, m *lockedCore, from, to time.Time, every time.Duration) {
	t.Helper()
	for at := from.Add(every); !at.After(to); at = at.Add(every) {
		s := snapAt(at)
		s.Interval = every
		if r, _ := m.post(s); r.Result != core.Learned {
			t.Fatalf("the snapshot of %s is %s", at, r.Result)
		}
	}
}

// newState returns the answer of GET /v1/state.
func newState(r *rig) *believed {
	v := r.locked.view()
	return newBelieved(&v)
}
