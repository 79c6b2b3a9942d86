package control

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/program/metric"
	"weir/internal/program/service"
	"weir/internal/test/testkit"
	"weir/loadgen/plan"
	"weir/loadgen/record"
)

// A server starts the test of CONFIG_FILE, answers, and stops the test when it
// is asked to end.
func TestServe(t *testing.T) {
	r := newRig(t)
	file := filepath.Join(t.TempDir(), "test.json")
	testkit.WriteFile(t, file, r.config(100, 60))
	addr := testkit.FreeAddr(t)
	e := &service.Env{Addr: addr, Health: new(service.Health), Metrics: metric.New()}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.runs.Serve(ctx, e, file) }()
	testkit.Eventually(t, "requests", func() bool { return r.requests.Load() > 0 })
	var health string
	testkit.Eventually(t, "health", func() bool {
		resp, err := http.Get("http://" + e.Addr + "/actuator/health")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		health = string(b)
		return resp.StatusCode == 200
	})
	if !strings.Contains(health, `"test":{"status":"UP","running":true}`) {
		t.Errorf("health %s", health)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("serve: %v", err)
	}
	if run, running := r.runs.Current(); running || run.Result().End != record.EndStopped {
		t.Errorf("the test is running: %t, its end is %q, want %q", running, run.Result().End, record.EndStopped)
	}
	r.want(503, "POST", "/test/start", r.config(1, 1))
}

func TestServeRefusesBadFile(t *testing.T) {
	r := newRig(t)
	file := filepath.Join(t.TempDir(), "test.json")
	testkit.WriteFile(t, file, `{"duration":1}`)
	for _, f := range []string{file, file + ".absent"} {
		err := r.runs.Serve(context.Background(), &service.Env{Addr: "127.0.0.1:0"}, f)
		if exit, ok := err.(*service.ExitError); !ok || exit.Status != 2 {
			t.Errorf("%s: %v", f, err)
		}
	}
}

func TestEnding(t *testing.T) {
	missed := []record.ThresholdResult{{Held: true}, {Held: false}}
	for _, c := range []struct {
		validity    record.Validity
		thresholds  []record.ThresholdResult
		interrupted bool
		want        int
	}{
		{record.Valid, nil, false, 0},
		{record.Degraded, []record.ThresholdResult{{Held: true}}, false, 0},
		{record.Valid, missed, false, 4},
		{record.Invalid, nil, false, 3},
		{record.Invalid, missed, false, 3},
		{record.Valid, nil, true, 130},
		{record.Invalid, missed, true, 130},
	} {
		err := ending(&record.Result{Verdict: c.validity, Thresholds: c.thresholds}, c.interrupted)
		got := 0
		if exit, ok := err.(*service.ExitError); ok {
			got = exit.Status
		}
		if got != c.want {
			t.Errorf("%+v ends with %d", c, got)
		}
	}
}

// On a terminal the line is drawn over, and taken away before the log writes.
func TestDisplayOnTerminal(t *testing.T) {
	var out strings.Builder
	d := &Display{out: &out, width: func() int { return 40 }}
	log := slog.New(d.Over(slog.NewTextHandler(&out, nil)))
	d.draw(&record.Status{Phase: record.PhaseWaiting, Duration: 60})
	log.With("a", 1).WithGroup("g").Info("hello")
	log.Info("again")
	course := record.Series{Step: 1, Rows: []record.SeriesRow{{Sent: 1}, {Sent: 8}}}
	d.draw(&record.Status{Phase: record.PhaseRunning, Elapsed: 30, Duration: 60, Course: course})
	d.clear()
	const erase = "\r\x1b[K"
	parts := strings.Split(out.String(), erase)
	if len(parts) != 5 || parts[1] != "[                    ] waiting for the s" ||
		!strings.Contains(parts[2], "hello") || !strings.Contains(parts[2], "again") ||
		parts[3] != "[==========          ] ▁█ 30 s of 60 s  " || parts[4] != "" {
		t.Errorf("it wrote %q", parts)
	}
}

func TestDisplayElsewhere(t *testing.T) {
	file := testkit.Must(os.Create(filepath.Join(t.TempDir(), "out")))(t)
	defer file.Close()
	d := NewDisplay(file)
	if d.every() != time.Second {
		t.Errorf("a line every %v", d.every())
	}
	d.draw(&record.Status{Phase: record.PhaseWaiting})
	for i := range 12 {
		d.draw(&record.Status{Phase: record.PhaseRunning, Elapsed: float64(i), Duration: 20})
	}
	d.draw(&record.Status{Phase: record.PhaseFinishing})
	d.clear()
	const want = `waiting for the start
0.0 s of 20 s  0/s of 0/s  ok 0  limited 0  errors 0
5.0 s of 20 s  0/s of 0/s  ok 0  limited 0  errors 0
10 s of 20 s  0/s of 0/s  ok 0  limited 0  errors 0
waiting for 0 answers  ok 0  limited 0  errors 0
`
	if text, _ := plan.ReadConfig(file.Name()); string(text) != want {
		t.Errorf("it wrote %q", text)
	}
}
