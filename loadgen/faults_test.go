package main

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"weir/internal/test/testkit"
)

// A secureTarget is a target with TLS. Its certificate is for 127.0.0.1 and example.com, signed
// by an unknown authority.
type secureTarget struct {
	*httptest.Server
	requests    atomic.Int64
	authorities string // file
}

func newSecureTarget(t *testing.T) *secureTarget {
	s := &secureTarget{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS != nil && r.ProtoMajor == 1 {
			s.requests.Add(1)
		}
		io.WriteString(w, "OK")
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	s.authorities = filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(s.authorities, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// A faulty is a run against something that is not as it should be.
type faulty struct {
	url    string
	once   bool // each connection serves one request
	args   []string
	reason string // all requests end in; empty: they succeed
	says   string // on stdout or stderr
}

const rate, seconds, due = 400, 0.25, 100

// run runs it and checks that all requests of the schedule left, whatever
// became of them.
// attempted returns how many requests were sent, or would have been had connecting not failed.
func attempted(r map[string]any) float64 {
	return r["requestsSent"].(float64) + r["unconnected"].(float64)
}

func (f faulty) run(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	out := filepath.Join(dir, "result.json")
	plan := filepath.Join(dir, "test.json")
	text := fmt.Sprintf(`{"limiterUrl":%q,"duration":%g,"profile":{"type":"constant","params":{"rps":%d}},"requestOptions":{"keepAlive":%t,"timeout":60}}`, f.url, seconds, rate, !f.once)
	testkit.WriteFile(t, plan, text)
	p, stdout, stderr := start(t, nil, append([]string{"run", plan, "-out", out}, f.args...)...)
	if status := p.Status(); status != 0 && status != 3 {
		t.Fatalf("exit status %d\n%s%s", status, stdout, stderr)
	}
	r := read(t, out)
	if r["requestsDue"] != float64(due) || attempted(r) != due || r["completed"] != float64(due) {
		t.Errorf("%v due, %v attempted, %v completed, want %d\n%s", r["requestsDue"], attempted(r), r["completed"], due,
			stdout)
	}
	want := float64(due)
	if f.reason == "" {
		if r["success"] != want {
			t.Errorf("%v succeeded, errors %v\n%s", r["success"], r["errorsByReason"], stdout)
		}
	} else if got := r["errorsByReason"].(map[string]any)[f.reason]; got != want {
		t.Errorf("errors %v, want %d of %s\n%s", r["errorsByReason"], due, f.reason, stdout)
	}
	if all := stdout.String() + stderr.String(); !strings.Contains(all, f.says) {
		t.Errorf("nothing says %q:\n%s", f.says, all)
	}
}

// Requests go to https targets by TLS when the certificate is trusted and for
// the host; otherwise each is an error that the log explains.
func TestSecureTargets(t *testing.T) {
	t.Parallel()
	s := newSecureTarget(t)
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	trusted := []string{"-target-ca-file", s.authorities}
	cases := map[string]faulty{
		"trusted":      {url: s.URL, args: trusted},
		"without keep": {url: s.URL, args: trusted, once: true},
		"two loops":    {url: s.URL, args: append([]string{"-event-loops", "2"}, trusted...)},
		"unknown":      {url: s.URL, reason: "tls_failed", says: "x509: certificate signed by unknown authority"},
		"another name": {url: "https://localhost:" + port, args: trusted, reason: "tls_failed",
			says: "x509: certificate is valid for example.com, *.example.com, not localhost"},
		"unknown, once": {url: s.URL, reason: "tls_failed", says: "Request errors: TLS handshake failed", once: true},
		"plain to TLS":  {url: "http://" + s.Listener.Addr().String(), reason: "http_4xx"},
		"TLS to plain": {url: "https://" + newTarget(t).Listener.Addr().String(), reason: "tls_failed",
			says: "does not look like a TLS handshake"},
	}
	runAll(t, cases)
	want := int64(0)
	for _, f := range cases {
		if f.reason == "" {
			want += due
		}
	}
	if got := s.requests.Load(); got != want {
		t.Errorf("the target saw %d requests by TLS, want %d", got, want)
	}
}

// runAll runs all of them side by side.
func runAll(t *testing.T, cases map[string]faulty) {
	t.Run("all", func(t *testing.T) {
		for name, f := range cases {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				f.run(t)
			})
		}
	})
}

// A target that is not there, or ends every connection, makes errors by reason,
// never a slower schedule.
func TestUnreachableTargets(t *testing.T) {
	t.Parallel()
	nobody := testkit.FreeAddr(t)
	runAll(t, map[string]faulty{
		"refused": {url: "http://" + nobody, reason: "connect_refused",
			says: "Request errors: connection refused"},
		"refused by TLS": {url: "https://" + nobody, reason: "connect_refused",
			says: "Request errors: connection refused"},
		"refused one each":   {url: "http://" + nobody, reason: "connect_refused", once: true},
		"from other sources": {url: newTarget(t).URL, args: []string{"-source-addresses", "127.0.0.2,127.0.0.3"}},
	})
}

// A target that resets what it accepts: when, the kernel decides, so that the
// errors have several reasons; but there are as many as there are requests.
func TestResettingTarget(t *testing.T) {
	t.Parallel()
	addr := testkit.Serve(t, testkit.Reset)
	dir := t.TempDir()
	s := &target{Server: &httptest.Server{URL: "http://" + addr}}
	out := filepath.Join(dir, "result.json")
	p, stdout, stderr := start(t, nil, "run", s.file(t, rate, seconds, ""), "-out", out)
	if status := p.Status(); status != 0 && status != 3 {
		t.Fatalf("exit status %d\n%s%s", status, stdout, stderr)
	}
	if r := read(t, out); r["requestsDue"] != float64(due) || r["errors"] != float64(due) || attempted(r) != due {
		t.Errorf("%v due, %v attempted, %v errors %v, want %d", r["requestsDue"], attempted(r), r["errors"],
			r["errorsByReason"], due)
	}
}

// A disk that is full costs the file: the summary is printed, the other file
// written, and the exit status says that something is missing.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	s := newTarget(t)
	page := filepath.Join(t.TempDir(), "report.html")
	p, stdout, stderr := start(t, nil, "run", s.file(t, rate, seconds, ""), "-out", "/dev/full", "-report", page)
	if status := p.Status(); status != 1 {
		t.Errorf("exit status %d, want 1", status)
	}
	if !strings.Contains(stdout.String(), "100 due, 100 sent") || !strings.Contains(stderr.String()+stdout.String(),
		"/dev/full: no space left on device") {
		t.Errorf("stdout\n%s\nstderr\n%s", stdout, stderr)
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "</html>") {
		t.Errorf("the report: %d bytes, %v", len(text), err)
	}
}
