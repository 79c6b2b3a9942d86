package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/metric"
	"weir/internal/service"
	"weir/loadgen/drive"
	"weir/loadgen/plan"
	"weir/loadgen/record"
)

const patience = 20 * time.Second

// A rig is the REST interface and a target to send to.
type rig struct {
	t        *testing.T
	runs     *Runs
	api      http.Handler
	target   *httptest.Server
	requests atomic.Int64
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t}
	r.target = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		r.requests.Add(1)
		io.WriteString(w, "OK")
	}))
	r.runs = New(drive.Settings{
		Loops: 1, Meters: drive.NewMeters(metric.New(), 1),
		Logger: func(string) *slog.Logger { return slog.New(slog.DiscardHandler) },
	}, "")
	mux := http.NewServeMux()
	r.runs.Register(mux)
	r.api = service.JSONErrors(mux)
	t.Cleanup(func() {
		r.runs.Close()
		r.target.Close()
	})
	return r
}

// config is a configuration for the rig's target.
func (r *rig) config(rps, seconds float64) string {
	return fmt.Sprintf(`{"limiterUrl":%q,"duration":%g,"profile":{"type":"constant","params":{"rps":%g}}}`,
		r.target.URL+"/api/test", seconds, rps)
}

// ask sends a request and returns the status and the JSON of the answer.
func (r *rig) ask(method, path, body string) (int, map[string]any) {
	r.t.Helper()
	w := httptest.NewRecorder()
	r.api.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	var answer map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		r.t.Fatalf("%s %s: %v in %q", method, path, err, w.Body)
	}
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		r.t.Errorf("%s %s: Content-Type %q", method, path, got)
	}
	return w.Code, answer
}

// want asks and checks the status.
func (r *rig) want(status int, method, path, body string) map[string]any {
	r.t.Helper()
	got, answer := r.ask(method, path, body)
	if got != status {
		r.t.Fatalf("%s %s: %d %v, want %d", method, path, got, answer, status)
	}
	return answer
}

func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func TestNothingYet(t *testing.T) {
	r := newRig(t)
	if a := r.want(200, "GET", "/test/status", ""); a["running"] != false || len(a) != 1 {
		t.Errorf("status %v", a)
	}
	r.want(404, "POST", "/test/stop", "")
	r.want(404, "GET", "/test/config", "")
	r.want(404, "GET", "/test/result", "")
	r.want(404, "GET", "/test/report", "")
	r.want(404, "GET", "/nowhere", "")
	r.want(405, "GET", "/test/start", "")
	r.want(405, "POST", "/test/status", "")
}

func TestStartStatusStop(t *testing.T) {
	r := newRig(t)
	a := r.want(200, "POST", "/test/start", r.config(200, 60))
	id, _ := a["testId"].(string)
	if a["status"] != "started" || id == "" {
		t.Fatalf("start: %v", a)
	}
	if a := r.want(409, "POST", "/test/start", r.config(1, 1)); !strings.Contains(a["error"].(string), id) {
		t.Errorf("second start: %v", a)
	}
	until(t, "requests in the status", func() bool {
		return r.want(200, "GET", "/test/status", "")["requestsSent"].(float64) > 0
	})
	s := r.want(200, "GET", "/test/status", "")
	for _, name := range []string{
		"running", "testId", "profile", "elapsedTime", "duration", "requestsSent", "completed", "success",
		"rateLimited", "errors", "currentRps", "targetRps", "latency", "lag", "verdict",
	} {
		if _, ok := s[name]; !ok {
			t.Errorf("the status lacks %s: %v", name, s)
		}
	}
	if s["running"] != true || s["testId"] != id || s["profile"] != "constant" || s["targetRps"] != 200.0 || s["duration"] != 60.0 {
		t.Errorf("status %v", s)
	}
	if lag, ok := s["lag"].(map[string]any); !ok || lag["p99"] == nil {
		t.Errorf("lag %v", s["lag"])
	}
	if c := r.want(200, "GET", "/test/config", ""); c["duration"] != 60.0 || c["requestOptions"].(map[string]any)["method"] != "GET" {
		t.Errorf("config %v", c)
	}
	r.want(404, "GET", "/test/result", "")

	if a := r.want(200, "POST", "/test/stop", ""); a["status"] != "stopped" || a["testId"] != id {
		t.Errorf("stop: %v", a)
	}
	r.want(404, "POST", "/test/stop", "")
	s = r.want(200, "GET", "/test/status", "")
	last, _ := s["last"].(map[string]any)
	if s["running"] != false || last["testId"] != id || last["requestsSent"].(float64) == 0 {
		t.Errorf("status after the stop: %v", s)
	}
	result := r.want(200, "GET", "/test/result", "")
	if result["end"] != "stopped" || result["testId"] != id || result["requestsSent"] != last["requestsSent"] {
		t.Errorf("result %v", result)
	}
	r.want(200, "GET", "/test/config", "")
	r.want(200, "POST", "/test/start", r.config(100, 60)) // it can be started again
}

