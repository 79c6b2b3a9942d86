package wire

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/net/http1"
	"weir/internal/net/loop"
	"weir/proxy/http/exchange"
	"weir/proxy/targets/gate"
	"weir/proxy/targets/gates"
	"weir/proxy/targets/roster"
	"weir/proxy/targets/upstream"
)

// crowd is a front with one target, which never ran, on two loops.
func crowd() *Server {
	f := &Server{Targets: roster.New(roster.Config{Loops: loops(nil)}),
		cfg: Config{Gate: gates.Settings{Mode: gate.On, Min: 2}}}
	spec := &roster.Target{URL: "http://name:80", Addr: "10.0.0.1:80"}
	f.Targets.Set([]*roster.Target{spec})
	g := new(gates.Gate)
	for range 2 {
		s := &loopServer{shared: f, loop: new(loop.Loop), connsPerTarget: 100, routes: f.routes.NewLoop()}
		t := &target{server: s, spec: spec, gate: g, pool: upstream.NewPool[*upstreamConn, occupant](100, 100, 100)}
		s.targets = upstream.NewGroup[*target](upstream.P2C, 0, inFlightOf, rand.New(rand.NewPCG(1, 2)))
		t.at = s.targets.Add(t)
		s.seen.Store(&map[*roster.Target]*target{spec: t})
		f.loops = append(f.loops, s)
		f.connsPerTarget += s.connsPerTarget
	}
	return f
}

// newGated is a target with a gate, which never ran.
func newGated(least, most int, slo time.Duration) (*Server, *target) {
	f := crowd()
	f.loops = f.loops[:1]
	f.cfg.Gate = gates.Settings{Mode: gate.Shadow, Min: least, Max: most, SLO: slo}
	f.Gates = gates.New(gates.Config{Settings: f.cfg.Gate, Bounds: f.bounds(), Targets: f.Targets, Of: f.loops.gate})
	t := (*f.loops[0].seen.Load())[f.Targets.All()[0]]
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
	page, none, head := kind{0, http1.GET, 200, 20 * time.Millisecond}, kind{0, http1.GET, 304, time.Millisecond},
		kind{0, http1.HEAD, 200, time.Millisecond}
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
					tg.learnt(now, &client{route: k.route, answer: gate.Answer{InFlight: tg.gate.Limit(), Full: true}},
						&exchange.Outcome{Method: k.method, Status: k.status,
							Sent: now.Add(-took), Complete: now.Add(-took), Answered: now})
				}
				if n := tg.gate.Look().Cuts[gate.Latency] - cuts; n > 0 {
					t.Errorf("seed %d: %d cuts, %+v", seed, n, f.Gates.Report("", 1).Targets[0])
				}
			}
		})
	}
}

// Of streams and tunnels the gate learns nothing at their end: their clients set the pace.
func TestGateLearnsNothingFromTheEndOfStreams(t *testing.T) {
	_, tg := newGated(2, 64, 0)
	now, c, stream := time.Unix(1_700_000_000, 0), &client{server: tg.server}, false
	answer := func(n int, took time.Duration) {
		for range n {
			now = now.Add(time.Millisecond)
			c.at, c.paced, c.answer = tg.at, stream, gate.Answer{InFlight: tg.gate.Limit(), Full: true}
			c.learn(now, &exchange.Outcome{Method: http1.GET, Status: 200, Relayed: true, Sent: now.Add(-took),
				Complete: now.Add(-took), Answered: now})
		}
	}
	answer(5000, 10*time.Millisecond)
	before := tg.gate.Look()
	stream = true
	answer(5000, time.Minute)
	if after := tg.gate.Look(); after.Limit != before.Limit || after.Median != before.Median || after.Cuts != before.Cuts {
		t.Errorf("the gate was %+v and is %+v", before, after)
	}
	stream = false
	// the first ones seem to be those of a standstill
	if answer(20_000, time.Minute); tg.gate.Look().Median == before.Median {
		t.Error("the gate learns nothing from other answers either")
	}
}

