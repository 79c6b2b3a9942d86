package adaptive

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/control/admin"
	"weir/proxy/limit"
	limiter "weir/proxy/rules/decide"
	"weir/proxy/store"
	"weir/proxy/wire/report"
)

// active is a limit in force.
func active(t *testing.T, c limit.Config) *admin.ActiveLimit {
	t.Helper()
	l := testkit.Must(limit.New(c))(t)
	return &admin.ActiveLimit{Config: c, Policy: limiter.NewPolicy(l)}
}

func TestSnapshots(t *testing.T) {
	at := active(t, limit.Config{Algorithm: limit.GCRA, Limit: 10, Window: 1, Burst: 3, Capacity: 7})
	gates := func(ended int, rest string) string {
		return fmt.Sprintf(`,"instance":"x","ended":%d,"mode":"","store":"",%s}`, ended, rest)
	}
	const none = `"inFlight":0,"gateLimit":0,"gateShare":0,"healthyTargets":0`
	const limits = `"algorithm":"gcra","limit":10,"window":1,"burst":3`
	c := clock{began: epoch, interval: 30 * time.Second, scale: 30}
	seconds := func(s float64) time.Time { return epoch.Add(time.Duration(s * float64(time.Second))) }
	for _, test := range []struct {
		name         string
		before, then float64 // real seconds
		traffic      report.TrafficTotals
		want         string
	}{
		{"nothing", 0, 1, report.TrafficTotals{},
			`{"timestamp":"2026-01-19T16:30:30Z","interval":30,"observedRps":0,"forwardedRps":0,"rejectedRate":0,"latencyP95":0,"errors5xx":0,` + limits + gates(0, none)},
		{"real rates", 1, 2, report.TrafficTotals{Admitted: 75, Denied: 25, Ended: 50, Failed: 5},
			`{"timestamp":"2026-01-19T16:31:00Z","interval":30,"observedRps":100,"forwardedRps":75,"rejectedRate":0.25,"latencyP95":0,"errors5xx":0.1,` + limits + gates(1500, none)},
		{"read late", 1, 2.25, report.TrafficTotals{Admitted: 125},
			`{"timestamp":"2026-01-19T16:31:00Z","interval":30,"observedRps":100,"forwardedRps":100,"rejectedRate":0,"latencyP95":0,"errors5xx":0,` + limits + gates(0, none)},
		{"for several intervals", 1, 4, report.TrafficTotals{Admitted: 300, Denied: 0, Ended: 1, Failed: 2},
			`{"timestamp":"2026-01-19T16:32:00Z","interval":90,"observedRps":100,"forwardedRps":100,"rejectedRate":0,"latencyP95":0,"errors5xx":1,` + limits + gates(30, none)},
		{"for longer than there are intervals", 0, 121, report.TrafficTotals{Admitted: 121},
			`{"timestamp":"2026-01-19T17:30:30Z","interval":3600,"observedRps":1,"forwardedRps":1,"rejectedRate":0,"latencyP95":0,"errors5xx":0,` + limits + gates(0, none)},
		{"deliveries", 1, 2, report.TrafficTotals{Admitted: 2, Delivered: 90, Ended: 92},
			`{"timestamp":"2026-01-19T16:31:00Z","interval":30,"observedRps":2,"forwardedRps":2,"rejectedRate":0,"latencyP95":0,"errors5xx":0,` + limits +
				strings.Replace(gates(2760, none), `"inFlight"`, `"deliveredRps":90,"inFlight"`, 1)},
		{"gates", 1, 3, report.TrafficTotals{Admitted: 200, Ended: 100, Taken: 30_000_000, Places: 40_000_000,
			Bound:   10_000_000,
			Targets: 3},
			`{"timestamp":"2026-01-19T16:31:30Z","interval":60,"observedRps":100,"forwardedRps":100,"rejectedRate":0,"latencyP95":0,"errors5xx":0,` + limits +
				gates(3000, `"inFlight":15,"gateLimit":20,"gateShare":0.25,"healthyTargets":3`)},
	} {
		before := &reading{at: seconds(test.before), turn: c.turn(seconds(test.before)),
			traffic: &report.TrafficTotals{Admitted: 1000, Denied: 1000, Ended: 500, Failed: 7}}
		sum := report.TrafficTotals{Admitted: 1000 + test.traffic.Admitted, Denied: 1000 + test.traffic.Denied,
			Ended: 500 + test.traffic.Ended, Delivered: test.traffic.Delivered, Failed: 7 + test.traffic.Failed,
			Taken: test.traffic.Taken, Places: test.traffic.Places, Bound: test.traffic.Bound, Targets: test.traffic.Targets}
		s := c.snapshot(before, &reading{at: seconds(test.then), turn: c.turn(seconds(test.then)), traffic: &sum}, at, "x")
		if got, err := json.Marshal(s); err != nil || string(got) != test.want {
			t.Errorf("%s: %s %v\nwant %s", test.name, got, err, test.want)
		}
	}
}

