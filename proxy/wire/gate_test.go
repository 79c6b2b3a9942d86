package wire

import (
	"hash/maphash"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"weir/internal/net/http1"
	"weir/internal/net/loop"
	"weir/internal/test/testkit"
	"weir/proxy/http/exchange"
	"weir/proxy/rules/decide"
	"weir/proxy/rules/tally"
	"weir/proxy/store/simredis"
	"weir/proxy/targets/gate"
	"weir/proxy/targets/gates"
	"weir/proxy/targets/roster"
	"weir/proxy/targets/route"
	"weir/proxy/targets/upstream"
	"weir/proxy/wire/report"
)

// A request that finds no place at its target waits a while and is shed; the one in
// its place is answered, and the next has the place again.
func TestGateSheds(t *testing.T) {
	r := holding(t, gatedFor(gate.On, 5*time.Millisecond))
	r.play(`a GET /two -> 503 Retry-After=* X-Weir-Reason=gate ~"reason":"gate"`)
	var d report.ShedExplanation
	body, a := r.last("a").body, r.last("a")
	r.playf(`a GET /config/decisions/%s -> 200`, a.res.Header.Get("X-Weir-Decision"))
	a.decode(&d)
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
	tg := &target{server: &loopServer{shared: new(Server), routes: new(route.Classifier).NewLoopClassifier()},
		gate: new(gates.Gate)}
	tg.begin()
	for i := range 1000 {
		now := time.Unix(1, 0).Add(time.Duration(i) * 10 * time.Millisecond)
		sent := now.Add(-time.Second)
		tg.learnt(now, &client{answer: gate.Response{InFlight: 1}}, &exchange.Outcome{Sent: sent, Complete: sent})
	}
	equal(t, "what the gate takes for the answer time", tg.gate.State().Median, 0)
}

// The gate learns from the answers to uploads that have waited for places, and from answers that nobody
// waits for: they take as long as others. It knows nothing before the eighth.
func TestGateLearnsFromAnswers(t *testing.T) {
	for name, script := range map[string]string{
		"to uploads": `12 x a POST / body*2000 -> 200; target gets /`,
		"to clients that have left": `12 x a GET /held; target gets /held; a resets; until upstream_abandoned=1; ` +
			`target answers; until upstream_abandoned=0`,
	} {
		r := serveWith(t, gated(16), holds, "EVENT_LOOPS", "1", "BODY_BUFFER_BYTES", "1KiB")
		if r.play(script); r.gate().State().Median == 0 {
			t.Errorf("after twelve answers %s the gate is %+v", name, r.gate().State())
		}
	}
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

// What is in flight and what the gates let in is added up over time, whatever happens
// within a turn of the loop and when the clock is set back.
func TestUsage(t *testing.T) {
	f := crowd()
	f.loops = f.loops[:1]
	var at *target
	for at = range f.loops.of(f.Targets.All()[0]) {
		break
	}
	at.server.counts = report.NewLoopCounters()
	now := time.Unix(1_000_000, 0)
	f.began = now
	at.spend(now)
	for _, step := range []struct {
		after                time.Duration
		busy, streams        int
		limit                int
		taken, places, bound uint64 // in milliseconds, in all
	}{
		{0, 1, 0, 4, 0, 0, 0},
		{100 * time.Millisecond, 4, 0, 4, 100, 400, 0},
		{0, 5, 0, 4, 100, 400, 0},
		{0, 5, 1, 4, 100, 400, 0},
		{50 * time.Millisecond, 9, 1, 16, 300, 600, 200},
		{-time.Hour, 9, 1, 16, 300, 600, 200},
		{10 * time.Millisecond, 0, 0, 16, 380, 760, 200},
		{time.Second, 0, 0, 16, 380, 16_760, 200},
	} {
		now = now.Add(step.after)
		at.spend(now)
		has := gate.LoopUse{Short: step.busy - step.streams, Streams: step.streams}
		at.gate.Change(at.reported, has)
		at.reported = has
		at.Busy.Store(int64(step.busy))
		at.Streams.Store(int64(has.Streams))
		at.gate.SetLimit(step.limit)
		var sum report.TrafficTotals
		sum.Add(&at.server.counts.Traffic)
		if taken, places, bound := sum.Taken/1000, sum.Places/1000, sum.Bound/1000; taken != step.taken ||
			places != step.places || bound != step.bound {
			t.Errorf("at %v: %d taken of %d, %d bound; want %+v", now.Unix(), taken, places, bound, step)
		}
	}
	equal(t, "allocations", testing.AllocsPerRun(1000, func() { now = now.Add(time.Millisecond); at.spend(now) }), 0)
}

// A running proxy adds up also while nothing changes.
func TestUsageOfARunningProxy(t *testing.T) {
	for mode, binds := range map[gate.Mode]bool{gate.On: true, gate.Shadow: false, gate.Off: false} {
		r := holding(t, gatedFor(mode, time.Minute))
		before := r.Traffic()
		var d report.TrafficTotals
		for deadline := time.Now().Add(testkit.Timeout); d.Taken < 20_000; time.Sleep(time.Millisecond) {
			if d = r.Traffic().Since(before); time.Now().After(deadline) {
				t.Fatal("nothing is added up")
			}
		}
		if (d.Bound > 0) != binds || (d.Places > 0) != (mode != gate.Off) || d.Targets != 1 {
			t.Errorf("%v: %d taken of %d, %d bound, %d targets", mode, d.Taken, d.Places, d.Bound, d.Targets)
		}
		r.play(`target answers; held -> 200`)
	}
}

// A running proxy counts all of it.
func TestTraffic(t *testing.T) {
	r := start(t, newService(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/bad" {
			w.WriteHeader(503)
		}
	}), "RATE_LIMIT_LIMIT", "4")
	r.play(`
		2 x GET /a -> 200; GET /bad -> 503
		2 x GET /a -> 429
		GET /metrics -> 200`)
	got := r.Traffic()
	if got.Admitted != 4 || got.Denied != 2 || got.Ended != 4 || got.Failed != 2 || got.Times.Quantile(1) <= 0 {
		t.Errorf("counted %+v", got)
	}
}

