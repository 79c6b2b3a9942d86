package wire

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"weir/internal/net/loop"
	"weir/internal/net/loop/looptest"
	"weir/internal/net/share"
	"weir/internal/test/testkit"
	"weir/proxy/targets/gate"
	"weir/proxy/targets/gates"
)

// gated gives each target a number of places, for which requests wait for long.
func gated(places int) func(c *Config) {
	return func(c *Config) {
		c.Gate = gates.Settings{Mode: gate.On, Wait: testkit.Timeout, Min: places, Max: places}
	}
}

// A waiting request is served by any target that has a free place.
func TestWaitQueueIsForAnyTarget(t *testing.T) {
	r := holdBoth(t)
	for n, name := range []string{"a", "b", "b", "a"} {
		r.playf(`
			c%[1]d GET /; waiting 3; %[2]s answers; c%[1]d -> 200 =%[2]q; c%[1]d GET /held; %[2]s gets /held`, n, name)
	}
}

// When a target dies or leaves the list, others serve the waiting requests.
func TestWaitQueueOutlivesTargets(t *testing.T) {
	for name, end := range map[string]string{"dies": `a crashes`, "leaves": `targets b`} {
		t.Run(name, func(t *testing.T) {
			holdBoth(t).play(`
				w1 GET /; waiting 3; w2 GET /; waiting 4
				` + end + `; b answers; w1,w2 -> 200 ="b"`)
		})
	}
}

// Requests of the highest priority are served next. The priority comes from the client file, and
// from fields of requests from trusted proxies, but not from those of others.
func TestWaitQueueRanks(t *testing.T) {
	rules := ruleFile(t, `rules:
  - {id: ids, key: ["header:X-Id"], clients: true, limit: {algorithm: "off"}, priority: {header: X-Priority, classes: {high: 0, low: 0.5}, default: low}}
`)
	clients := ruleFile(t, `{"boss": {"algorithm": "off", "priority": "high"}}`)
	for _, test := range []struct{ trusted, field, first string }{
		{"", "X-Id=boss", "/special"},
		{"", "X-Priority=high", "/usual"},
		{"127.0.0.0/8", "X-Priority=high", "/special"},
	} {
		holding(t, gated(1), "RULES_FILE", rules, "CLIENTS_FILE", clients, "TRUSTED_PROXIES", test.trusted).play(
			fmt.Sprintf(`
			a GET /usual; waiting 2; b GET /special %s; waiting 3
			target answers; target gets %s`, test.field, test.first))
	}
}

// What an exchange has waited counts when it has to wait once more: GATE_WAIT is for all
// its tries together.
func TestGateWaitIsForAllTries(t *testing.T) {
	r := holding(t, gatedFor(gate.On, time.Hour))
	r.play(`waits GET /; waiting 2`)
	r.loops.each(func(s *loopServer, now time.Time) {
		later := now.Add(31 * time.Hour) // longer than a crowd makes anybody wait
		s.loop.Each(func(_ *loop.Conn, h loop.Handler) {
			if c, ok := h.(*connection); ok && c.gateBy {
				s.queue.Leave(later, &c.wait)
				c.left(later) // for a place, which comes to nothing
				c.await(now)
				c.apply(now)
			}
		})
	})
	r.play(`waits -> 503`)
}

// Uploads are no part of what is in flight while their clients send, not even while a connection is made
// for them.
func TestGateInFlightWithoutStreams(t *testing.T) {
	addr, end := looptest.FullListener(t)
	r := startWith(t, gated(1), "http://"+addr, "EVENT_LOOPS", "1", "TARGET_CONNECT_TIMEOUT", "10m", "TARGET_TIMEOUT",
		"10m", "TARGET_WAIT_TIMEOUT", "10m")
	r.playf(`a POST / Content-Length=1000000000; waiting 1
		metrics upstream_streams=1 gate_in_flight%s=0`, r.Targets.Labels(r.Targets.All()[0]))
	end()
}

// apart returns n addresses whose clients the queue tells apart.
func (r *rig) apart(n int) (list []string) {
	seen := map[uint64]bool{}
	for i := 2; len(list) < n; i++ {
		addr := fmt.Sprintf("127.0.0.%d", i)
		if slot := share.ClientOf(netip.MustParseAddr(addr)).Hash(r.seed) % 512; !seen[slot] {
			seen[slot] = true
			list = append(list, addr)
		}
	}
	return list
}

// The client with fewer places is served next, however long the other one has waited.
func TestWaitQueueClients(t *testing.T) {
	r := serveWith(t, gated(5), holds, "EVENT_LOOPS", "1")
	at := r.apart(3)
	for n, ask := range [][2]string{
		{at[0], "/held/greedy"}, {at[0], "/held/greedy"}, {at[0], "/held/greedy"}, {at[0], "/held/greedy"},
		{at[1], "/held/modest"},
		{at[0], "/greedy"}, {at[2], "/new"}, {at[1], "/modest"},
	} {
		r.playf(`c%[1]d@%[2]s GET %[3]s; waiting %[1]d`, n+1, ask[0], ask[1])
	}
	r.play(`target gets 5; target answers`) // whichever of the five is answered
	if next := testkit.Receive(t, r.targets["target"].asked, "a request"); next == "/greedy" {
		t.Errorf("%s is next", next)
	}
}