// The clock's turns are even, and every moment belongs to the turn that was due last.
func TestClock(t *testing.T) {
	for _, c := range []clock{
		{epoch, 30 * time.Second, 1}, {epoch, 30 * time.Second, 30}, {epoch, time.Second, 7},
		{epoch, 30 * time.Second, 999.9}, {epoch, time.Hour, 1.0 / 3 * 10},
	} {
		for n := range int64(5000) {
			due := c.due(n)
			if got := c.turn(due); got != n {
				t.Fatalf("%+v: turn %d is due at %v, and that is turn %d", c, n, due, got)
			}
			if n > 0 && c.turn(due.Add(-1)) != n-1 {
				t.Fatalf("%+v: turn %d is due too early", c, n)
			}
			if want := c.began.Add(time.Duration(n) * c.interval); c.at(due).Sub(want).Abs() > time.Millisecond {
				t.Fatalf("%+v: at turn %d it shows %v, want %v", c, n, c.at(due), want)
			}
		}
		if got, want := c.then(epoch.Add(2*time.Second), epoch.Add(time.Second)),
			epoch.Add(time.Duration(c.scale*1e9)); got.Sub(want).Abs() > time.Microsecond {
			t.Errorf("%+v: a second after the beginning was at %v, want %v", c, got, want)
		}
		if got := c.then(epoch, epoch.Add(time.Hour)); !got.Equal(epoch) {
			t.Errorf("%+v: the future was at %v", c, got)
		}
		if got := c.then(epoch, time.Time{}); got.After(epoch.Add(-time.Hour)) {
			t.Errorf("%+v: long ago was at %v", c, got)
		}
	}
}

// The first snapshot is due at once. While gates hold requests back one is due about every 2 s,
// and the last one ends with the interval.
func TestDue(t *testing.T) {
	r := begun(t)
	var sent []string
	for at := time.Duration(0); at < time.Minute; at += time.Second {
		now := epoch.Add(at)
		r.traffic.Places += 10_000_000
		if at > 6*time.Second && at <= 12*time.Second {
			r.traffic.Bound += 5_000_000
		}
		if at%(2*time.Second) == 0 && at > 0 && r.due(now) {
			s := r.open(now).snapshot
			sent = append(sent, fmt.Sprintf("%v: %v, %.2f", at, s.Interval, s.GateShare))
		}
	}
	if got := strings.Join(sent, "; "); got != "2s: 2, 0.00; 8s: 6, 0.17; 10s: 2, 0.50; 12s: 2, 0.50; 30s: 18, 0.00" {
		t.Errorf("sent %s", got)
	}
	if text := strings.Join(r.log.Taken(),
		"; "); text != "DEBUG Adaptive - AI request sent (interval 2 s); DEBUG Adaptive - AI request sent (interval 6 s); "+
		"DEBUG Adaptive - AI request sent (interval 2 s); "+
		"DEBUG Adaptive - AI request sent (interval 2 s); INFO Adaptive - AI request sent (interval 18 s)" {
		t.Errorf("logged %s", text)
	}
	if next := r.Follower.read().next; !next.Equal(epoch.Add(time.Minute)) {
		t.Errorf("the next is due at %v", next)
	}
}

// A snapshot states whether the store is shared, and whether the limit decided during the whole
// interval.
func TestEnforced(t *testing.T) {
	for _, c := range []struct {
		mode   string
		shared *shared
		away   store.Mode
		want   string
	}{
		{"true", nil, store.Exact, "normal local"}, {"true", new(shared), store.Exact, "normal shared"},
		{"shadow", new(shared), store.Exact, "shadow shared"},
		{"true", new(shared), store.FailOpen, "failopen shared"}, {"true", new(shared), store.Closed, "failopen shared"},
		{"shadow", new(shared), store.FailOpen, "failopen shared"}, {"true", new(shared), store.Local, "normal local"},
	} {
		r := start(t, func(cfg *Config) {
			cfg.Settings.Mode = c.mode
			if c.shared != nil {
				cfg.Store, cfg.Shared = c.shared, true
			}
		})
		if c.shared != nil {
			c.shared.mode = c.away
			r.renew(r.now)
			c.shared.mode = store.Exact // it is back before the snapshot
		}
		s := r.ask().snapshot
		if got := s.Mode + " " + s.Store; got != c.want {
			t.Errorf("%+v: %s, want %s", c, got, c.want)
		}
		if s = r.ask().snapshot; s.Mode == "failopen" {
			t.Errorf("%+v: it is told again", c)
		}
	}
}

// Run asks at every interval, applies, and leaves nothing behind.
func TestRun(t *testing.T) {
	s := new(shared)
	r := start(t, func(c *Config) {
		c.Settings.Interval, c.Settings.Scale, c.Store, c.Shared = time.Second, 100, s, true
	})
	r.oracle.says(token50)
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan bool)
	go func() { r.Run(ctx); close(ended) }()
	testkit.Eventually(t, "ten updates", func() bool { return len(r.read().lines) >= 10 })
	if first := r.read().lines[:2]; len(r.read().lines) < linesMax &&
		(first[0].Result != Applied || first[1].Result != Unchanged) {
		t.Errorf("remembered %v, %v", first[0].Result, first[1].Result)
	}
	hangs := make(chan bool)
	r.oracle.does(func(_ http.ResponseWriter, q *http.Request) {
		select {
		case hangs <- true:
		default:
		}
		<-q.Context().Done()
	})
	<-hangs
	cancel() // in the middle of a turn
	<-ended
	lines := r.read().lines
	if r.told()["leader"] != false || s.holder != "" {
		t.Errorf("leader %v, holder %q", r.told()["leader"], s.holder)
	}
	for i := 1; i < len(lines); i++ {
		a, b := lines[i-1].Snapshot, lines[i].Snapshot
		if step := b.Timestamp.Sub(a.Timestamp).Seconds(); math.Abs(step-b.Interval) > 0.002 || b.Interval < 1 {
			t.Errorf("from %v to %v, and the interval is %v", a.Timestamp, b.Timestamp, b.Interval)
		}
	}
	if l := lines[len(lines)-1]; l.Result == Failed {
		t.Errorf("the end counts as a failure: %s", l.Reason)
	}
	r.inForce("token 200/50 advisor")
	r.oracle.Close()
	testkit.Eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
	if text := strings.Join(r.log.Taken(), "\n"); strings.Contains(text, "WARN") {
		t.Errorf("logged %s", text)
	}
}
