package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m, main) }

// program returns a command that runs the advisor.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	return testkit.ServiceCommand(t, nil, args...)
}

// A running is a started advisor.
type running struct{ *testkit.Program }

// run starts the advisor and waits until it listens.
func run(t *testing.T, args ...string) *running {
	t.Helper()
	return &running{testkit.Launch(t, program(t, args...), "Listening address=")}
}

// ask sends a request and returns the JSON of the answer, whose status must be 200.
func (r *running) ask(method, path, body string) (answer map[string]any) {
	r.T.Helper()
	status, text := r.Call(method+" "+path, body)
	if err := json.Unmarshal([]byte(text), &answer); err != nil || status != 200 {
		r.T.Fatalf("%s %s: %d %s %v", method, path, status, text, err)
	}
	return answer
}

// post sends the snapshot of interval i since a Monday.
func (r *running) post(i int) map[string]any {
	at := time.Date(2026, 1, 19, 0, 0, 0, 0, time.UTC).Add(time.Duration(i) * 30 * time.Second)
	return r.ask("POST", "/v1/limit-config", fmt.Sprintf(`{"timestamp":%q,"interval":30,"observedRps":%d,"forwardedRps":%d,"rejectedRate":0,
		"latencyP95":0.02,"errors5xx":0,"algorithm":"fixed","limit":100,"window":1}`, at.Format(time.RFC3339), 50+i%7, 50+i%7))
}

// After kill -9 everything but the last second is restored, and after SIGTERM everything.
func TestKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "advisor.state")
	a := run(t, "-state-file", path)
	for i := range 100 {
		a.post(i)
	}
	testkit.Eventually(t, "the journal is written", func() bool { return journaled(t, path) >= 100 })
	capacity := fmt.Sprint(a.ask("GET", "/v1/state", "")["capacity"])
	a.Kill()

	b := run(t, "-state-file", path)
	state := b.ask("GET", "/v1/state", "")
	if state["rounds"] != 100.0 || fmt.Sprint(state["capacity"]) != capacity {
		t.Errorf("after kill -9 there are %v rounds and the capacity is %v, want 100 and %v", state["rounds"],
			state["capacity"], capacity)
	}
	if rows := b.ask("GET", "/v1/history?span=3600&resolution=raw", "")["rows"].([]any); len(rows) != 100 {
		t.Errorf("after kill -9 the history has %d rows", len(rows))
	}
	b.post(100)
	b.Terminate()
	c := run(t, "-state-file", path, "-timezone", "Europe/Berlin")
	if state := c.ask("GET", "/v1/state", ""); state["rounds"] != 101.0 {
		t.Errorf("after SIGTERM there are %v rounds\n%s", state["rounds"], c.Log.String())
	}
	if first, _, _ := strings.Cut(c.Log.String(), "\n"); !strings.Contains(first, "INFO Advisor - Started version=") ||
		!strings.Contains(first, "TIMEZONE=Europe/Berlin STATE_FILE=") &&
			!strings.Contains(first, "STATE_FILE="+path+" TIMEZONE=Europe/Berlin") {
		t.Errorf("the first line is %s", first)
	}
}

// journaled returns the number of records in the journals of a state file: their lines without
// the header.
func journaled(t *testing.T, path string) (records int) {
	t.Helper()
	names := testkit.Must(filepath.Glob(path + ".journal-*"))(t)
	for _, name := range names {
		text := testkit.Must(os.ReadFile(name))(t)
		records += max(0, bytes.Count(text, []byte("\n"))-1)
	}
	return records
}