// Of many that start at once one succeeds; of many that stop, each hears of the
// same test or that there is none.
func TestStartAndStopAtOnce(t *testing.T) {
	r := newRig(t)
	var started, refused, stopped atomic.Int64
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			_, err := r.runs.Start([]byte(r.config(50, 60)))
			if _, running := errors.AsType[*RunningError](err); running {
				refused.Add(1)
			} else if err == nil {
				started.Add(1)
			}
		})
	}
	all.Wait()
	if started.Load() != 1 || refused.Load() != 4 {
		t.Errorf("%d started, %d refused, want 1 and 4", started.Load(), refused.Load())
	}
	run, _ := r.runs.Current()
	for range 5 {
		all.Go(func() {
			if id, ok := r.runs.Stop(); ok {
				stopped.Add(1)
				if id != run.ID() {
					t.Errorf("stopped %s, want %s", id, run.ID())
				}
			}
		})
	}
	all.Wait()
	if _, running := r.runs.Current(); running || stopped.Load() == 0 {
		t.Errorf("%d stopped it, still running: %v", stopped.Load(), running)
	}
}

// A stop that comes while a test is being started stops that test.
func TestStopDuringStart(t *testing.T) {
	r := newRig(t)
	type answer struct {
		id string
		ok bool
	}
	answered := make(chan answer, 1)
	r.runs.mu.Lock() // as Start does
	go func() {
		id, ok := r.runs.Stop()
		answered <- answer{id, ok}
	}()
	run, err := r.runs.startLocked([]byte(r.config(50, 60)))
	r.runs.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	if a := <-answered; !a.ok || a.id != run.ID() {
		t.Errorf("the stop answers %+v, want test %s", a, run.ID())
	}
}

// A test that waits for its time can be stopped, and has a result.
func TestStopBeforeStartAt(t *testing.T) {
	r := newRig(t)
	at := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	r.want(200, "POST", "/test/start", strings.Replace(r.config(50, 60), "{", `{"startAt":"`+at+`",`, 1))
	if s := r.want(200, "GET", "/test/status", ""); s["phase"] != "waiting" || s["running"] != true {
		t.Errorf("status %v", s)
	}
	r.want(200, "POST", "/test/stop", "")
	if a := r.want(200, "GET", "/test/result", ""); a["end"] != "stopped" || a["requestsSent"] != 0.0 {
		t.Errorf("result %v", a)
	}
}