// The gate learns when an answer begins that is streamed because its length is not known, long
// before it ends.
func TestGateLearnsWhenStreamsBegin(t *testing.T) {
	over := make(chan struct{})
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-over
	}))
	t.Cleanup(target.Close)
	t.Cleanup(func() { close(over) })
	r := startWith(t, func(c *Config) { c.Gate = gates.Settings{Mode: gate.On, Min: 2} }, target.URL,
		"TARGET_STREAM_SHARE", "1", "EVENT_LOOPS", "1")
	for range 40 {
		c := r.dial()
		c.Send(get)
		if line, err := bufio.NewReader(c).ReadString('\n'); !strings.HasPrefix(line, "HTTP/1.1 200") {
			t.Fatal(line, err)
		}
	}
	look := (*r.loops[0].seen.Load())[r.Targets.All()[0]].gate.Look()
	if look.Median == 0 || look.Limit == r.connsPerTarget {
		t.Errorf("after 40 answers that have begun the gate is %+v", look)
	}
}

// A target of which nothing is known begins with the largest limit that another has, if one has any.
func TestGateBeginsLikeOthers(t *testing.T) {
	_, tg := newGated(2, 64, 0)
	others := []*target{tg}
	for range 2 {
		o := &target{server: tg.server, gate: new(gates.Gate)}
		o.at = tg.server.targets.Add(o)
		others = append(others, o)
	}
	none := others[0].gate.Limit()
	if others[1].begin(); others[1].gate.Limit() != none {
		t.Errorf("beside a target without a limit one begins with %d", others[1].gate.Limit())
	}
	others[0].gate.SetLimit(20)
	others[1].gate.SetLimit(30)
	if others[2].begin(); others[2].gate.Limit() != 30 {
		t.Errorf("beside limits of 20 and 30 a target begins with %d", others[2].gate.Limit())
	}
}

// A target that refuses some requests stays in use, one that refuses all of them does not.
func TestGateTellsRefusalsFromOutages(t *testing.T) {
	f, tg := newGated(2, 64, 0)
	f.cfg.Gate.Mode = gate.On // in shadow mode it has no effect
	now, c := time.Unix(1_700_000_000, 0), &client{server: tg.server}
	answer := func(n, status int) {
		for range n {
			now = now.Add(time.Millisecond)
			c.at, c.mark, c.answer = tg.at, tg.at.Mark(), gate.Answer{InFlight: 10}
			sent := now.Add(-10 * time.Millisecond)
			c.learn(now, &exchange.Outcome{Method: http1.GET, Status: status, Relayed: true, Sent: sent, Complete: sent,
				Answered: now})
		}
	}
	answer(1000, 200)
	for range 100 {
		answer(7, 503)
		answer(3, 200)
	}
	if status := tg.at.Status(now); status != upstream.Up {
		t.Errorf("a target that refuses seven of ten is %v", status)
	}
	if answer(55, 503); tg.at.Status(now) != upstream.Ejected {
		t.Errorf("a target that refuses everything is %v", tg.at.Status(now))
	}
}

// An answer that ends with the target's close is streamed, and recorded once.
func TestGateCountsStreamsOnce(t *testing.T) {
	target := newTarget(t, func(c *targetConn) {
		if c.next() != nil {
			c.say("HTTP/1.0 200 OK\r\n\r\n")
		}
	})
	r := startWith(t, func(c *Config) { c.Gate = gates.Settings{Mode: gate.On, Min: 2} }, target.url(), "EVENT_LOOPS", "1")
	median := func() time.Duration { return r.loops.gate(r.Targets.All()[0]).Look().Median }
	for range 6 { // the gate knows nothing before the eighth
		r.dial().Ask(get, 200)
	}
	if took := median(); took != 0 {
		t.Errorf("after six answers the median is %v", took)
	}
	for range 6 {
		r.dial().Ask(get, 200)
	}
	if median() == 0 {
		t.Error("after twelve answers there is no median")
	}
}

