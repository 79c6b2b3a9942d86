package adaptive

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/data/number"
	"weir/internal/program/metric"
	"weir/internal/program/service"
	"weir/internal/test/testkit"
	"weir/proxy/config"
	"weir/proxy/control/admin"
	"weir/proxy/limit"
	"weir/proxy/limit/rails"
	"weir/proxy/rules/tally"
	"weir/proxy/store"
	"weir/proxy/store/simredis"
	"weir/proxy/wire/report"
)

// epoch is when every test begins.
var epoch = time.Date(2026, 1, 19, 16, 30, 0, 0, time.UTC)

// An oracle is an advisor with prepared answers.
//
// Safe for concurrent use: a mutex guards it.
type oracle struct {
	*httptest.Server
	mu     sync.Mutex
	reply  func(w http.ResponseWriter, r *http.Request)
	bodies []map[string]any // of requests
}

func newOracle(t *testing.T) *oracle {
	o := new(oracle)
	o.says(`{"algorithm":"fixed","limit":100,"window":1}`)
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		var body map[string]any
		if err := json.Unmarshal(text, &body); err != nil || r.Method != "POST" || r.URL.Path != "/v1/limit-config" {
			t.Errorf("asked %s %s %s: %v", r.Method, r.URL, text, err)
		}
		o.mu.Lock()
		o.bodies = append(o.bodies, body)
		reply := o.reply
		o.mu.Unlock()
		reply(w, r)
	}))
	t.Cleanup(o.Close)
	return o
}

// does has the oracle answer in a way of its own.
func (o *oracle) does(reply func(w http.ResponseWriter, r *http.Request)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reply = reply
}

// says has the oracle answer with JSON.
func (o *oracle) says(body string) {
	o.does(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_, _ = io.WriteString(w, body)
	})
}

// asked is the last request.
func (o *oracle) asked() map[string]any {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bodies[len(o.bodies)-1]
}

// A shared is a store with a lease, and nothing else.
//
// Owned by the test.
type shared struct {
	store.Store
	mode   store.Mode
	holder string
	broken bool
}

func (s *shared) Mode() store.Mode { return s.mode }

func (s *shared) Lease(name, owner string, _ time.Duration) (bool, error) {
	if s.broken || s.mode != store.Exact || name != leaseName {
		return false, io.ErrUnexpectedEOF
	}
	if s.holder == "" {
		s.holder = owner
	}
	return s.holder == owner, nil
}

func (s *shared) Release(_, owner string) error {
	if s.holder == owner {
		s.holder = ""
	}
	return nil
}

// A rig is a Follower whose turns a test plays, before an oracle.
type rig struct {
	*Follower
	t       *testing.T
	oracle  *oracle
	limits  *admin.Limits
	log     *testkit.LogRecords
	now     time.Time
	traffic report.TrafficTotals
	tried   tally.CandidateCounts
	trial   *limit.Limit
	bounds  []int // of the gates, as they were set
}

// start begins at epoch with 100 per second in force; tweak changes the settings.
func start(t *testing.T, tweak func(c *Config)) *rig {
	t.Helper()
	r := &rig{t: t, oracle: newOracle(t), log: new(testkit.LogRecords), now: epoch}
	var err error
	if r.limits, err = admin.NewLimits(epoch, limit.Config{Algorithm: limit.Fixed, Limit: 100, Window: 1},
		new(simredis.DocumentStore), r.log.Logger); err != nil {
		t.Fatal(err)
	}
	c := Config{
		Settings: config.Adaptive{Mode: "true", URL: r.oracle.URL, Interval: 30 * time.Second, Timeout: 20 * time.Second,
			Stale: 3, Scale: 1,
			Rails: rails.Rails{Min: 5, Max: 100_000, Step: 4, Dwell: 3 * time.Minute}},
		Instance: "one", Limits: r.limits, Store: new(shared), Log: r.log.Logger("Adaptive"),
		Traffic:      func() *report.TrafficTotals { now := r.traffic; return &now },
		Bound:        func(most int) { r.bounds = append(r.bounds, most) },
		SetCandidate: func(l *limit.Limit) { r.trial, r.tried = l, tally.CandidateCounts{Config: l.Config()} },
		Candidate:    func() tally.CandidateCounts { return r.tried },
	}
	tweak(&c)
	r.Follower = New(c)
	r.begin(r.now)
	return r
}

