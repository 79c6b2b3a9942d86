package wire

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/net/http1"
	"weir/internal/net/loop"
	"weir/internal/test/testkit"
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
		s := &loopServer{shared: f, loop: new(loop.Loop), connsPerTarget: 100, routes: f.routes.NewLoopClassifier()}
		t := &target{server: s, spec: spec, gate: g, pool: upstream.NewPool[*upstreamConn, occupant](100, 100, 100)}
		s.targets = upstream.NewBalancer[*target](upstream.P2C, 0, inFlightOf, rand.New(rand.NewPCG(1, 2)))
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

// outcome is that of a GET request which was sent so long ago, and whose answer comes now.
func outcome(now time.Time, took time.Duration, status int) *exchange.Outcome {
	return &exchange.Outcome{Method: http1.GET, Status: status, Relayed: true, Sent: now.Add(-took),
		Complete: now.Add(-took), Answered: now}
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
						cuts = tg.gate.State().Cuts[gate.Latency]
					}
					o := outcome(now, took, k.status)
					o.Method = k.method
					tg.learnt(now, &client{route: k.route, answer: gate.Response{InFlight: tg.gate.Limit(), Full: true}}, o)
				}
				if n := tg.gate.State().Cuts[gate.Latency] - cuts; n > 0 {
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
			c.at, c.paced, c.answer = tg.at, stream, gate.Response{InFlight: tg.gate.Limit(), Full: true}
			c.learn(now, outcome(now, took, 200))
		}
	}
	answer(5000, 10*time.Millisecond)
	before := tg.gate.State()
	stream = true
	answer(5000, time.Minute)
	if after := tg.gate.State(); after.Limit != before.Limit ||
		after.Median != before.Median || after.Cuts != before.Cuts {
		t.Errorf("the gate was %+v and is %+v", before, after)
	}
	stream = false
	// the first ones seem to be those of a standstill
	if answer(20_000, time.Minute); tg.gate.State().Median == before.Median {
		t.Error("the gate learns nothing from other answers either")
	}
}

// The gate learns when an answer begins that is streamed because its length is not known, long
// before it ends.
func TestGateLearnsWhenStreamsBegin(t *testing.T) {
	r := serveWith(t, func(c *Config) { c.Gate = gates.Settings{Mode: gate.On, Min: 2} }, func(c *targetConn) {
		c.next()
		c.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		c.silence()
	}, "TARGET_STREAM_SHARE", "1", "EVENT_LOOPS", "1")
	r.play(`a*40 GET / -> reads "HTTP/1.1 200"`)
	look := (*r.loops[0].seen.Load())[r.Targets.All()[0]].gate.State()
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
			c.at, c.mark, c.answer = tg.at, tg.at.Epoch(), gate.Response{InFlight: 10}
			c.learn(now, outcome(now, 10*time.Millisecond, status))
		}
	}
	answer(1000, 200)
	for range 100 {
		answer(7, 503)
		answer(3, 200)
	}
	equal(t, "a target that refuses seven of ten", tg.at.Status(now), upstream.Up)
	if answer(55, 503); tg.at.Status(now) != upstream.Ejected {
		t.Errorf("a target that refuses everything is %v", tg.at.Status(now))
	}
}

// An answer that ends with the target's close is streamed, and recorded once.
func TestGateCountsStreamsOnce(t *testing.T) {
	r := serveWith(t, func(c *Config) { c.Gate = gates.Settings{Mode: gate.On, Min: 2} }, func(c *targetConn) {
		if c.next() != nil {
			c.say("HTTP/1.0 200 OK\r\n\r\n")
		}
	}, "EVENT_LOOPS", "1")
	r.play(`a*6 GET / -> 200`) // the gate knows nothing before the eighth
	equal(t, "median after six answers", r.gate().State().Median, time.Duration(0))
	r.play(`b*6 GET / -> 200`)
	if r.gate().State().Median == 0 {
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
		o := outcome(now, 10*time.Millisecond, 502)
		if o.Relayed, o.Fault = false, exchange.FaultUnstreamed; i%2 == 0 {
			o.Status, o.Fault, o.Answered = 503, exchange.FaultStreams, time.Time{}
		}
		tg.learnt(now, &client{answer: gate.Response{InFlight: 10}}, o)
	}
	if look := tg.gate.State(); look.Cuts != [gate.Reasons]uint64{} || look.Down || look.Median == 0 {
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
		took := time.Duration(i) * 5 * time.Millisecond
		tg.learnt(now.Add(took), &waits[i], outcome(now.Add(took), took, 200))
	}
	if tg.gate.State().Median == 0 {
		t.Error("ten answers to the first requests taught the gate nothing")
	}
}

