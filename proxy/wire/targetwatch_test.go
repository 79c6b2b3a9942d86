package wire

import (
	"crypto/tls"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/loop/looptest"
	"weir/internal/testkit"
	"weir/proxy/upstream"
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
		{"unknown", "no-such-host.invalid:80", nil, "DNS: "},
		{"full", full, nil, "timeout"},
		{"plain", plain.Listener.Addr().String(), &tls.Config{}, "TLS: the target does not speak it"},
		{"untrusted", secure.Listener.Addr().String(), &tls.Config{}, "TLS: x509: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // looks once a second
			var reachable atomic.Bool
			reachable.Store(true)
			r := startWith(t, func(cfg *Config) {
				cfg.Targets = []*Target{{URL: "x://" + c.addr, Addr: c.addr, Host: c.addr, Secure: c.secure}}
				cfg.Reachable = reachable.Store
			}, "http://"+free, "TARGET_CONNECT_TIMEOUT", "100ms", "TARGET_DNS_INTERVAL", "0")
			for range 3 {
				conn := r.dial()
				conn.Send(get)
				conn.Answer("GET")
			}
			if st := r.Targets()[0]; st.Status != "down" || !strings.HasPrefix(st.Cause, c.cause) || r.TargetsUp()[c.addr] {
				t.Errorf("/config/targets says %q because of %q, health %v", st.Status, st.Cause, r.TargetsUp())
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

// Each change of state is a line, and what fails within a second is counted in it.
func TestTargetWatch(t *testing.T) {
	const (
		up   = upstream.Up
		out  = upstream.Ejected
		down = upstream.Down
	)
	var w targetWatch
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	var was toldState
	now := time.Unix(0, 0)
	for i, step := range []struct {
		is   targetState
		want string
	}{
		{targetState{status: up}, ""},
		{targetState{upstream.Draining, "", 0, ""}, ""},
		{targetState{status: up}, ""},
		{targetState{down, "refused", 3, "refused"}, `level=WARN msg="Target is down" cause=refused failures=3`},
		{targetState{down, "refused", 9, "refused"}, ""},
		{targetState{down, "timeout", 10, "timeout"}, `level=WARN msg="Target is down" cause=timeout failures=7`},
		{targetState{up, "", 12, "timeout"}, `level=INFO msg="Target is up again" after=3s failures=2`},
		{targetState{up, "", 12, "timeout"}, ""},
		{targetState{up, "", 13, "refused"}, `level=WARN msg="Target failed and is up again" cause=refused failures=1`},
		{targetState{out, "answered 503", 14, "answered 503"}, `level=WARN msg="Target is left alone for a while, as it answers with errors" cause="answered 503" failures=1`},
		{targetState{upstream.Probing, "answered 503", 14, "answered 503"}, ""},
		{targetState{out, "answered 503", 15, "answered 503"}, ""},
		{targetState{up, "", 15, "answered 503"}, `level=INFO msg="Target is up again" after=3s failures=1`},
	} {
		now = now.Add(time.Second)
		was = w.note(now, logger, was, step.is)
		if have := strings.TrimSpace(log.String()); have != step.want {
			t.Errorf("step %s: logged %s\nwant %s", strconv.Itoa(i), have, step.want)
		}
		log.Reset()
	}
}
