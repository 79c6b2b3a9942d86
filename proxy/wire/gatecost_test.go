package wire

import (
	"hash/maphash"
	"net/netip"
	"testing"
	"time"

	"weir/internal/net/http1"
	"weir/internal/net/loop"
	"weir/proxy/http/exchange"
	"weir/proxy/rules/decide"
	"weir/proxy/rules/tally"
	"weir/proxy/store/simredis"
	"weir/proxy/targets/gate"
	"weir/proxy/targets/gates"
	"weir/proxy/targets/roster"
	"weir/proxy/targets/upstream"
)

// gateRequest returns what a request costs that passes a gate and takes 10 ms: everything
// that the proxy does for it only if there is a gate.
func gateRequest() (next func(), g *gates.Gate) {
	f := &Server{Tally: tally.New(nil, nil), cfg: Config{Gate: gates.Settings{Mode: gate.On, Wait: gate.Wait, Min: 2},
		Store: new(simredis.Store)}, seed: maphash.MakeSeed(), lines: upstream.NewLines(1)}
	f.Gates = gates.New(gates.Config{Settings: f.cfg.Gate, Bounds: f.bounds()})
	s := newLoopServer(f, new(loop.Loop), 512)
	now := time.Now()
	f.loops = loops{s}
	s.addTarget(now, new(roster.Target), new(gates.Gate))
	at := s.targets.Targets()[0]
	c, t := &client{peer: new(connection), server: s, at: at}, at.Value
	m := &decide.Case{Policy: new(decide.Policy), Client: netip.MustParseAddr("192.0.2.7")}
	o := exchange.Outcome{Method: http1.GET, Status: 200, Relayed: true}
	t.begin()
	return func() {
		now = now.Add(20 * time.Microsecond)
		s.noteRoute(c, m)
		t.begin()
		if t.room() && t.admits(now, c) {
			s.line.Take(now, &c.wait, t.gate.Usual(0))
		}
		t.gate.Change(gate.Use{}, gate.Use{Short: 1})
		t.admitted(c)
		o.Complete, o.Answered = now, now.Add(10*time.Millisecond)
		t.learnt(o.Answered, c, &o)
		t.over(o.Answered, &c.wait)
		t.gate.Change(gate.Use{Short: 1}, gate.Use{})
	}, t.gate
}

// A gate costs a request no memory, however often its answers are judged.
func TestGateAllocs(t *testing.T) {
	next, g := gateRequest()
	equal(t, "allocations for a request", testing.AllocsPerRun(100_000, next), 0)
	if g.Look().Median == 0 {
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
