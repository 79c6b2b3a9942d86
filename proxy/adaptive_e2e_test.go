package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/advisor/config"
	advisor "weir/advisor/serve"
	"weir/internal/program/metric"
	"weir/internal/program/service"
	"weir/internal/test/testkit"
	"weir/proxy/store/redis/redistest"
)

// An oracle is an advisor that recommends one permit more than there is, for ever.
//
// Safe for concurrent use: a mutex guards.
type oracle struct {
	url   string
	mu    sync.Mutex
	asked map[string]int // by instance
}

func newOracle(t *testing.T) *oracle {
	o := &oracle{asked: make(map[string]int)}
	o.url = serve(t, func(w http.ResponseWriter, r *http.Request) {
		var s struct {
			Instance string
			Limit    int
		}
		if err := json.NewDecoder(r.Body).Decode(&s); err != nil || s.Instance == "" || s.Limit == 0 {
			t.Errorf("asked %+v, %v", s, err)
		}
		o.mu.Lock()
		o.asked[s.Instance]++
		o.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"algorithm":"fixed","limit":%d,"window":1,"predictedRps":77,"reason":"more"}`, s.Limit+1)
	})
	return o
}

func (o *oracle) by(instance string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.asked[instance]
}

// advised starts a proxy that asks the oracle fifty times a second.
func (o *oracle) advised(t *testing.T, env ...string) *running {
	t.Helper()
	return launch(t, append(env, "ADVISOR_URL", o.url, "ADAPTIVE_UPDATE_INTERVAL", "1s", "ADAPTIVE_TIME_SCALE", "50"))
}

// adaptiveState is GET /config/adaptive.
type adaptiveState struct {
	Mode, Instance, Result string
	Leader, Stale          bool
	Candidate              struct {
		Limit, Admitted, Refused int
		Enforced                 struct{ Admitted, Refused int }
	}
	Updates []struct{ Result, Reason string }
}

func (p *running) adaptive() (s adaptiveState) {
	p.T.Helper()
	p.Decode("/config/adaptive", &s)
	return s
}

// inForce is the limit in force and where it comes from.
func (p *running) inForce() (limit int, source string) {
	p.T.Helper()
	var a struct {
		Limit  int
		Source string
	}
	p.Decode("/config/limits", &a)
	return a.Limit, a.Source
}

// risesTo waits until the advisor has brought the limit so far.
func (p *running) risesTo(least int) {
	p.T.Helper()
	testkit.Eventually(p.T, fmt.Sprintf("a limit of %d by the advisor", least), func() bool {
		limit, source := p.inForce()
		return source == "advisor" && limit >= least
	})
}

// The limit follows the advisor until a person pins it; the program ends in the
// middle of it.
func TestAdaptive(t *testing.T) {
	p := newOracle(t).advised(t, "ADAPTIVE_MODE", "true")
	p.risesTo(110)
	p.Logged("INFO Adaptive - AI request sent (interval 1 s)")
	p.Logged("INFO Adaptive - AI update applied: algorithm=fixed, limit from 104/s to 105/s, limit=105, " +
		"window=1, reason: more")
	p.Logged("INFO ConfigController - Applied new config: algorithm=fixed, limit=105, window=1, source=advisor")
	testkit.Eventually(t, "the tenth update is listed, which comes after it is applied",
		func() bool { return len(p.adaptive().Updates) >= 10 })
	if s := p.adaptive(); s.Mode != "true" || !s.Leader || s.Stale {
		t.Errorf("told %+v", s)
	}
	p.Require("POST /config/limits?pin=true", 200, `"pinned":true`, `{"algorithm":"fixed","limit":70,"window":1}`)
	testkit.Eventually(t, "the pin is noticed", func() bool { return p.adaptive().Result == "pinned" })
	p.Require("GET /config/limits", 200, `"limit":70,"window":1`)
	for _, line := range []string{"rate_limit_current_limit 70", "ratelimiter_adaptive_predicted_rps 77",
		"ratelimiter_adaptive_stale 0", "ratelimiter_adaptive_leader 1"} {
		p.Require("GET /metrics", 200, "\n"+line+"\n")
	}
	p.Require("DELETE /config/limits", 200, `"source":"default"`)
	p.risesTo(105)
	p.Require("POST /reload", 200, "")
	p.Terminate()
}

// In shadow the limit stays, and what it would refuse is counted.
func TestAdaptiveShadow(t *testing.T) {
	p := newOracle(t).advised(t, append(limited(1), "ADAPTIVE_MODE", "shadow", "LIMIT_MIN_RPS", "1",
		"ADAPTIVE_TIMEOUT", "20s")...)
	p.Logged("INFO Adaptive - AI update not applied (shadow): algorithm=fixed, ")
	p.Require("GET /", 200, "")
	for range 3 {
		p.Require("GET /", 429, "")
	}
	s := p.adaptive()
	if limit, source := p.inForce(); s.Mode != "shadow" || s.Result != "shadow" || s.Leader ||
		s.Candidate.Limit == 0 || s.Candidate.Admitted+s.Candidate.Refused != 4 ||
		s.Candidate.Enforced.Admitted != 1 || s.Candidate.Enforced.Refused != 3 || limit != 1 || source != "default" {
		t.Errorf("told %+v, in force %d of %s", s, limit, source)
	}
	passed, refused := p.counted("candidate", "shadow_forwarded"), p.counted("candidate", "shadow_rejected")
	if passed != s.Candidate.Admitted || refused != s.Candidate.Refused {
		t.Errorf("counted %d and %d, told %+v", passed, refused, s.Candidate)
	}
}

// Of two proxies with one Redis one applies recommendations, and the other one after that is
// killed. A restarted proxy starts from what the store has.
func TestAdaptiveLeader(t *testing.T) {
	redis := redistest.Start(t)
	o := newOracle(t)
	env := append(inRedis(redis), "ADAPTIVE_MODE", "true")
	leader, other := o.advised(t, env...), o.advised(t, env...)
	both := []*running{leader, other}
	for _, p := range both {
		p.risesTo(120)
	}
	a, b := leader.adaptive(), other.adaptive()
	if a.Leader == b.Leader {
		t.Fatalf("leaders: %t and %t", a.Leader, b.Leader)
	}
	if b.Leader {
		leader, other, b = other, leader, a
	}
	testkit.Eventually(t, "who follows asks, too",
		func() bool { return o.by(b.Instance) > 5 && other.adaptive().Result == "following" })
	leader.Kill()
	limit, _ := other.inForce()
	testkit.Eventually(t, "the other takes over", func() bool { return other.adaptive().Leader })
	other.risesTo(limit + 20)
	again := o.advised(t, env...)
	again.Logged("WARN ConfigController - Stored config overrides the settings source=advisor")
	again.risesTo(limit + 40)
	if again.adaptive().Leader {
		t.Error("who comes back takes the lease away")
	}
	other.Terminate()
	testkit.Eventually(t, "the last one takes over", func() bool { return again.adaptive().Leader })
}

// While the store is unavailable no proxy applies recommendations, whatever the failure mode.
func TestAdaptiveWithoutItsStore(t *testing.T) {
	for mode, word := range map[string]string{"open": "failopen", "local": "local", "closed": "closed"} {
		p := newOracle(t).advised(t, "ADAPTIVE_MODE", "true", "REDIS_HOST", "127.0.0.1:1", "STORE_FAILURE_MODE", mode)
		testkit.Eventually(t, "five updates", func() bool { return len(p.adaptive().Updates) >= 5 })
		s := p.adaptive()
		limit, source := p.inForce()
		if limit != 100 || source != "default" || s.Leader || s.Updates[0].Result != "away" ||
			s.Updates[0].Reason != "the store is unavailable, mode "+word+" is in force" {
			t.Errorf("mode %s: in force %d of %s, told %+v", mode, limit, source, s)
		}
	}
}

// A proxy that hands over asks no more while it drains, and applies nothing.
func TestAdaptiveHandOver(t *testing.T) {
	arrived, open := make(chan bool), make(chan bool)
	target := serve(t, func(http.ResponseWriter, *http.Request) {
		arrived <- true
		<-open
	})
	o := newOracle(t)
	env := append(takeover(t), "TARGET_URL", target, "ADAPTIVE_MODE", "true")
	old := o.advised(t, env...)
	old.risesTo(105)
	before := old.adaptive().Instance
	held := old.Open("/held")
	<-arrived
	next := o.advised(t, env...)
	old.Logged("INFO Proxy - Draining")
	asked := o.by(before)
	next.risesTo(110)
	// What was under way when its end came may be counted late.
	if after := next.adaptive().Instance; after == before || o.by(before) > asked+1 {
		t.Errorf("%s asked %d times while it drained; %s follows", before, o.by(before)-asked, after)
	}
	close(open)
	held.Close()
	old.RequireExit(0)
}

// startAdvisor starts the advisor itself, not a stand-in.
func startAdvisor(t *testing.T) testkit.Endpoint {
	t.Helper()
	env := &service.Env{Addr: "127.0.0.1:0", Health: new(service.Health), Metrics: metric.New(),
		Log: new(testkit.Log).Logger()}
	s := testkit.Must(advisor.New(t.Context(), env,
		config.Config{LimitMin: 5, LimitMax: 100_000, StateEvery: time.Hour, Zone: time.UTC}))(t)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return testkit.Endpoint{T: t, Addr: s.Addr().String()}
}

// Deliveries of stored requests count in the load of the target, and not in the demand: the
// advisor learns from them what the proxy has counted.
func TestDeliveriesAreNoDemand(t *testing.T) {
	itself := startAdvisor(t)
	var seen atomic.Int32 // snapshots with deliveries
	between := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var sent struct{ ObservedRPS, ForwardedRPS, DeliveredRPS float64 }
		if err := json.Unmarshal(body, &sent); err != nil {
			t.Errorf("the proxy sends %s: %v", body, err)
		}
		status, answer := itself.Call(r.Method+" "+r.URL.Path+" Content-Type=application/json", string(body))
		if err != nil || status != http.StatusOK {
			t.Errorf("%s is answered %d %s, %v", body, status, answer, err)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
		if sent.DeliveredRPS == 0 || strings.Contains(answer, "doubtful") {
			return
		}
		seen.Add(1)
		var state struct {
			Instances []struct{ ObservedRPS, ForwardedRPS float64 }
		}
		var past struct{ Rows []struct{ RPS float64 } }
		itself.Decode("/v1/state", &state)
		itself.Decode("/v1/history?span=60&resolution=raw", &past)
		if len(state.Instances) != 1 || len(past.Rows) == 0 {
			t.Errorf("the advisor knows %+v and %+v", state, past)
			return
		}
		got, demand := state.Instances[0], past.Rows[len(past.Rows)-1].RPS
		within := testkit.Tolerance(1e-3)
		within.Near(t, "the demand", demand, sent.ObservedRPS)
		within.Near(t, "what arrives", got.ObservedRPS, sent.ObservedRPS)
		within.Near(t, "the load", got.ForwardedRPS, sent.ForwardedRPS+sent.DeliveredRPS)
	})
	s := newShop(t)
	p := launch(t, append(deferring(t, s, "algorithm: token, capacity: 1, fillRate: 20", "for: 600, reserve: 0"),
		"ADVISOR_URL", between, "ADAPTIVE_MODE", "shadow", "ADAPTIVE_UPDATE_INTERVAL", "1s", "ADAPTIVE_TIME_SCALE", "10"))
	for _, body := range []string{"one", "two", "three"} {
		p.becomes(p.stored("", body).ID, "done")
	}
	testkit.Eventually(t, "a snapshot with deliveries", func() bool { return seen.Load() > 0 })
}
