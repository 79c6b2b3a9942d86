package wire

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"weir/internal/net/loop"
	"weir/internal/test/testkit"
	"weir/proxy/http/exchange"
	"weir/proxy/targets/gate"
	"weir/proxy/targets/gates"
	"weir/proxy/targets/roster"
	"weir/proxy/targets/route"
	"weir/proxy/wire/report"
)

// withGate starts a proxy with one loop and gates that let one request in.
func withGate(t *testing.T, mode gate.Mode, wait time.Duration) (*rig, *barrier, *testkit.Conn) {
	return holding(t, func(c *Config) { c.Gate = gates.Settings{Mode: mode, Wait: wait, Min: 1, Max: 1} })
}

// A request that finds no place at its target waits a while and is shed; the one in
// its place is answered, and the next has the place again.
func TestGateSheds(t *testing.T) {
	r, b, held := withGate(t, gate.On, 5*time.Millisecond)
	status, fields, body := r.do("GET", "/two", "")
	if status != 503 || fields.Get("Retry-After") == "" || fields.Get("X-Weir-Reason") != "gate" ||
		!strings.Contains(body, `"reason":"gate"`) {
		t.Errorf("answered %d, Retry-After %q, %s", status, fields.Get("Retry-After"), body)
	}
	var d report.RecalledShed
	if _, _, text := r.do("GET", "/config/decisions/"+fields.Get("X-Weir-Decision"), ""); json.Unmarshal([]byte(text),
		&d) != nil {
		t.Fatalf("explained as %s", text)
	}
	if !strings.Contains(body, `"decision":"`+d.ID+`"`) || d.Reason != "gate" ||
		d.URL != r.Gates.Report("", 1).Targets[0].URL || d.Client.String() != "127.0.0.1" ||
		d.Class != "default" || d.Limit != 1 || d.InFlight != 1 || d.Waiting != 0 || d.Waited < .005 || d.At.IsZero() {
		t.Errorf("%s is explained as %+v", body, d)
	}
	b.open <- true
	held.Status(200)
	held.Ask(get, 200)
	if st := r.Gates.Report("", 9).Targets; len(st) != 1 || st[0].Shed != 1 {
		t.Errorf("the gates are %+v", st)
	}
	spec := r.Targets.All()[0]
	r.samplesAre("ratelimiter_gate_shed_total"+r.Targets.Labels(spec, "class", "default"), 1,
		"ratelimiter_gate_limit"+r.Targets.Labels(spec), 1,
		"ratelimiter_gate_limit_min"+r.Targets.Labels(spec), 1, "ratelimiter_gate_cuts_total"+r.Targets.Labels(spec,
			"reason", "latency"), 0,
		`ratelimiter_requests_total{decision="forwarded"}`, 2, `ratelimiter_upstream_shed_total{kind="gate"}`, 1)
	held.Close()
	r.client.CloseIdleConnections()
	checkBaseLine(r)
}

// A request that waits is sent as soon as there is a place.
func TestGateWaits(t *testing.T) {
	r, b, held := withGate(t, gate.On, time.Minute)
	waits := b.frees(r, held)
	b.next(t)
	// One that leaves while it waits takes nobody's place.
	held.Send(request("/held"))
	b.next(t)
	waits.Send(request("/leaves"))
	r.waiting(2)
	waits.Reset()
	r.waiting(1)
	b.open <- true
	held.Status(200)
	held.Ask(get, 200)
	held.Close()
	checkBaseLine(r)
}

// A client that leaves before the answer says nothing about the target: however long it
// has waited, its patience is no answer time.
func TestGateLearnsNothingFromClientsThatLeave(t *testing.T) {
	tg := &target{server: &loopServer{shared: new(Server), routes: new(route.Table).NewLoop()}, gate: new(gates.Gate)}
	tg.begin()
	for i := range 1000 {
		now := time.Unix(1, 0).Add(time.Duration(i) * 10 * time.Millisecond)
		sent := now.Add(-time.Second)
		tg.learnt(now, &client{answer: gate.Answer{InFlight: 1}}, &exchange.Outcome{Sent: sent, Complete: sent})
	}
	if took := tg.gate.Look().Median; took != 0 {
		t.Errorf("the gate takes %v for the answer time", took)
	}
}

// In shadow mode nothing waits, and what would have is counted.
func TestGateInShadow(t *testing.T) {
	r, b, held := withGate(t, gate.Shadow, 0)
	r.dial().Ask(get, 200)
	b.open <- true
	held.Status(200)
	r.samplesAre("ratelimiter_gate_would_wait_total", 1)
}

// A request counts among those at the target when it is sent, over a new connection or one
// that was used before.
func TestGateCountsTheRequestItself(t *testing.T) {
	r, b, first := withGate(t, gate.Shadow, 0)
	second := r.dial()
	for would := range 2 {
		if would > 0 {
			first.Send(request("/held"))
			b.next(t)
		}
		second.Send(request("/held"))
		b.next(t)
		b.open <- true
		b.open <- true
		first.Status(200)
		second.Status(200)
		r.samplesAre("ratelimiter_gate_would_wait_total", would+1)
	}
}

// What waits for a connection only, the gate would not have had wait.
func TestGateInShadowLeavesConnectionsAlone(t *testing.T) {
	r, b, held := holding(t, func(c *Config) { c.Gate = gates.Settings{Mode: gate.Shadow, Min: 1} },
		"TARGET_MAX_CONNECTIONS", "1")
	waits := []*testkit.Conn{r.lineUp(1, get), r.lineUp(2, get)}
	b.open <- true
	held.Status(200)
	for _, c := range waits {
		c.Status(200)
	}
	r.samplesAre("ratelimiter_gate_would_wait_total", 0)
}

// A target that was never asked has no gate: that would be two kilobytes a loop for
// each address of a name.
func TestGateBeginsWithTheFirstRequest(t *testing.T) {
	idle, busy := newTarget(t, echoes), newTarget(t, echoes)
	tweak := func(c *Config) { c.Gate = gates.Settings{Mode: gate.On, Wait: time.Second, Min: 2} }
	r := startWith(t, tweak, busy.url(), "EVENT_LOOPS", "1")
	r.Targets.Set([]*roster.Target{r.Targets.All()[0], {URL: idle.url(), Addr: idle.addr, Host: idle.addr}})
	gates := func() (n int) {
		r.loops.each(func(s *loopServer, _ time.Time) {
			for _, at := range s.targets.Targets() {
				if at.Value.gate.Limit() > 0 {
					n++
				}
			}
		})
		return n
	}
	if n := gates(); n != 0 {
		t.Errorf("%d gates before the first request", n)
	}
	r.dial().Ask(get, 200)
	if n := gates(); n != 1 {
		t.Errorf("%d gates after the first request", n)
	}
}

// TARGET_WAIT_TIMEOUT is for connections: who waits for a place waits as long as the gate
// says, and is shed by it.
func TestGateWaitsWithoutConnectionTimeout(t *testing.T) {
	r, b, held := holding(t, gated(1), "TARGET_WAIT_TIMEOUT", "1m", "TARGET_TIMEOUT", "1h")
	waits := r.lineUp(1, get)
	r.loops.each(func(s *loopServer, now time.Time) {
		s.loop.Each(func(_ *loop.Conn, h loop.Handler) {
			if c, ok := h.(*connection); ok && c.gateBy && c.s.Deadline().Before(now.Add(30*time.Minute)) {
				t.Errorf("who waits for a place has only %v", c.s.Deadline().Sub(now))
			}
		})
	})
	b.open <- true
	held.Status(200)
	b.open <- true
	waits.Status(200)
}