func TestStartRefused(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct{ body, path, sentence string }{
		{"", "", "JSON"},
		{`{"limiterUrl":"http://a"}`, "duration", "duration: is missing"},
		{`{"limiterUrl":"http://a","duration":1,"profile":{"type":"zigzag"}}`, "profile.type", "must be constant"},
		{strings.Replace(r.config(1, 1), `"rps":1`, `"rps":1,"burst":2`, 1), "profile.params.burst", "unknown"},
		{strings.Replace(r.config(1, 1), "127.0.0.1", "no-such-host.invalid", 1), "limiterUrl", "cannot be found"},
		{strings.Replace(r.config(1, 1), "{", `{"concurrency":59999999,`, 1), "concurrency", "must be from 0"},
		{`{"config":"x"}`, "config", "CONFIG_DIR"},
	} {
		a := r.want(400, "POST", "/test/start", c.body)
		path, _ := a["path"].(string)
		if path != c.path || !strings.Contains(a["error"].(string), c.sentence) {
			t.Errorf("%s: %v, want path %q and %q", c.body, a, c.path, c.sentence)
		}
	}
	if a := r.want(200, "GET", "/test/status", ""); a["running"] != false {
		t.Errorf("a refused test runs: %v", a)
	}
}

func TestNamedTest(t *testing.T) {
	r := newRig(t)
	r.runs.folder = t.TempDir()
	if err := os.WriteFile(filepath.Join(r.runs.folder, "small.json"), []byte(r.config(100, 0.1)), 0o600); err != nil {
		t.Fatal(err)
	}
	r.want(200, "POST", "/test/start", `{"config":"small"}`)
	until(t, "the result", func() bool {
		status, _ := r.ask("GET", "/test/result", "")
		return status == 200
	})
	if a := r.want(200, "GET", "/test/result", ""); a["success"] != 10.0 || a["end"] != "completed" {
		t.Errorf("result %v", a)
	}
}

// A server starts the test of CONFIG_FILE, answers, and stops the test when it
// is asked to end.
func TestServe(t *testing.T) {
	r := newRig(t)
	file := filepath.Join(t.TempDir(), "test.json")
	if err := os.WriteFile(file, []byte(r.config(100, 60)), 0o600); err != nil {
		t.Fatal(err)
	}
	e := &service.Env{Addr: freeAddr(t), Health: new(service.Health), Metrics: metric.New()}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.runs.Serve(ctx, e, file) }()
	until(t, "requests", func() bool { return r.requests.Load() > 0 })
	var health string
	until(t, "health", func() bool {
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
		t.Error("the test was not stopped")
	}
	r.want(503, "POST", "/test/start", r.config(1, 1))
}

func TestServeRefusesBadFile(t *testing.T) {
	r := newRig(t)
	file := filepath.Join(t.TempDir(), "test.json")
	if err := os.WriteFile(file, []byte(`{"duration":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{file, file + ".absent"} {
		err := r.runs.Serve(context.Background(), &service.Env{Addr: "127.0.0.1:0"}, f)
		if exit, ok := err.(*service.ExitError); !ok || exit.Status != 2 {
			t.Errorf("%s: %v", f, err)
		}
	}
}

func TestEnding(t *testing.T) {
	missed := []record.Checked{{Held: true}, {Held: false}}
	for _, c := range []struct {
		verdict     record.Verdict
		thresholds  []record.Checked
		interrupted bool
		want        int
	}{
		{record.Valid, nil, false, 0},
		{record.Degraded, []record.Checked{{Held: true}}, false, 0},
		{record.Valid, missed, false, 4},
		{record.Invalid, nil, false, 3},
		{record.Invalid, missed, false, 3},
		{record.Valid, nil, true, 130},
		{record.Invalid, missed, true, 130},
	} {
		err := ending(&record.Result{Verdict: c.verdict, Thresholds: c.thresholds}, c.interrupted)
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
	course := record.Series{Step: 1, Rows: []record.Row{{Sent: 1}, {Sent: 8}}}
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
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
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
	if text, _ := plan.ReadFile(file.Name()); string(text) != want {
		t.Errorf("it wrote %q", text)
	}
}

// freeAddr is an address that nobody listens on.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
