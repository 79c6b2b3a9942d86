package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
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
	testkit.FindOrSkip(t, "haproxy")
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
			target := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/health" {
					asked.Add(1)
				}
			})
			p := launch(t, append(append(limited(1), "TARGET_URL", target), test.env...))
			p.Await("GET /", 429, "")
			state := balance(t, p.Addr)
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
			p.Require("GET /health/", 429, "")
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
	testkit.WriteFile(t, file, fmt.Sprintf(balancing, socket, testkit.FreeAddr(t), proxy))
	testkit.Start(t, exec.Command("haproxy", "-db", "-f", file))
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
