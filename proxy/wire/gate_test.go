package wire

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"weir/internal/net/loop"
	"weir/proxy/http/exchange"
	"weir/proxy/targets/gate"
	"weir/proxy/targets/gates"
	"weir/proxy/targets/roster"
	"weir/proxy/targets/route"
	"weir/proxy/wire/report"
)

// A request that finds no place at its target waits a while and is shed; the one in
// its place is answered, and the next has the place again.
func TestGateSheds(t *testing.T) {
	r := holding(t, gatedFor(gate.On, 5*time.Millisecond))
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
	r.play(`target answers; held -> 200; held GET / -> 200`)
	if st := r.Gates.Report("", 9).Targets; len(st) != 1 || st[0].Shed != 1 {
		t.Errorf("the gates are %+v", st)
	}
	spec := r.Targets.All()[0]
	r.client.CloseIdleConnections()
	r.playf(`
		metrics gate_shed_total%s=1 gate_limit%[2]s=1 gate_limit_min%[2]s=1 gate_cuts_total%[3]s=0 forwarded=2 shed.gate=1
		rest`, r.Targets.Labels(spec, "class", "default"), r.Targets.Labels(spec), r.Targets.Labels(spec, "reason", "latency"))
}

// A request that waits is sent as soon as there is a place. One that leaves while it waits takes
// nobody's place.
func TestGateWaits(t *testing.T) {
	holding(t, gatedFor(gate.On, time.Minute)).play(`
		waits GET /waits; waiting 2; target answers; held,waits -> 200; target gets /waits
		held GET /held; target gets /held; waits GET /leaves; waiting 2; waits resets; waiting 1
		target answers; held -> 200; held GET / -> 200; rest`)
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
	equal(t, "what the gate takes for the answer time", tg.gate.Look().Median, 0)
}

// In shadow mode nothing waits, and what would have is counted.
func TestGateInShadow(t *testing.T) {
	holding(t, gatedFor(gate.Shadow, 0)).play(`
		a GET / -> 200; target answers; held -> 200; metrics gate_would_wait_total=1`)
}

// A request counts among those at the target when it is sent, over a new connection or one
// that was used before.
func TestGateCountsTheRequestItself(t *testing.T) {
	holding(t, gatedFor(gate.Shadow, 0)).play(`
		b GET /held; target gets /held; target answers 2; held,b -> 200; metrics gate_would_wait_total=1
		held GET /held; target gets /held
		b GET /held; target gets /held; target answers 2; held,b -> 200; metrics gate_would_wait_total=2`)
}

// What waits for a connection only, the gate would not have had wait.
func TestGateInShadowLeavesConnectionsAlone(t *testing.T) {
	holding(t, func(c *Config) { c.Gate = gates.Settings{Mode: gate.Shadow, Min: 1} },
		"TARGET_MAX_CONNECTIONS", "1").play(`
		a GET /; waiting 2; b GET /; waiting 3
		target answers; held,a,b -> 200; metrics gate_would_wait_total=0`)
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
	equal(t, "gates before the first request", gates(), 0)
	r.play(`GET / -> 200`)
	equal(t, "gates after the first request", gates(), 1)
}

// TARGET_WAIT_TIMEOUT is for connections: who waits for a place waits as long as the gate
// says, and is shed by it.
func TestGateWaitsWithoutConnectionTimeout(t *testing.T) {
	r := holding(t, gated(1), "TARGET_WAIT_TIMEOUT", "1m", "TARGET_TIMEOUT", "1h")
	r.play(`waits GET /; waiting 2`)
	r.loops.each(func(s *loopServer, now time.Time) {
		s.loop.Each(func(_ *loop.Conn, h loop.Handler) {
			if c, ok := h.(*connection); ok && c.gateBy && c.s.Deadline().Before(now.Add(30*time.Minute)) {
				t.Errorf("who waits for a place has only %v", c.s.Deadline().Sub(now))
			}
		})
	})
	r.play(`target answers; held,waits -> 200`)
}
