package wire

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/net/loop/looptest"
	"weir/internal/test/testkit"
	"weir/proxy/targets/roster"
)

// pair starts two targets, named a and b, and a proxy before them, over one loop.
func pair(t *testing.T, tweak func(c *Config), env ...string) *rig {
	return before(t, tweak, map[string]*fakeTarget{"a": newTarget(t, echoes), "b": newTarget(t, echoes)},
		append(env, "EVENT_LOOPS", "1")...)
}

// Several targets take turns.
func TestRoundRobin(t *testing.T) {
	pair(t, asSet, "TARGET_BALANCE", "round_robin").play(`
		10 x GET / -> 200
		a served 5; b served 5`)
}

// A request that cannot reach its target goes to another one, whatever its
// method: nothing of it was sent. It is charged once. The target is then left
// alone for a while; when the other one goes, it is tried all the same.
func TestOneOfTwoTargetsIsDown(t *testing.T) {
	r := pair(t, asSet, "TARGET_BALANCE", "round_robin")
	r.play(`
		a stops
		6 x POST /p body=ab -> 200 echo
		metrics store_decisions_total=6 forwarded=6`)
	retries, ejections := r.samples()["ratelimiter_upstream_retries_total"], r.Targets.Status()[0].Ejections
	if retries == 0 || retries > 3 || retries != float64(ejections) {
		t.Errorf("%v of 6 requests were sent elsewhere, of a target ejected %d times", retries, ejections)
	}
	if up := r.Targets.Up(); up[r.targets["a"].addr] || !up[r.targets["b"].addr] {
		t.Errorf("targets up: %v", up)
	}
	r.play(`
		a starts; b stops
		4 x GET / -> 200`)
}

// If all of several targets are down, a request tries each of them once and gets an error.
func TestAllTargetsAreDown(t *testing.T) {
	pair(t, asSet).play(`
		a stops; b stops
		4 x GET / -> 503 Retry-After=1 stays error="no target can be reached"
		metrics errors.no_target=4 responses.503=4 forwarded=4; waiting 0
		b starts; GET / -> 200 # passive ejection keeps nobody away who is the last`)
}

// Whether any target can be reached is found out without requests.
func TestReachable(t *testing.T) {
	t.Parallel() // looks once a second
	var reachable atomic.Bool
	reachable.Store(true)
	r := pair(t, func(c *Config) { c.Roster.Reachable = reachable.Store })
	r.play(`a stops; b stops; GET / -> 503`)
	r.until("no target can be reached", func() bool { return !reachable.Load() })
	if up := r.Targets.Up(); up[r.targets["a"].addr] || up[r.targets["b"].addr] {
		t.Errorf("targets up: %v", up)
	}
	r.play(`b starts`)
	r.until("a target can be reached again", reachable.Load)
	r.play(`GET / -> 200`)
}

// Targets that cannot be reached are probed at the same time: none has to wait
// for the others' timeouts.
func TestProbesRunAtTheSameTime(t *testing.T) {
	t.Parallel() // looks once a second
	const targets = 8
	var open atomic.Int64
	r := startWith(t, func(c *Config) {
		c.Targets = nil
		for range targets { // each accepts connections and never shakes hands
			ln := testkit.Listen(t)
			go countOpen(ln, &open)
			addr := ln.Addr().String()
			c.Targets = append(c.Targets, &roster.Target{URL: "https://" + addr, Addr: addr, Host: addr,
				Secure: &tls.Config{InsecureSkipVerify: true}})
		}
	}, "http://127.0.0.1:1", "EVENT_LOOPS", "1", "TARGET_CONNECT_TIMEOUT", "200ms")
	r.play(`GET / -> 503`) // has tried all of them
	r.until("no probe is under way", func() bool { return open.Load() == 0 })
	r.until("all targets are probed at the same time", func() bool { return open.Load() == targets })
}

// countOpen counts the connections that are open on ln.
func countOpen(ln net.Listener, open *atomic.Int64) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			open.Add(1)
			defer open.Add(-1)
			for b := make([]byte, 1024); ; {
				if _, err := c.Read(b); err != nil {
					c.Close()
					return
				}
			}
		}()
	}
}

