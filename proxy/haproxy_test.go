package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"weir/internal/test/testkit"
)

// balancing is HAProxy with one server, the proxy, that it asks for its health.
const balancing = `
global
  stats socket %s
defaults
  mode http
  timeout connect 1m
  timeout client 1m
  timeout server 1m
  timeout check 1m
frontend clients
  bind %s
  default_backend proxies
backend proxies
  option httpchk GET /health
  server weir %s check inter 50ms fall 3 rise 2
`

// The health checks of a load balancer in front are requests like others: a limit that
// refuses them has the proxy marked down, and EXEMPT or a rule that exempts them keeps it
// up, whatever else is refused.
func TestBehindHAProxy(t *testing.T) {
	if _, err := exec.LookPath("haproxy"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("no haproxy: make tools installs it")
	}
	file := ruleFile(t, "rules: [{id: probes, exempt: true, match: {path: /health, methods: [GET]}}]\n")
	for name, test := range map[string]struct {
		env  []string
		down bool
	}{
		"without":      {nil, true},
		"EXEMPT":       {[]string{"EXEMPT", "/health"}, false},
		"exempt: true": {[]string{"RULES_FILE", file}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int64
			target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/health" {
					asked.Add(1)
				}
			}))
			defer target.Close()
			p := launch(t,
				append([]string{"TARGET_URL", target.URL, "RATE_LIMIT_LIMIT", "1", "RATE_LIMIT_WINDOW", "3153600000"}, test.env...))
			testkit.Eventually(t, "the limit is used up", func() bool { status, _ := ask(t, p.addr, "/"); return status == 429 })
			state := balance(t, p.addr)
			if test.down {
				testkit.Eventually(t, "HAProxy marks the proxy down", func() bool { return strings.HasPrefix(state(), "DOWN") })
				return
			}
			asked.Store(0)
			testkit.Eventually(t, "HAProxy has asked thirty times", func() bool { return asked.Load() >= 30 })
			// UP n/m after a check that a busy machine failed; thirty that fail would be DOWN.
			if now := state(); !strings.HasPrefix(now, "UP") {
				t.Errorf("HAProxy says that the proxy is %s", now)
			}
			if status, _ := ask(t, p.addr, "/health/"); status != 429 {
				t.Errorf("another path is answered %d, want 429", status)
			}
		})
	}
}

// balance starts HAProxy in front of a proxy; state tells whether it calls the proxy UP
// or DOWN.
func balance(t *testing.T, proxy string) (state func() string) {
	t.Helper()
	dir := testkit.Must(os.MkdirTemp("", "weir-haproxy-"))(t) // its path is short enough for a socket
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket, file := filepath.Join(dir, "stats"), filepath.Join(dir, "haproxy.cfg")
	if err := os.WriteFile(file, fmt.Appendf(nil, balancing, socket, "127.0.0.1:"+testkit.FreePort(t), proxy),
		0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "haproxy", "-db", "-f", file)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	state = func() string {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			return "" // it is not there yet
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "show stat proxies 4 -1\n"); err != nil {
			return ""
		}
		text, _ := io.ReadAll(conn)
		const statusColumn = 17
		for line := range strings.Lines(string(text)) {
			if cells := strings.Split(line, ","); len(cells) > statusColumn && cells[1] == "weir" {
				return cells[statusColumn]
			}
		}
		return ""
	}
	testkit.Eventually(t, "HAProxy serves", func() bool { return state() != "" })
	return state
}
