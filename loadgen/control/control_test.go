package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/program/metric"
	"weir/internal/program/service"
	"weir/internal/test/testkit"
	"weir/loadgen/drive"
)

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
		Loops: 1, Metrics: drive.NewMetrics(metric.New(), 1),
		Logger: func(string) *slog.Logger { return slog.New(slog.DiscardHandler) },
	}, "")
	own := service.NewEndpoints(&service.Env{Guard: &service.AccessGuard{Open: true}})
	r.runs.Register(own)
	r.api = own
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
	testkit.Eventually(t, "requests in the status", func() bool {
		return r.want(200, "GET", "/test/status", "")["requestsSent"].(float64) > 0
	})
	s := r.want(200, "GET", "/test/status", "")
	for _, name := range []string{
		"running", "testId", "profile", "elapsedTime", "duration", "requestsSent", "completed", "success",
		"rateLimited", "shed", "errors", "currentRps", "targetRps", "latency", "lag", "verdict",
	} {
		if _, ok := s[name]; !ok {
			t.Errorf("the status lacks %s: %v", name, s)
		}
	}
	if s["running"] != true || s["testId"] != id || s["profile"] != "constant" || s["targetRps"] != 200.0 ||
		s["duration"] != 60.0 {
		t.Errorf("status %v", s)
	}
	if at, err := time.Parse(time.RFC3339Nano, s["startAt"].(string)); err != nil || at.After(time.Now()) {
		t.Errorf("started at %v, %v", s["startAt"], err)
	}
	if s["limiterUrl"] != r.target.URL+"/api/test" {
		t.Errorf("status of a test on %v", s["limiterUrl"])
	}
	if lag, ok := s["lag"].(map[string]any); !ok || lag["p99"] == nil {
		t.Errorf("lag %v", s["lag"])
	}
	if c := r.want(200, "GET", "/test/config", ""); c["duration"] != 60.0 ||
		c["requestOptions"].(map[string]any)["method"] != "GET" {
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
			if errors.Is(err, errRunning) {
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
	if s := r.want(200, "GET", "/test/status", ""); s["phase"] != "waiting" || s["running"] != true || s["startAt"] != at {
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
	testkit.WriteFile(t, filepath.Join(r.runs.folder, "small.json"), r.config(100, 0.1))
	r.want(200, "POST", "/test/start", `{"config":"small"}`)
	testkit.Eventually(t, "the result", func() bool {
		status, _ := r.ask("GET", "/test/result", "")
		return status == 200
	})
	if a := r.want(200, "GET", "/test/result", ""); a["success"] != 10.0 || a["end"] != "completed" {
		t.Errorf("result %v", a)
	}
}