// manyTargets are 10,000 targets that nothing is sent to.
func manyTargets(port int) (list []*roster.Target) {
	for i := range 10_000 {
		addr := fmt.Sprintf("10.0.%d.%d:%d", i>>8, i&255, port)
		list = append(list, &roster.Target{URL: "http://" + addr, Addr: addr, Host: addr})
	}
	return list
}

// Long lists are replaced by others; a target that is named twice is one, and one that
// stays has its place.
func TestManyTargets(t *testing.T) {
	r := serve(t, echoes, "EVENT_LOOPS", "1")
	first, second := manyTargets(1), manyTargets(2)
	for _, list := range [][]*roster.Target{first, append(first, first[0]), append(second, first[7]), second} {
		r.Targets.Set(list)
		r.loops.each(func(s *loopServer, _ time.Time) {
			want := len(list)
			if list[len(list)-1] == first[0] {
				want--
			}
			if got := len(s.targets.Targets()); got != want || len(*s.seen.Load()) != want {
				t.Errorf("%d targets after a list of %d", got, len(list))
			}
		})
	}
	if g := r.loops.gate(second[3]); g == nil {
		t.Error("a target of the last list has no gate")
	}
}

// Where everybody may read metrics and health they tell targets by numbers, which
// stay with a target as long as it is there.
func TestTargetsByNumber(t *testing.T) {
	r := startWith(t, func(c *Config) { c.Roster.Named = false }, "http://127.0.0.1:1,http://127.0.0.2:1")
	numbers := func(list ...string) string {
		t.Helper()
		targets := make([]*roster.Target, 0, len(list))
		for _, host := range list {
			targets = append(targets, &roster.Target{URL: "http://" + host + ":1", Addr: host + ":1", Host: host})
		}
		if len(list) > 0 {
			r.Targets.Set(targets)
		}
		var metrics bytes.Buffer
		r.env.Metrics.Write(&metrics)
		up := r.Targets.Up()
		if text := metrics.String() + fmt.Sprint(up); strings.Contains(text, "127.0.0.") {
			t.Errorf("an address is told:\n%s", text)
		}
		var told []string
		for _, s := range r.Targets.Status() {
			told = append(told, fmt.Sprintf("%s %d", strings.TrimPrefix(s.URL, "http://127.0.0."), s.Number))
			if _, known := up[fmt.Sprint(s.Number)]; !known {
				t.Errorf("health tells %v, not number %d", up, s.Number)
			}
			if !strings.Contains(metrics.String(), fmt.Sprintf("\nratelimiter_upstream_up{target=\"%d\"} ", s.Number)) {
				t.Errorf("the metrics do not tell number %d", s.Number)
			}
		}
		return strings.Join(told, ", ")
	}
	for _, step := range []struct {
		list []string
		want string
	}{
		{nil, "1:1 1, 2:1 2"},
		{[]string{"127.0.0.3", "127.0.0.2"}, "3:1 1, 2:1 2"},
		{[]string{"127.0.0.2", "127.0.0.3", "127.0.0.1"}, "2:1 2, 3:1 1, 1:1 3"},
		{[]string{"127.0.0.1"}, "1:1 3"},
		{[]string{"127.0.0.4", "127.0.0.1", "127.0.0.5", "127.0.0.6"}, "4:1 1, 1:1 3, 5:1 2, 6:1 4"},
	} {
		equal(t, fmt.Sprintf("numbers after %q", step.list), numbers(step.list...), step.want)
	}
}

// Why a target cannot be reached is logged once, and readiness and /config/targets
// say the same.
func TestTargetDownIsLogged(t *testing.T) {
	t.Parallel()
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
			r.play(`c*3 GET / -> 502|504`)
			if st := r.Targets.Status()[0]; st.Status != "down" || !strings.HasPrefix(st.Cause, c.cause) ||
				r.Targets.Up()[c.addr] {
				t.Errorf("/config/targets says %q because of %q, health %v", st.Status, st.Cause, r.Targets.Up())
			}
			r.until("it is not ready", func() bool { return !reachable.Load() })
			r.playf(`logged "Target is down"; logged 1 "Target is down"
				logged level=WARN target=x://%[1]s address=%[1]s %[2]q`, c.addr, c.cause)
		})
	}
}