// The advisor starts with a full disk, and writes when there is room again.
func TestFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "advisor.state")
	if err := os.Symlink("/dev/full", path+".tmp"); err != nil { // until the first attempt removes it
		t.Fatal(err)
	}
	a := run(t, "-state-file", path)
	health := a.ask("GET", "/actuator/health", "")
	if text := a.Log.String(); !strings.Contains(text, "WARN State - State cannot be written, will try again") ||
		!strings.Contains(fmt.Sprint(health), "state:map[status:DOWN]") {
		t.Errorf("the health is %v, the log\n%s", health, text)
	}
	a.post(0)
	a.Terminate()
	if state := run(t, "-state-file", path).ask("GET", "/v1/state", ""); state["rounds"] != 1.0 {
		t.Errorf("%v rounds are known", state["rounds"])
	}
}

// A folder is refused as state file, and nothing is created next to it.
func TestStateFileIsFolder(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, text := testkit.RequireExit(t, program(t, "-state-file", folder), 2); !strings.Contains(text,
		`advisor: STATE_FILE: "`+folder+`" cannot be used: open state: is a directory; allowed: `) {
		t.Errorf("told %s", text)
	}
	if _, err := os.Stat(folder + ".lock"); err == nil {
		t.Error("a lock is left behind")
	}
}

// SIGHUP reloads the events; an invalid file changes nothing and is logged as an error.
func TestHangup(t *testing.T) {
	file := filepath.Join(t.TempDir(), "events.yaml")
	testkit.WriteFile(t, file, "[]")
	a := run(t, "-events-file", file)
	for n, step := range []struct{ text, want string }{
		{"- {name: sale, start: 2026-01-20, end: 2026-01-21}", "INFO Advisor - Reloaded events=read log=none"},
		{"- {name: sale}", "ERROR Advisor - Reload failed, the previous version stays in use part=events " +
			"reason=\"EVENTS_FILE: " + file + ": line 1: [0].start: is missing"},
	} {
		testkit.WriteFile(t, file, step.text)
		a.Signal(syscall.SIGHUP)
		a.LoggedTimes(" - Reloaded ", n+1)
		if !strings.Contains(a.Log.String(), step.want) {
			t.Errorf("%s: the log lacks %s\n%s", step.text, step.want, a.Log.String())
		}
	}
}

func TestStart(t *testing.T) {
	l := testkit.Listen(t)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for _, c := range []struct {
		status int
		want   string
		args   []string
	}{
		{2, `advisor: STATE_FILE: "/proc/x/s" cannot be used: open state: open /proc/x/s.lock: no such file or directory; allowed: a file in a writable folder, used by one advisor only`, []string{"-state-file", "/proc/x/s"}},
		{2, `advisor: TIMEZONE: "Nowhere" is not the name of a time zone; allowed: a name of the IANA database`,
			[]string{"-timezone", "Nowhere"}},
		{2, `advisor: LIMIT_MIN_RPS: "50" is more than LIMIT_MAX_RPS; allowed: at most 10`,
			[]string{"-limit-min-rps", "50", "-limit-max-rps", "10"}},
		{2, `advisor: EVENTS_FILE: "/nowhere" cannot be used: no such file or directory`,
			[]string{"-events-file", "/nowhere"}},
		{1, "advisor: port " + port + " is taken: set PORT", []string{"-port", port}},
		{0, "advisor ", []string{"-version"}},
	} {
		if stdout, stderr := testkit.RequireExit(t, program(t, c.args...), c.status); !strings.Contains(stderr+stdout,
			c.want) {
			t.Errorf("%v: told\n%s%s, want %s", c.args, stderr, stdout, c.want)
		}
	}
	help, _ := testkit.RequireExit(t, program(t, "-help"), 0)
	for name := range strings.FieldsSeq(
		"PORT BIND LOG_LEVEL CAPACITY_RPS SLO_P95 LIMIT_MIN_RPS LIMIT_MAX_RPS STATE_FILE STATE_INTERVAL HISTORY_URL " +
			"HISTORY_QUERY TIMEZONE EVENTS_FILE") {
		if !strings.Contains(help, "\n"+name+" ") {
			t.Errorf("-help does not know %s", name)
		}
	}
}