// begun is start with the settings' defaults.
func begun(t *testing.T) *rig {
	t.Helper()
	return start(t, func(*Config) {})
}

// ask plays the first half of a turn: an interval passes, the advisor answers.
func (r *rig) ask() *update {
	r.now = r.now.Add(time.Duration(float64(r.cfg.Settings.Interval) / r.cfg.Settings.Scale))
	r.renew(r.now)
	if !r.due(r.now) {
		r.t.Fatal("after an interval no snapshot is due")
	}
	u := r.open(r.now)
	u.recommendation, u.err = r.client.ask(r.t.Context(), u.snapshot)
	return u
}

// turn plays a whole turn and returns what is remembered of it.
func (r *rig) turn() UpdateRecord {
	r.conclude(r.now, r.ask())
	lines := r.read().lines
	return lines[len(lines)-1]
}

// turns fails unless a turn ends so, with a limit in force that is described so and
// a reason that contains why.
func (r *rig) turns(result Result, inForce, why string) {
	r.t.Helper()
	l := r.turn()
	if l.Result != result || !strings.Contains(l.Reason, why) || (why == "") != (l.Reason == "") {
		r.t.Errorf("the turn at %v: %v (%s), want %v (%s)", r.now.Sub(epoch), l.Result, l.Reason, result, why)
	}
	r.inForce(inForce)
}

// inForce fails unless the limit in force is described so.
func (r *rig) inForce(want string) {
	r.t.Helper()
	a := r.limits.Active()
	c := a.Policy.Limit.Config()
	got := fmt.Sprintf("%v %d/%s %s", c.Algorithm, c.Limit+c.Capacity, number.Decimal(c.Window+c.FillRate), a.Source)
	if got != want {
		r.t.Errorf("in force at %v: %s, want %s", r.now.Sub(epoch), got, want)
	}
}

// logged fails unless exactly these lines were written since the last look, but for
// those that tell of a request.
func (r *rig) logged(want ...string) {
	r.t.Helper()
	var got []string
	for _, line := range r.log.Taken() {
		if line != "INFO Adaptive - AI request sent (interval 30 s)" {
			got = append(got, line)
		}
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		r.t.Errorf("logged:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// change is what a person does.
func (r *rig) change(limitPerSecond int64, pin bool) {
	r.t.Helper()
	ch := admin.LimitChange{Config: limit.Config{Algorithm: limit.Fixed, Limit: limitPerSecond, Window: 1},
		Source: admin.SourceAPI, Pin: pin, IfMatch: -1}
	if _, err := r.limits.Apply(r.now, ch); err != nil {
		r.t.Fatal(err)
	}
}

// tries has so many requests let pass and refused by the candidate, and by the limit in
// force.
func (r *rig) tries(admitted, refused, enforcedAdmitted, enforcedRefused uint64) {
	r.tried.Admitted += admitted
	r.tried.Refused += refused
	r.tried.Enforced.Admitted += enforcedAdmitted
	r.tried.Enforced.Refused += enforcedRefused
}

// told is GET /config/adaptive.
func (r *rig) told() map[string]any {
	r.t.Helper()
	own := service.NewEndpoints(&service.Env{Guard: &service.AccessGuard{Open: true}})
	r.Register(own)
	w := httptest.NewRecorder()
	own.ServeHTTP(w, httptest.NewRequest("GET", "/config/adaptive", nil))
	var body map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || w.Code != 200 {
		r.t.Fatalf("GET /config/adaptive: %d %s", w.Code, w.Body)
	}
	return body
}

// sampled fails unless the metrics have this line.
func (r *rig) sampled(lines ...string) {
	r.t.Helper()
	set := metric.New()
	r.RegisterMetrics(set)
	var text strings.Builder
	set.Write(&text)
	for _, line := range lines {
		if !strings.Contains(text.String(), "\n"+line+"\n") {
			r.t.Errorf("the metrics lack %s:\n%s", line, &text)
		}
	}
}
