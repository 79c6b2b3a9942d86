package wire

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"weir/internal/loop/looptest"
	"weir/internal/testkit"
	"weir/proxy/roster"
)

// Why a target cannot be reached is logged once, and readiness and /config/targets
// say the same.
func TestTargetDownIsLogged(t *testing.T) {
	free := testkit.FreeAddr(t)
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	full, _ := looptest.FullListener(t)
	for _, c := range []struct {
		name, addr string
		secure     *tls.Config
		cause      string
	}{
		{"refused", free, nil, "connection refused"},
		{"unknown", "no..such..host:80", nil, "DNS: "},
		{"full", full, nil, "timeout"},
		{"plain", plain.Listener.Addr().String(), &tls.Config{}, "TLS: the target does not support it"},
		{"untrusted", secure.Listener.Addr().String(), &tls.Config{}, "TLS: x509: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // looks once a second
			var reachable atomic.Bool
			reachable.Store(true)
			connect := "10s"
			if c.addr == full {
				connect = "100ms"
			}
			r := startWith(t, func(cfg *Config) {
				cfg.Targets = []*roster.Target{{URL: "x://" + c.addr, Addr: c.addr, Host: c.addr, Secure: c.secure}}
				cfg.Roster.Reachable = reachable.Store
			}, "http://"+free, "TARGET_CONNECT_TIMEOUT", connect, "TARGET_DNS_INTERVAL", "0")
			for range 3 {
				conn := r.dial()
				conn.Send(get)
				conn.Answer("GET")
			}
			if st := r.Targets.Status()[0]; st.Status != "down" || !strings.HasPrefix(st.Cause, c.cause) || r.Targets.Up()[c.addr] {
				t.Errorf("/config/targets says %q because of %q, health %v", st.Status, st.Cause, r.Targets.Up())
			}
			r.until("it is not ready", func() bool { return !reachable.Load() })
			var lines []string
			r.until("it is logged", func() bool {
				lines = nil
				for line := range strings.Lines(r.log.String()) {
					if strings.Contains(line, "Target is down") {
						lines = append(lines, line)
					}
				}
				return len(lines) > 0
			})
			want := ` target=x://` + c.addr + ` address=` + c.addr + ` cause=`
			if len(lines) != 1 || !strings.Contains(lines[0], "level=WARN") || !strings.Contains(strings.ReplaceAll(lines[0], `"`, ""), want+c.cause) {
				t.Errorf("logged %q, want one line with %s%s", lines, want, c.cause)
			}
		})
	}
}