// A target that answers before it has the whole request has taken no time that could
// be measured.
func TestTrafficOfUploads(t *testing.T) {
	r := start(t, newService(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }))
	r.play(`POST /u Content-Length=10000000 part*300000 -> 503`)
	if got := r.Traffic(); got.Admitted != 1 || got.Ended != 1 || got.Failed != 1 ||
		got.Times != (report.ResponseTimes{}) {
		t.Errorf("counted %+v", got)
	}
}

// gateRequest returns what a request costs that passes a gate and takes 10 ms: everything
// that the proxy does for it only if there is a gate.
func gateRequest() (next func(), g *gates.Gate) {
	f := &Server{Tally: tally.New(nil, nil), cfg: Config{Gate: gates.Settings{Mode: gate.On, Wait: gate.WaitDefault,
		Min: 2},
		Store: new(simredis.Store)}, seed: maphash.MakeSeed(), queues: upstream.NewQueueSet(1)}
	f.Gates = gates.New(gates.Config{Settings: f.cfg.Gate, Bounds: f.bounds()})
	s := newLoopServer(f, new(loop.Loop), 512)
	now := time.Now()
	f.loops = loops{s}
	s.addTarget(now, new(roster.Target), new(gates.Gate))
	at := s.targets.Targets()[0]
	c, t := &client{peer: new(connection), server: s, at: at}, at.Value
	m := &decide.Evaluation{Policy: new(decide.Policy), Client: netip.MustParseAddr("192.0.2.7")}
	o := exchange.Outcome{Method: http1.GET, Status: 200, Relayed: true}
	t.begin()
	return func() {
		now = now.Add(20 * time.Microsecond)
		s.noteRoute(c, m)
		t.begin()
		if t.room() && t.admits(now, c) {
			s.queue.Take(now, &c.wait, t.gate.Usual(0))
		}
		t.gate.Change(gate.LoopUse{}, gate.LoopUse{Short: 1})
		t.admitted(c)
		o.Complete, o.Answered = now, now.Add(10*time.Millisecond)
		t.learnt(o.Answered, c, &o)
		t.over(o.Answered, &c.wait)
		t.gate.Change(gate.LoopUse{Short: 1}, gate.LoopUse{})
	}, t.gate
}

// A gate costs a request no memory, however often its answers are judged.
func TestGateAllocs(t *testing.T) {
	next, g := gateRequest()
	equal(t, "allocations for a request", testing.AllocsPerRun(100_000, next), 0)
	if g.State().Median == 0 {
		t.Error("the gate has judged no answers")
	}
}

func BenchmarkGate(b *testing.B) {
	next, _ := gateRequest()
	b.ReportAllocs()
	for b.Loop() { // a sixth of the time goes into the two additions
		next()
	}
}