// However many tunnels, streams and uploads there are that go at the pace of their clients, and
// however many clients leave before they are answered: others have places, and a gate that learns
// does not count them.
func TestPlacesStayForOthers(t *testing.T) {
	for name, test := range map[string]struct {
		tweak func(c *Config)
		each  int
		asks  int
	}{
		// A request that was sent before its client left holds a place until it takes longer than GATE_WAIT.
		"four places": {func(c *Config) {
			c.Gate = gates.Settings{Mode: gate.On, Wait: 50 * time.Millisecond, Min: 4, Max: 4}
		}, 50, 20},
		"a gate that learns": {func(c *Config) { c.Gate = gates.Settings{Mode: gate.On, Wait: testkit.Timeout, Min: 2} },
			manyPaced(), 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := serveWith(t, test.tweak, holder, "EVENT_LOOPS", "1", "TARGET_MAX_CONNECTIONS", "6000",
				"MAX_CONNECTIONS", "6000", "BODY_BUFFER_BYTES", "1KiB",
				"BODY_MIN_RATE", "0", "BODY_TIMEOUT", "10m", "STREAM_TIMEOUT", "10m", "TARGET_TIMEOUT", "10m")
			r.play(`1000 x other GET / -> 200`)
			for i, h := range holders {
				r.playf(`h%dc*%d %s -> %s`, i, test.each, h.asked, h.begins)
			}
			r.playf(`until upstream_streams=%d
				1000 x other GET / -> 200`, test.each*len(holders))
			for range test.each { // often enough that the queue reserves places, if their number is fixed
				r.playf(`%d x other GET / -> 200`, test.asks)
				r.play(`leaves@127.0.0.2 GET /late; leaves resets`)
			}
			r.play(`metrics shed.gate=0`)
			const most = 64 // few are in flight at a time, but not always as few
			if limit := r.gate().Limit(); limit > most {
				t.Errorf("the limit is %d, want %d at most", limit, most)
			}
		})
	}
}

// With all connections to a target taken a request waits for one as long as
// TARGET_WAIT_TIMEOUT says, behind a gate too: the gate holds nothing back then.
func TestGateLeavesTheWaitForConnectionsAlone(t *testing.T) {
	holding(t, func(c *Config) { c.Gate = gates.Settings{Mode: gate.On, Wait: 0, Min: 1} },
		"TARGET_MAX_CONNECTIONS", "1").play(`
		waits GET /; waiting 2; target answers; held,waits -> 200; metrics shed.gate=0`)
}

// loopOf is the number of the loop that has the client's connection.
func (r *rig) loopOf(c *testkit.Conn) (index int) {
	r.t.Helper()
	index = -1
	r.until("the connection has a loop", func() bool {
		r.loops.each(func(s *loopServer, _ time.Time) {
			s.loop.Each(func(conn *loop.Conn, _ loop.Handler) {
				if conn.Remote().String() == c.LocalAddr().String() {
					index = s.loop.Index()
				}
			})
		})
		return index >= 0
	})
	return index
}

// dialOn connects to a loop.
func (r *rig) dialOn(index int) *testkit.Conn {
	r.t.Helper()
	for {
		c := r.dial()
		if r.loopOf(c) == index {
			return c
		}
	}
}

// Loops share the places of a target. A free place goes to the loop with fewer places, which is
// woken.
func TestLoopsSharePlaces(t *testing.T) {
	var open [2]chan bool // answers requests of a loop
	for i := range open {
		open[i] = make(chan bool, 20)
	}
	r := serveWith(t, gated(6), each(func(c *targetConn, s *seen) {
		await(t, open[strings.Index("01", s.target()[1:])])
		c.echo(s)
	}))
	r.loops.each(func(s *loopServer, _ time.Time) { s.queueLooks = true }) // no loop checks its queue unless called
	has := func(want [2]int) {
		t.Helper()
		r.until("the loops have their places", func() bool {
			var got [2]int
			r.loops.each(func(s *loopServer, _ time.Time) {
				for _, at := range s.targets.Targets() {
					got[s.loop.Index()] += at.Value.pool.Short()
				}
			})
			return got == want
		})
	}
	for n, index := range []int{0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 1} {
		r.playf(`c%[1]d@loop%[2]d GET /%[2]d; waiting %[1]d`, n+1, index)
	}
	has([2]int{6, 0})
	for _, want := range [][2]int{{5, 1}, {4, 2}, {3, 3}, {3, 3}} {
		open[0] <- true
		has(want)
	}
	for range 5 {
		open[0] <- true
		open[1] <- true
	}
	r.play(`c* -> 200`)
	has([2]int{0, 0})
	equal(t, "places that are taken", r.gate().Taken(), 0)
	equal(t, "loops that wait", r.gate().Waiting.Load(), int64(0))
}