// odd makes an outcome that of any method, and if it is to be of any status and fault.
func odd(rng *rand.Rand, o *exchange.Outcome, faults bool) *exchange.Outcome {
	o.Method, o.Relayed = http1.Method(rng.IntN(10)), false
	switch {
	case faults:
		o.Status, o.Fault = 200+rng.IntN(400), exchange.FailureKind(rng.IntN(exchange.FailureKinds))
	case o.Status == 504:
		o.Fault = exchange.FaultTimeout
	}
	if o.Fault != exchange.FaultNone {
		o.Answered = time.Time{}
	}
	return o
}

// Whatever a target does, and whatever the clock does, the limit keeps its bounds and
// what is told of it are numbers; afterwards the target is not starved.
func TestGateWithstandsOddTargets(t *testing.T) {
	const least, most = 2, 64
	const ms, day = time.Millisecond, 24 * time.Hour
	between := func(rng *rand.Rand, from, to time.Duration) time.Duration {
		return from + time.Duration(rng.Int64N(int64(to-from)+1))
	}
	for name, step := range map[string]struct {
		later, laterMost time.Duration // from one answer to the next
		took, tookMost   time.Duration
		status           int
		jumps, faults    bool // the clock; and any status
	}{
		"answers nothing":             {10 * ms, 10 * ms, 10 * time.Second, 10 * time.Second, 504, false, false},
		"refuses everything":          {ms, ms, 0, 0, 503, false, false},
		"a request a minute":          {time.Minute, time.Minute, ms, time.Second, 200, false, false},
		"answers in no time":          {time.Microsecond, time.Microsecond, 0, 0, 200, false, false},
		"answers after a day":         {time.Second, time.Second, day, day, 200, false, false},
		"answers before it was asked": {ms, ms, -time.Second, -time.Second, 200, false, false},
		"the clock stands":            {0, 0, 0, time.Second, 200, false, false},
		"the clock jumps":             {5 * ms, 5 * ms, ms, 20 * ms, 200, true, false},
		"everything at once":          {-time.Second, 2 * time.Second, -time.Second, time.Minute, 200, false, true},
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
				for range 5_000 {
					now = now.Add(between(rng, step.later, step.laterMost))
					if step.jumps && rng.IntN(500) == 0 {
						now = now.Add(between(rng, -3650*day, 3650*day))
					}
					tg.learnt(now, &client{answer: gate.Response{InFlight: 1 + rng.IntN(2*most), Full: rng.IntN(2) == 0}},
						odd(rng, outcome(now, between(rng, step.took, step.tookMost), step.status), step.faults))
					if n := tg.gate.Limit(); n < least || n > most {
						t.Fatalf("seed %d: the limit is %d", seed, n)
					}
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
					tg.learnt(now, &client{answer: gate.Response{InFlight: n, Full: true}}, outcome(now, took, 200))
				}
				if n := tg.gate.Limit(); n < 4 {
					t.Errorf("seed %d: half a minute afterwards the limit is still %d", seed, n)
				}
			}
		})
	}
}

// More loops than places, and clients that ask, wait and leave: everybody who stays is
// answered although no loop checks its queue unless called, no more requests are at the target
// than there are places and loops that looked for one at the same instant, and no place is lost.
func TestGateUnderStress(t *testing.T) {
	const loops, limit, clients, requests = 4, 3, 24, 60
	var inside, most atomic.Int64
	r := serveWith(t, gated(limit), each(func(c *targetConn, s *seen) {
		n := inside.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		inside.Add(-1)
		c.echo(s)
	}), "EVENT_LOOPS", fmt.Sprint(loops))
	r.loops.each(func(s *loopServer, _ time.Time) { s.queueLooks = true }) // no loop checks its queue unless called
	r.together(clients, func(i int, c *testkit.Conn) {
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
	})()
	if n := most.Load(); n > limit+loops-1 {
		t.Errorf("%d requests were at the target at a time, with %d places and %d loops", n, limit, loops)
	}
	g := r.gate()
	equal(t, "the limit, however many loops there are", g.Limit(), limit)
	r.until("all places are free", func() bool {
		var waiting atomic.Int64
		r.loops.each(func(s *loopServer, _ time.Time) { waiting.Add(int64(s.queue.Len())) })
		_, atTarget := g.Now()
		return g.Taken() == 0 && atTarget == 0 && g.Waiting.Load() == 0 && r.queues.Taken() == 0 && waiting.Load() == 0
	})
	checkBaseLine(r)
}
