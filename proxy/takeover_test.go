package main

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"weir/internal/test/testkit"
)

// takeover is the environment of proxies that take over from each other.
func takeover(t *testing.T) []string {
	return []string{"TAKEOVER", "true", "PORT", testkit.FreePort(t), "TARGET_URL", echo(t)}
}

// A proxy that drains is out of service until it ends, though its target can be
// reached all the time.
func TestReadinessWhileDraining(t *testing.T) {
	env := append(append(takeover(t), limited(1)...), "DRAIN_GRACE", testkit.Timeout.String(),
		"DRAIN_TIMEOUT", testkit.Timeout.String())
	old := launch(t, env)
	request := func(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n" }
	var kept []*testkit.Conn
	for range 8 {
		c := testkit.Dial(t, old.Addr)
		kept = append(kept, c)
		c.Ask(request("/actuator/health"), 200)
	}
	kept[0].Ask(request("/x"), 200) // spends the limit
	launch(t, env)
	old.Logged("INFO Proxy - Draining")
	for i, c := range kept[1:] {
		if i%2 == 0 { // the line about it is written once a second, as targets are probed
			c.Ask(request("/x"), 429)
			old.LoggedTimes("Requests rejected: limit exceeded", i/2+1)
		} else if body := c.Ask(request("/actuator/health/readiness"), 503); !strings.Contains(body, `"OUT_OF_SERVICE"`) {
			t.Errorf("answered %s while draining", body)
		}
	}
}

// A load is clients that do the same again and again, each time over a new connection, until
// stopped.
type load struct {
	t     testing.TB
	ended sync.WaitGroup
	over  atomic.Bool
	done  atomic.Int64 // how often do has returned true
}

func startLoad(t testing.TB, do func(n, i int) bool) *load {
	l := &load{t: t}
	t.Cleanup(l.stop)
	for n := range 4 {
		l.ended.Go(func() {
			for i := 0; !l.over.Load() && !t.Failed(); i++ {
				if do(n, i) {
					l.done.Add(1)
				}
			}
		})
	}
	return l
}

// more waits until do has returned true n times more.
func (l *load) more(n int64) {
	l.t.Helper()
	since := l.done.Load()
	testkit.Eventually(l.t, "clients are answered", func() bool { return l.t.Failed() || l.done.Load() >= since+n })
}

func (l *load) stop() {
	l.over.Store(true)
	l.ended.Wait()
}

// callAt starts clients of whom all must be answered: a gate would shed those that wait for
// long on a busy machine.
func callAt(at testkit.Endpoint) *load {
	return startLoad(at.T, func(int, int) bool {
		res, text, err := at.Try("GET /x")
		if err != nil || res.StatusCode != 200 {
			at.T.Errorf("answered %v %s, %v", res, text, err)
			return false
		}
		return true
	})
}

// A successor has the address of its own BIND, and clients of an address that
// both have notice nothing.
func TestTakeoverWithAnotherBind(t *testing.T) {
	for name, binds := range map[string][]string{
		"narrower":       {"0.0.0.0", "127.0.0.1"},
		"wider":          {"127.0.0.1", "0.0.0.0", "0.0.0.0"},
		"there and back": {"127.0.0.1", "0.0.0.0", "127.0.0.1", "0.0.0.0"},
	} {
		t.Run(name, func(t *testing.T) {
			env := append(takeover(t), "RATE_LIMIT_LIMIT", "1000000000", "GATE", "off", // who has dialled may be slow to ask
				"DRAIN_GRACE", testkit.Timeout.String(), "DRAIN_TIMEOUT", testkit.Timeout.String())
			var before *running
			var calls *load
			for _, bind := range binds {
				p := launch(t, append(env, "BIND", bind))
				at, other := testkit.Endpoint{T: t, Addr: "127.0.0.1:" + p.Port()}, testkit.Endpoint{Addr: "127.0.0.2:" + p.Port()}
				if calls == nil {
					calls = callAt(at)
				}
				calls.more(200)
				testkit.Eventually(t, "BIND="+bind+" is in force", func() bool { return other.Listens() == (bind == "0.0.0.0") })
				if before != nil {
					before.RequireExit(0)
				}
				before = p
				calls.more(200)
			}
			calls.stop()
		})
	}
}

// The admin port goes from proxy to proxy without an error, and is there all the
// time.
func TestTakeoverOfTheAdminPort(t *testing.T) {
	admin := testkit.FreePort(t)
	env := append(takeover(t), "ADMIN_PORT", admin, "DRAIN_GRACE", "10ms")
	before := launch(t, env)
	for range 3 {
		p := launch(t, env)
		before.RequireExit(0)
		if lines := before.Log.Lines(" ERROR "); len(lines) > 0 {
			t.Errorf("logged %q", lines)
		}
		p.At(admin).Require("GET /actuator/health/readiness", 200, "")
		before = p
	}
}

// What was posted to a proxy without a shared store holds for its successors:
// targets, limits and rules, with their versions. A TARGET_URL that was changed
// for a successor overrides posted targets.
func TestTakeoverKeepsWhatWasPosted(t *testing.T) {
	set, posted, later := named(t, "set"), named(t, "posted"), named(t, "later")
	env := append(takeover(t), "DRAIN_GRACE", "10ms", "RATE_LIMIT_LIMIT", "1000")
	with := func(target string) []string { return append(env, "TARGET_URL", target) }
	p := launch(t, with(set))
	p.Require("POST /config/targets", 200, posted, fmt.Sprintf(`{"targets":[%q]}`, posted))
	p.Require("POST /config/limits", 200, `"version":1`, `{"algorithm":"fixed","limit":77,"window":60}`)
	p.Require("POST /config/limits?pin=true", 200, `"version":2`, `{"algorithm":"fixed","limit":78,"window":60}`)
	p.Require("PUT /config/rules", 200, "",
		windows("rules: [{id: none, match: {path: /none}, limit: {algorithm: fixed, limit: 1, window: C}}]"))
	for range 2 {
		next := launch(t, with(set))
		p.RequireExit(0)
		p = next
		p.Require("GET /x", 200, "posted")
		p.Require("GET /config/limits", 200, `"limit":78`)
		p.Require("GET /config/limits", 200, `"version":2`)
		p.Require("GET /config/rules", 200, `"id":"none"`)
	}
	p.Require("POST /config/limits", 200, `"version":3`, `{"algorithm":"fixed","limit":79,"window":60}`)
	next := launch(t, with(later))
	p.RequireExit(0)
	next.Require("GET /x", 200, "later")
	next.Require("GET /config/limits", 200, `"limit":79`)
}

// The decision port goes from master to master, and no request of a sidecar is decided by
// anybody else meanwhile.
func TestTakeoverOfTheDecisionPort(t *testing.T) {
	// The grace is longer than a sidecar is silent.
	env := []string{"TAKEOVER", "true", "PORT", testkit.FreePort(t), "DECISION_PORT", testkit.FreePort(t),
		"RATE_LIMIT_LIMIT", "1000000000", "DRAIN_GRACE", "1s"}
	before, at := startMaster(t, env...)
	sidecar := startSidecar(t, "REMOTE_URL", "http://"+at.Addr, "RATE_LIMIT_LIMIT", "1000000000",
		"GATE", "off")
	load := callAt(sidecar.Endpoint)
	for range 3 {
		load.more(200)
		p, _ := startMaster(t, env...)
		before.RequireExit(0)
		load.more(200)
		if got := p.Metrics()[`ratelimiter_check_requests_total{api="remote",code="200"}`]; got == 0 {
			t.Errorf("the successor has decided %v asks, want some", got)
		}
		before = p
	}
	load.stop()
	for _, reason := range []string{"late", "crowded", "away"} {
		sidecar.Require("GET /metrics", 200, `ratelimiter_store_undecided_total{reason="`+reason+`"} 0`)
	}
	if lines := sidecar.Log.Lines(" RemoteStore - "); len(lines) > 0 {
		t.Errorf("logged %q", lines)
	}
}

// Any user of the machine can hold the name under which a proxy would be found, and must not
// keep the proxy from starting.
func TestTakeoverNameHeldByAStranger(t *testing.T) {
	port := testkit.FreePort(t)
	held := testkit.Must(net.Listen("unixpacket", "@weir/proxy/"+port))(t)
	defer held.Close()
	cmd := program(t, []string{"TAKEOVER", "true", "PORT", port})
	testkit.InUserNamespace(t, cmd) // there the holder's user is unknown
	p := testkit.Start(t, cmd)
	p.Logged("WARN Proxy - Not taking the port over")
	p.Logged("INFO Proxy - Ready")
	p.Logged("WARN Proxy - This proxy cannot be taken over from")
	p.Terminate()
}
