package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/loadgen/record"
)

func TestMain(m *testing.M) { testkit.Main(m, main) }

// start starts loadgen, whose environment is env, alternating names and values.
func start(t *testing.T, env []string, args ...string) (p *testkit.Program, stdout, stderr *testkit.Log) {
	t.Helper()
	cmd := testkit.Command(t, env, args...)
	stderr = new(testkit.Log)
	cmd.Stderr = stderr
	p = testkit.Start(t, cmd)
	return p, &p.Log, stderr
}

// A target counts requests.
type target struct {
	*httptest.Server
	requests atomic.Int64
}

func newTarget(t *testing.T) *target {
	s := &target{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.requests.Add(1)
		io.WriteString(w, "OK")
	}))
	t.Cleanup(s.Close)
	return s
}

// file writes a configuration for s; more are further fields.
func (s *target) file(t *testing.T, rps, seconds float64, more string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.json")
	text := fmt.Sprintf(`{"limiterUrl":"%s/api/test","duration":%g,"profile":{"type":"constant","params":{"rps":%g}}%s}`,
		s.URL, seconds, rps, more)
	testkit.WriteFile(t, path, text)
	return path
}

// read decodes the result that a run has written.
func read(t *testing.T, path string) map[string]any {
	t.Helper()
	text := testkit.Must(os.ReadFile(path))(t)
	var r map[string]any
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return r
}

func TestRun(t *testing.T) {
	t.Parallel()
	s := newTarget(t)
	dir := t.TempDir()
	out, outcomes := filepath.Join(dir, "result.json"), filepath.Join(dir, "outcomes.csv")
	p, stdout, stderr := start(t, nil, "run", s.file(t, 40, 3, ""), "-out", out, "-outcomes", outcomes)
	// On a busy machine the verdict may be any; it decides between 0 and 3.
	if status := p.Status(); status != 0 && status != 3 {
		t.Fatalf("exit status %d\n%s%s", status, stdout, stderr)
	}
	testkit.Contains(t, stdout.String(),
		"INFO LoadGenerator - Starting load test profile=constant (rps=40) for 3 seconds targeting limiterUrl="+s.URL,
		"INFO LoadGenerator - Test completed: 120 requests sent, 0 errors, avg latency ",
		"Target         healthy: 100.0 % answered\nGenerator ", "120 due, 120 sent", "Latency ", "Service time ", "Lag ",
		"Connections ")
	if !strings.Contains(stderr.String(), " s of 3.0 s  ") {
		t.Errorf("no progress on stderr: %q", stderr)
	}
	if r := read(t, out); r["requestsSent"] != 120.0 || r["success"] != 120.0 || s.requests.Load() != 120 {
		t.Errorf("result %v; the target saw %d", r, s.requests.Load())
	}
	text := testkit.Must(os.ReadFile(outcomes))(t)
	lines := strings.SplitAfter(string(text), "\n")
	if len(lines) != 122 || lines[0] != record.OutcomesHeader || strings.Count(string(text), ",200,\n") != 120 ||
		!strings.Contains(string(text), "\n12500,") {
		t.Errorf("%d lines of outcomes, want a head, 120 with status 200 and an end:\n%s", len(lines), text)
	}
}

