package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/advisor/config"
	advisor "weir/advisor/serve"
	"weir/internal/metric"
	"weir/internal/service"
	"weir/internal/testkit"
)

// startAdvisor starts the advisor itself, not a stand-in, and returns its address.
func startAdvisor(t *testing.T) (url string) {
	t.Helper()
	env := &service.Env{Addr: "127.0.0.1:0", Health: new(service.Health), Metrics: metric.New(), Log: new(testkit.Log).Logger()}
	s := testkit.Must(advisor.New(t.Context(), env, config.Config{LimitMin: 5, LimitMax: 100_000, StateEvery: time.Hour, Zone: time.UTC}))(t)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "http://" + s.Addr().String()
}

// Deliveries of stored requests count in the load of the target, and not in the demand: the
// advisor learns from them what the proxy has counted.
func TestDeliveriesAreNoDemand(t *testing.T) {
	client := testkit.NewClient(t, startAdvisor(t))
	var seen atomic.Int32 // snapshots with deliveries
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var sent struct{ ObservedRPS, ForwardedRPS, DeliveredRPS float64 }
		if err := json.Unmarshal(body, &sent); err != nil {
			t.Errorf("the proxy sends %s: %v", body, err)
		}
		status, _, answer := client.Do(r.Method, r.URL.Path, string(body))
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
		_, _, known := client.Do("GET", "/v1/state", "")
		_, _, rows := client.Do("GET", "/v1/history?span=60&resolution=raw", "")
		if json.Unmarshal([]byte(known), &state) != nil || json.Unmarshal([]byte(rows), &past) != nil || len(state.Instances) != 1 || len(past.Rows) == 0 {
			t.Errorf("the advisor knows %s and %s", known, rows)
			return
		}
		got, demand := state.Instances[0], past.Rows[len(past.Rows)-1].RPS
		within := testkit.Within(1e-3)
		within.Near(t, "the demand", demand, sent.ObservedRPS)
		within.Near(t, "what arrives", got.ObservedRPS, sent.ObservedRPS)
		within.Near(t, "the load", got.ForwardedRPS, sent.ForwardedRPS+sent.DeliveredRPS)
	}))
	defer between.Close()
	s := newShop(t)
	p := launch(t, append(deferring(t, s, "algorithm: token, capacity: 1, fillRate: 20", "for: 600, reserve: 0"),
		"ADVISOR_URL", between.URL, "ADAPTIVE_MODE", "shadow", "ADAPTIVE_UPDATE_INTERVAL", "1s", "ADAPTIVE_TIME_SCALE", "10"))
	for _, body := range []string{"one", "two", "three"} {
		p.becomes(p.stored("", body).ID, "done")
	}
	testkit.Eventually(t, "a snapshot with deliveries", func() bool { return seen.Load() > 0 })
}
