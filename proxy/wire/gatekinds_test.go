package wire

import (
	"math/rand/v2"
	"testing"
	"time"

	"weir/internal/http1"
	"weir/internal/loop"
	"weir/proxy/exchange"
	"weir/proxy/gate"
	"weir/proxy/gates"
	"weir/proxy/roster"
	"weir/proxy/upstream"
)

// crowd is a front with one target, which never ran, on two loops.
func crowd() *Front {
	f := &Front{Targets: roster.New(roster.Config{Loops: loops(nil)}), cfg: Config{Gate: gates.Settings{Mode: gate.On, Min: 2}}}
	spec := &roster.Target{URL: "http://name:80", Addr: "10.0.0.1:80"}
	f.Targets.Set([]*roster.Target{spec})
	g := new(gates.Gate)
	for range 2 {
		s := &side{front: f, loop: new(loop.Loop), connsPerTarget: 100}
		t := &target{side: s, spec: spec, gate: g, pool: upstream.NewPool[*upstreamConn, *client](100, 100, 100)}
		t.at = upstream.NewGroup[*target](upstream.P2C, upstream.Ejection{}, inFlightOf, nil).Add(t)
		s.seen.Store(&map[*roster.Target]*target{spec: t})
		f.sides = append(f.sides, s)
		f.connsPerTarget += s.connsPerTarget
	}
	return f
}

// newGated is a target with a gate, which never ran.
func newGated(least, most int, slo time.Duration) (*Front, *target) {
	f := crowd()
	f.sides = f.sides[:1]
	f.cfg.Gate = gates.Settings{Mode: gate.Shadow, Min: least, Max: most, SLO: slo}
	f.Gates = gates.New(gates.Config{Settings: f.cfg.Gate, Targets: f.Targets, Of: f.sides.gate})
	t := (*f.sides[0].seen.Load())[f.Targets.All()[0]]
	t.begin()
	return f, t
}

// Answers that become longer because other things are asked say nothing about the
// target: HEAD and 304 are short, and so are most routes beside a report's.
func TestGateKnowsKindsOfRequests(t *testing.T) {
	type kind struct {
		route  uint16
		method http1.Method
		status int
		took   time.Duration
	}
	page, none, head := kind{0, http1.GET, 200, 20 * time.Millisecond}, kind{0, http1.GET, 304, time.Millisecond}, kind{0, http1.HEAD, 200, time.Millisecond}
	short, report := kind{1, http1.GET, 200, 4 * time.Millisecond}, kind{2, http1.GET, 200, 200 * time.Millisecond}
	for _, test := range []struct {
		name         string
		often, rare  kind
		first, later int // of hundred the rare ones
	}{
		{"no more 304", page, none, 30, 0},
		{"no more HEAD", page, head, 30, 0},
		{"only reports", report, short, 30, 0},
		{"many 304", page, none, 0, 90},
		{"more reports", short, report, 2, 60},
	} {
		t.Run(test.name, func(t *testing.T) {
			for seed := range uint64(5) {
				rng := rand.New(rand.NewPCG(seed, 3))
				f, tg := newGated(2, 64, 0)
				now := time.Unix(1_700_000_000, 0)
				var cuts uint64
				for i := range 60_000 { // a minute
					now = now.Add(time.Millisecond)
					share := test.first
					if i >= 30_000 {
						share = test.later
					}
					k := test.often
					if rng.IntN(100) < share {
						k = test.rare
					}
					took := time.Duration(float64(k.took) * (.5 + rng.ExpFloat64()/2))
					if i == 30_000 {
						cuts = tg.gate.Look().Cuts[gate.Latency]
					}
					tg.learnt(now, &client{route: k.route, answer: gate.Answer{InFlight: tg.gate.Limit(), Full: true}}, &exchange.Outcome{Method: k.method, Status: k.status,
						Sent: now.Add(-took), Complete: now.Add(-took), Answered: now})
				}
				if n := tg.gate.Look().Cuts[gate.Latency] - cuts; n > 0 {
					t.Errorf("seed %d: %d cuts, %+v", seed, n, f.Gates.Report("", 1).Targets[0])
				}
			}
		})
	}
}

// When many requests come before there is a connection, the first to get one are at the
// target with few others, and the gate learns from their answers.
func TestGateLearnsWhileOthersWaitForConnections(t *testing.T) {
	const requests = 60
	_, tg := newGated(2, requests, 0)
	waits := make([]client, requests)
	for i := range waits {
		tg.pool.Acquire(&waits[i].wait, false)
	}
	now := time.Unix(1_700_000_000, 0)
	for i := range waits {
		tg.pool.Dialled(new(upstreamConn))
		c := &waits[i]
		tg.note(time.Unix(1_700_000_000, 0))
		tg.admitted(c)
		if n := c.answer.InFlight; n != i+1 {
			t.Fatalf("the request on connection %d is said to be at the target with %d", i+1, n)
		}
	}
	for i := range 10 {
		o := exchange.Outcome{Method: http1.GET, Status: 200, Complete: now, Answered: now.Add(time.Duration(i) * 5 * time.Millisecond), Relayed: true}
		tg.learnt(o.Answered, &waits[i], &o)
	}
	if tg.gate.Look().Median == 0 {
		t.Error("ten answers to the first requests taught the gate nothing")
	}
}