// What a run writes and logs has no value of its requests, unless that is asked for.
func TestRunHidesValues(t *testing.T) {
	t.Parallel()
	const secret = "s3cret"
	for _, show := range []string{"false", "true"} {
		var sent atomic.Int64
		s := &target{Server: httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Auth-Token") == secret && r.URL.Query().Get("token") == secret {
				sent.Add(1)
			}
		}))}
		defer s.Close()
		dir := t.TempDir()
		out, page := filepath.Join(dir, "result.json"), filepath.Join(dir, "report.html")
		file := s.file(t, 10, 1, `,"requestOptions":{"headers":{"X-Auth-Token":"`+secret+`"},"query":{"token":"`+secret+`"}}`)
		p, stdout, stderr := start(t, nil, "run", file, "-out", out, "-report", page, "-show-values="+show)
		if status := p.Status(); status != 0 && status != 3 {
			t.Fatalf("exit status %d\n%s%s", status, stdout, stderr)
		}
		if sent.Load() != 10 {
			t.Errorf("%d of 10 requests had the values", sent.Load())
		}
		for what, text := range map[string]string{
			"result": string(testkit.Must(os.ReadFile(out))(t)), "report": string(testkit.Must(os.ReadFile(page))(t)),
		} {
			if has := strings.Contains(text, secret); has != (show == "true") {
				t.Errorf("with SHOW_VALUES=%s the %s has them: %t\n%s", show, what, has, text)
			}
		}
		if said := stdout.String() + stderr.String(); strings.Contains(said, secret) {
			t.Errorf("the output has them: %s", said)
		}
	}
	p, _, stderr := start(t, nil, "-show-values")
	if status := p.Status(); status != 2 || !strings.Contains(stderr.String(), "SHOW_VALUES") {
		t.Errorf("the server: exit status %d, %s", status, stderr)
	}
}

func TestRunExitStatus(t *testing.T) {
	s := newTarget(t)
	good := s.file(t, 50, 0.1, "")
	for name, c := range map[string]struct {
		args   []string
		env    []string
		status []int
		text   string // on stdout or stderr
	}{
		"threshold missed": {args: []string{"run", s.file(t, 50, 0.1, `,"thresholds":{"errorShare":">0.5"}`)},
			status: []int{4, 3}, text: "MISSED  errorShare >0.5, is 0"},
		"from CONFIG_FILE": {args: []string{"run"}, env: []string{"CONFIG_FILE", good}, status: []int{0, 3},
			text: "5 due, 5 sent"},
		"bad configuration": {args: []string{"run", s.file(t, 50, 0.1, `,"speed":1`)}, status: []int{2}, text: "speed: "},
		"no such file":      {args: []string{"run", good + ".absent"}, status: []int{2}, text: "no such file"},
		"unreachable result": {args: []string{"run", good, "-out", "/no/such/folder/r.json"}, status: []int{2},
			text: "OUT: "},
		"no file":            {args: []string{"run"}, status: []int{2}, text: "run needs one file"},
		"two files":          {args: []string{"run", good, good}, status: []int{2}, text: "run needs one file"},
		"unknown command":    {args: []string{"walk", good}, status: []int{2}, text: `unknown command "walk"`},
		"result without run": {args: []string{"-out", "r.json"}, status: []int{2}, text: "only with run and merge"},
		"outcomes of a merge": {args: []string{"merge", good, good, "-outcomes", "o.csv"}, status: []int{2},
			text: "OUTCOMES"},
		"unreachable outcomes": {args: []string{"run", good, "-outcomes", "/no/such/folder/o.csv"}, status: []int{2},
			text: "OUTCOMES: "},
		"one to merge":     {args: []string{"merge", good}, status: []int{2}, text: "merge needs at least two files"},
		"page without run": {args: []string{"-report", "r.html"}, status: []int{2}, text: "REPORT"},
		"no such host": {args: []string{"run",
			(&target{Server: &httptest.Server{URL: "http://no-such-host.invalid"}}).file(t, 1, 1, "")}, status: []int{2},
			text: "limiterUrl: the host cannot be found: "},
		"foreign source": {args: []string{"-source-addresses", "192.0.2.1"}, status: []int{2},
			text: "SOURCE_ADDRESSES: \"192.0.2.1\" has 192.0.2.1, from which this machine cannot connect"},
		"no authorities": {args: []string{"-target-ca-file", good}, status: []int{2}, text: "TARGET_CA_FILE: "},
		"wrong setting":  {args: []string{"-event-loops", "many"}, status: []int{2}, text: "EVENT_LOOPS"},
		"server, bad file": {args: []string{"-port", "0"}, env: []string{"CONFIG_FILE", good + ".absent"}, status: []int{2},
			text: "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			p, stdout, stderr := start(t, c.env, c.args...)
			status := p.Status()
			if status != c.status[0] && status != c.status[len(c.status)-1] {
				t.Errorf("exit status %d, want %d\n%s%s", status, c.status[0], stdout, stderr)
			}
			if !strings.Contains(stdout.String()+stderr.String(), c.text) {
				t.Errorf("neither stdout nor stderr has %q:\n%s%s", c.text, stdout, stderr)
			}
		})
	}
}

