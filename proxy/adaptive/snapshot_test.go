package adaptive

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"weir/proxy/admin"
	"weir/proxy/limit"
	"weir/proxy/session"
	"weir/proxy/wire"
)

// active is a limit in force.
func active(t *testing.T, c limit.Config) *admin.Active {
	t.Helper()
	l, err := limit.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return &admin.Active{Config: c, Policy: session.NewPolicy("global", l)}
}

func TestSnapshots(t *testing.T) {
	at := active(t, limit.Config{Algorithm: limit.GCRA, Limit: 10, Window: 1, Burst: 3, Capacity: 7})
	const limits = `"algorithm":"gcra","limit":10,"window":1,"burst":3`
	c := clock{began: epoch, interval: 30 * time.Second, scale: 30}
	seconds := func(s float64) time.Time { return epoch.Add(time.Duration(s * float64(time.Second))) }
	for _, test := range []struct {
		name         string
		before, then float64 // real seconds
		traffic      wire.Traffic
		want         string
	}{
		{"nothing", 0, 1, wire.Traffic{},
			`{"timestamp":"2026-01-19T16:30:30Z","interval":30,"observedRps":0,"forwardedRps":0,"rejectedRate":0,"latencyP95":0,"errors5xx":0,` + limits + `,"instance":"x"}`},
		{"real rates", 1, 2, wire.Traffic{Admitted: 75, Denied: 25, Ended: 50, Failed: 5},
			`{"timestamp":"2026-01-19T16:31:00Z","interval":30,"observedRps":100,"forwardedRps":75,"rejectedRate":0.25,"latencyP95":0,"errors5xx":0.1,` + limits + `,"instance":"x"}`},
		{"read late", 1, 2.25, wire.Traffic{Admitted: 125},
			`{"timestamp":"2026-01-19T16:31:00Z","interval":30,"observedRps":100,"forwardedRps":100,"rejectedRate":0,"latencyP95":0,"errors5xx":0,` + limits + `,"instance":"x"}`},
		{"for several intervals", 1, 4, wire.Traffic{Admitted: 300, Denied: 0, Ended: 1, Failed: 2},
			`{"timestamp":"2026-01-19T16:32:00Z","interval":90,"observedRps":100,"forwardedRps":100,"rejectedRate":0,"latencyP95":0,"errors5xx":1,` + limits + `,"instance":"x"}`},
		{"for longer than there are intervals", 0, 121, wire.Traffic{Admitted: 121},
			`{"timestamp":"2026-01-19T17:30:30Z","interval":3600,"observedRps":1,"forwardedRps":1,"rejectedRate":0,"latencyP95":0,"errors5xx":0,` + limits + `,"instance":"x"}`},
	} {
		before := &reading{at: seconds(test.before), turn: c.turn(seconds(test.before)), traffic: &wire.Traffic{Admitted: 1000, Denied: 1000, Ended: 500, Failed: 7}}
		sum := wire.Traffic{Admitted: 1000 + test.traffic.Admitted, Denied: 1000 + test.traffic.Denied, Ended: 500 + test.traffic.Ended, Failed: 7 + test.traffic.Failed}
		s := c.snapshot(before, &reading{at: seconds(test.then), turn: c.turn(seconds(test.then)), traffic: &sum}, at, "x")
		if got, err := json.Marshal(s); err != nil || string(got) != test.want {
			t.Errorf("%s: %s %v\nwant %s", test.name, got, err, test.want)
		}
	}
}

// The clock's turns are even, and every moment belongs to the turn that was due last.
func TestClock(t *testing.T) {
	for _, c := range []clock{
		{epoch, 30 * time.Second, 1}, {epoch, 30 * time.Second, 30}, {epoch, time.Second, 7}, {epoch, 30 * time.Second, 999.9}, {epoch, time.Hour, 1.0 / 3 * 10},
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
		if got, want := c.then(epoch.Add(2*time.Second), epoch.Add(time.Second)), epoch.Add(time.Duration(c.scale*1e9)); got.Sub(want).Abs() > time.Microsecond {
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

// Run asks at every interval, applies, and leaves nothing behind.
func TestRun(t *testing.T) {
	s := new(shared)
	r := start(t, func(c *Config) {
		c.Settings.Interval, c.Settings.Scale, c.Shared = time.Second, 100, s
	})
	r.oracle.says(token50)
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan bool)
	go func() { r.Run(ctx); close(ended) }()
	until(t, "ten updates", func() bool { return len(r.read().lines) >= 10 })
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
	if lines[0].Result != Applied || lines[1].Result != Unchanged || r.told()["leader"] != false || s.holder != "" {
		t.Errorf("remembered %v, %v; leader %v, holder %q", lines[0].Result, lines[1].Result, r.told()["leader"], s.holder)
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
	until(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
	if text := strings.Join(r.log.taken(), "\n"); strings.Contains(text, "WARN") {
		t.Errorf("logged %s", text)
	}
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never came true: %s", what)
		}
	}
}