// An answer that could not be streamed is no refusal by the target, and none at all if nothing was
// sent.
func TestGateBlamesNoTargetForStreams(t *testing.T) {
	_, tg := newGated(2, 64, 0)
	now := time.Unix(1_700_000_000, 0)
	for i := range 5000 {
		now = now.Add(time.Millisecond)
		o := exchange.Outcome{Method: http1.GET, Status: 502, Fault: exchange.FaultUnstreamed,
			Sent: now.Add(-10 * time.Millisecond), Complete: now.Add(-10 * time.Millisecond), Answered: now}
		if i%2 == 0 {
			o.Status, o.Fault, o.Answered = 503, exchange.FaultStreams, time.Time{}
		}
		tg.learnt(now, &client{answer: gate.Answer{InFlight: 10}}, &o)
	}
	if look := tg.gate.Look(); look.Cuts != [gate.Reasons]uint64{} || look.Down || look.Median == 0 {
		t.Errorf("the gate is %+v", look)
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
		o := exchange.Outcome{Method: http1.GET, Status: 200, Complete: now,
			Answered: now.Add(time.Duration(i) * 5 * time.Millisecond), Relayed: true}
		tg.learnt(o.Answered, &waits[i], &o)
	}
	if tg.gate.Look().Median == 0 {
		t.Error("ten answers to the first requests taught the gate nothing")
	}
}

// Whatever a target does, and whatever the clock does, the limit keeps its bounds and
// what is told of it are numbers; afterwards the target is not starved.
func TestGateWithstandsOddTargets(t *testing.T) {
	const least, most = 2, 64
	day := 24 * time.Hour
	between := func(rng *rand.Rand, low, high time.Duration) time.Duration {
		return low + time.Duration(rng.Int64N(int64(high-low)))
	}
	for name, step := range map[string]func(rng *rand.Rand, now *time.Time) (took time.Duration, o exchange.Outcome){
		"answers nothing": func(_ *rand.Rand, now *time.Time) (time.Duration, exchange.Outcome) {
			*now = now.Add(10 * time.Millisecond)
			return 10 * time.Second, exchange.Outcome{Status: 504, Fault: exchange.FaultTimeout}
		},
		"refuses everything": func(_ *rand.Rand, now *time.Time) (time.Duration, exchange.Outcome) {
			*now = now.Add(time.Millisecond)
			return 0, exchange.Outcome{Status: 503}
		},
		"a request a minute": func(rng *rand.Rand, now *time.Time) (time.Duration, exchange.Outcome) {
			*now = now.Add(time.Minute)
			return between(rng, time.Millisecond, time.Second), exchange.Outcome{Status: 200}
		},
		"answers in no time": func(_ *rand.Rand, now *time.Time) (time.Duration, exchange.Outcome) {
			*now = now.Add(time.Microsecond)
			return 0, exchange.Outcome{Status: 200}
		},
		"answers after a day": func(_ *rand.Rand, now *time.Time) (time.Duration, exchange.Outcome) {
			*now = now.Add(time.Second)
			return day, exchange.Outcome{Status: 200}
		},
		"answers before it was asked": func(_ *rand.Rand, now *time.Time) (time.Duration, exchange.Outcome) {
			*now = now.Add(time.Millisecond)
			return -time.Second, exchange.Outcome{Status: 200}
		},
		"the clock stands": func(rng *rand.Rand, _ *time.Time) (time.Duration, exchange.Outcome) {
			return between(rng, 0, time.Second), exchange.Outcome{Status: 200}
		},
		"the clock jumps": func(rng *rand.Rand, now *time.Time) (time.Duration, exchange.Outcome) {
			*now = now.Add(5 * time.Millisecond)
			if rng.IntN(500) == 0 {
				*now = now.Add(between(rng, -3650*day, 3650*day))
			}
			return between(rng, time.Millisecond, 20*time.Millisecond), exchange.Outcome{Status: 200}
		},
		"everything at once": func(rng *rand.Rand, now *time.Time) (time.Duration, exchange.Outcome) {
			*now = now.Add(between(rng, -time.Second, 2*time.Second))
			return between(rng, -time.Second, time.Minute),
				exchange.Outcome{Status: 200 + rng.IntN(400), Fault: exchange.Fault(rng.IntN(exchange.Faults))}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(4) {
				rng := rand.New(rand.NewPCG(seed, 2))
				slo := time.Duration(0)
				if seed%2 == 1 {
					slo = 50 * time.Millisecond
				}
				f, tg := newGated(least, most, slo)
				now := time.Unix(1_700_000_000, 0)
				answer := func(took time.Duration, o exchange.Outcome) {
					o.Method = http1.Method(rng.IntN(10))
					o.Sent = now.Add(-took)
					o.Complete = o.Sent
					if o.Fault == exchange.FaultNone {
						o.Answered = now
					}
					c := &client{answer: gate.Answer{InFlight: 1 + rng.IntN(2*most), Full: rng.IntN(2) == 0}}
					tg.learnt(now, c, &o)
					if n := tg.gate.Limit(); n < least || n > most {
						t.Fatalf("seed %d: the limit is %d", seed, n)
					}
				}
				for range 5_000 {
					took, o := step(rng, &now)
					answer(took, o)
				}
				if _, err := json.Marshal(f.Gates.Report("", 1)); err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
				if st := f.Gates.Report("", 1).Targets[0]; st.Share < 0 || st.Share > 1 || st.Baseline < 0 || st.Median < 0 {
					t.Errorf("seed %d: %+v", seed, st)
				}
				// A target that is well again: 20 at work, all places taken.
				for range 60_000 {
					now = now.Add(500 * time.Microsecond)
					n := tg.gate.Limit()
					took := 10 * time.Millisecond * time.Duration(max(n, 20)) / 20
					tg.learnt(now, &client{answer: gate.Answer{InFlight: n, Full: true}},
						&exchange.Outcome{Method: http1.GET, Status: 200,
							Sent: now.Add(-took), Complete: now.Add(-took), Answered: now})
				}
				if n := tg.gate.Limit(); n < 4 {
					t.Errorf("seed %d: half a minute afterwards the limit is still %d", seed, n)
				}
			}
		})
	}
}