// A loop that has ejected the target finds out that it is back although another loop has all
// places.
func TestEjectedLoopProbes(t *testing.T) {
	r := serveWith(t, gated(1), holds)
	r.play(`held@loop0 GET /held; target gets /held; queued@loop0 GET /queued; waiting 2`)
	r.loops.each(func(s *loopServer, now time.Time) {
		if s.loop.Index() == 1 {
			at := s.targets.Targets()[0]
			for range 100 {
				at.Answered(now, at.Epoch(), 503)
			}
			at.Value.note(now)
		}
	})
	r.play(`probe@loop1 GET /probe; target gets /probe; target answers; held,queued,probe -> 200`)
}

// An exchange whose answer becomes a stream gives its place to a waiting request.
func TestWaitQueueIsServedWhenAStreamBegins(t *testing.T) {
	serveWith(t, gated(1), each(func(c *targetConn, s *seen) {
		if s.target() != "/stream" {
			c.echo(s)
			return
		}
		c.hold(s)
		c.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
	}), "EVENT_LOOPS", "1").play(`
		a GET /stream; target gets /stream; waits GET /; waiting 2; target answers; waits -> 200`)
}

// An exchange for which a connection is being made has a place; when its client leaves,
// or the connect fails, the next one has it.
func TestWaitQueueIsServedWhenAConnectFails(t *testing.T) {
	t.Parallel()
	for name, end := range map[string][2]string{
		"its client leaves": {`first resets; line 0`, `second -> 502`}, "it fails": {``, `first,second -> 502`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // the kernel connects again after a second
			addr, connects := looptest.FullListener(t)
			r := startWith(t, gated(1), "http://"+addr, "EVENT_LOOPS", "1", "TARGET_CONNECT_TIMEOUT", "10m",
				"TARGET_TIMEOUT", "10m", "TARGET_WAIT_TIMEOUT", "10m")
			r.play(`first GET /; waiting 1; second GET /; waiting 2`)
			r.play(end[0])
			connects()
			r.play(end[1])
		})
	}
}

// A target that is up again according to checks serves requests that wait for another one.
func TestWaitQueueIsServedByATargetThatIsBack(t *testing.T) {
	t.Parallel() // several checks in a row, each of which may take as long as the interval
	members(t, gated(1), "a b", "TARGET_BALANCE", "p2c", "TARGET_HEALTH_PATH", "/health", "TARGET_HEALTH_INTERVAL", "500ms").play(`
		b health 503; b is down
		held GET /held; waiting 1; a gets /held; waits GET /; waiting 2
		b health 200; waits -> 200 ="b"`)
}

// inQueue waits until so many requests wait for a place at any target.
func (r *rig) inQueue(n int) {
	r.t.Helper()
	r.until(fmt.Sprintf("%d requests are in line", n), func() bool {
		sum := 0
		r.loops.each(func(s *loopServer, _ time.Time) { sum += s.queue.Len() }) // there is one loop
		return sum == n
	})
}

// When the time of an ejection has passed, the target serves requests that wait for another one.
func TestWaitQueueIsServedByATargetThatIsTriedAgain(t *testing.T) {
	t.Parallel() // an ejection takes a second
	r := holdBoth(t, "TARGET_IDLE_TIMEOUT", "1h")
	r.play(`b status 503; b answers`)
	for r.statusOf(r.targets["b"]).Ejections == 0 { // b has the only place
		r.play(`bad GET / -> 503`)
	}
	r.play(`b status 200; waits GET / -> 200 ="b"`)
}

// When the limit reaches the number of connections as many are served as there are
// places. The others wait on where priorities and keys are told apart, and nobody who
// comes later waits for a connection before them.
func TestWaitQueueIsKeptWhenTheLimitIsReached(t *testing.T) {
	r := holding(t, gated(1), "TARGET_MAX_CONNECTIONS", "2")
	r.play(`w1 GET /held; waiting 2; w2 GET /held; waiting 3; w3 GET /held; waiting 4; w4 GET /held; waiting 5`)
	r.loops.each(func(s *loopServer, now time.Time) {
		at := s.targets.Targets()[0].Value
		at.gate.SetLimit(2)
		at.serveNext(now)
	})
	r.play(`target gets /held; line 3; w5 GET /held; waiting 6; line 4`)
	before := r.Traffic()
	time.Sleep(time.Millisecond)
	if d := r.Traffic().Since(before); d.Bound > 0 || d.Taken == 0 {
		t.Errorf("of %d the gate bounds %d, but it is the connections", d.Taken, d.Bound)
	}
	r.play(`target answers 6; target gets 4; w* -> 200`)
}