// A run that cannot send what is due because there is no connection for it is
// INVALID: exit status 3.
func TestRunInvalid(t *testing.T) {
	t.Parallel()
	held := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-held }))
	defer s.Close()
	defer close(held)
	path := (&target{Server: s}).file(t, 100, 0.5, `,"concurrency":1,"requestOptions":{"timeout":0.2}`)
	p, stdout, _ := start(t, nil, "run", path)
	if status := p.Status(); status != 3 {
		t.Errorf("exit status %d, want 3\n%s", status, stdout)
	}
	if !strings.Contains(stdout.String(), "Generator      invalid: ") {
		t.Errorf("stdout does not say so:\n%s", stdout)
	}
}

func TestRunInterrupted(t *testing.T) {
	t.Parallel()
	s := newTarget(t)
	out := filepath.Join(t.TempDir(), "result.json")
	p, stdout, _ := start(t, nil, "run", s.file(t, 100, 60, ""), "-out", out)
	testkit.Eventually(t, "requests", func() bool { return s.requests.Load() > 10 })
	p.Signal(syscall.SIGINT)
	if status := p.Status(); status != 130 {
		t.Errorf("exit status %d, want 130\n%s", status, stdout)
	}
	testkit.Contains(t, stdout.String(), "INFO LoadGenerator - Load test stopped by user after ", "stopped after ",
		"Generator ")
	if r := read(t, out); r["end"] != "stopped" {
		t.Errorf("result %v", r)
	}
}

// A pause of the generator itself is not hidden: every request is sent and answered, and late
// ones are reported.
func TestRunPaused(t *testing.T) {
	t.Parallel()
	s := newTarget(t)
	out := filepath.Join(t.TempDir(), "result.json")
	p, stdout, _ := start(t, nil, "run", s.file(t, 200, 5, ""), "-out", out)
	testkit.Eventually(t, "requests", func() bool { return s.requests.Load() > 10 })
	testkit.Freeze(t, p.Process.Pid)
	time.Sleep(200 * time.Millisecond) // the pause itself
	p.Signal(syscall.SIGCONT)
	p.Status()
	r := read(t, out)
	if r["requestsSent"] != 1000.0 || r["success"] != 1000.0 {
		t.Errorf("sent %v, succeeded %v, want 1000\n%s", r["requestsSent"], r["success"], stdout)
	}
	// Twenty of the requests that were due meanwhile left more than 100 ms late. How many of them count as
	// sentLate depends on whether the connections had answers to wait for.
	if lag := r["lag"].(map[string]any)["p99"].(float64); lag < 0.1 || r["verdict"] == "VALID" {
		t.Errorf("the lag is %v s, verdict %v\n%s", lag, r["verdict"], stdout)
	}
}

// A server drains and ends with 0 when it is asked to.
func TestServerTerminated(t *testing.T) {
	t.Parallel()
	s := newTarget(t)
	p, stdout, stderr := start(t, []string{"CONFIG_FILE", s.file(t, 100, 60, "")}, "-port", "0", "-bind", "127.0.0.1")
	testkit.Eventually(t, "requests", func() bool { return s.requests.Load() > 10 })
	p.Signal(syscall.SIGTERM)
	if status := p.Status(); status != 0 {
		t.Errorf("exit status %d\n%s%s", status, stdout, stderr)
	}
	if !strings.Contains(stdout.String(), "Load test stopped by user after ") {
		t.Errorf("the log does not say that the test was stopped:\n%s", stdout)
	}
}