// More loops than places, and clients that ask, wait and leave: everybody who stays is
// answered although nobody looks after a line unless told, no more requests are at the target
// than there are places and loops that looked for one at the same instant, and no place is lost.
func TestGateUnderStress(t *testing.T) {
	const loops, limit, clients, requests = 4, 3, 24, 60
	var inside, most atomic.Int64
	target := newTarget(t, each(func(c *targetConn, s *seen) {
		n := inside.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		inside.Add(-1)
		c.echo(s)
	}))
	r := startWith(t, gated(limit), target.url(), "EVENT_LOOPS", fmt.Sprint(loops))
	r.loops.each(func(s *loopServer, _ time.Time) { s.lineLooks = true }) // nobody looks after a line but who is told to
	var all sync.WaitGroup
	for i := range clients {
		c := r.dial()
		all.Go(func() {
			for n := range requests {
				c.Send(get)
				if (n+i)%7 == 0 { // leaves while it waits or is answered
					c.Reset()
					c = r.dial()
					continue
				}
				c.Status(200)
			}
			c.Close()
		})
	}
	all.Wait()
	if n := most.Load(); n > limit+loops-1 {
		t.Errorf("%d requests were at the target at a time, with %d places and %d loops", n, limit, loops)
	}
	g := r.loops.gate(r.Targets.All()[0])
	if n := g.Limit(); n != limit {
		t.Errorf("the limit is %d, want %d however many loops there are", n, limit)
	}
	r.until("all places are free", func() bool {
		var waiting atomic.Int64
		r.loops.each(func(s *loopServer, _ time.Time) { waiting.Add(int64(s.line.Len())) })
		_, atTarget := g.Now()
		return g.Taken() == 0 && atTarget == 0 && g.Waiting.Load() == 0 && r.lines.Taken() == 0 && waiting.Load() == 0
	})
	checkBaseLine(r)
}
