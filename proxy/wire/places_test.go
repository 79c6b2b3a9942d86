package wire

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/net/loop"
	"weir/internal/net/loop/looptest"
	"weir/internal/test/testkit"
)

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
	r.loops.each(func(s *loopServer, _ time.Time) { s.lineLooks = true }) // nobody looks after a line but who is told to
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
				at.Answered(now, at.Mark(), 503)
			}
			at.Value.note(now)
		}
	})
	r.play(`probe@loop1 GET /probe; target gets /probe; target answers; held,queued,probe -> 200`)
}

// An exchange whose answer becomes a stream gives its place to a waiting request.
func TestLineIsServedWhenAStreamBegins(t *testing.T) {
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
func TestLineIsServedWhenAConnectComesToNothing(t *testing.T) {
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
func TestLineIsServedByATargetThatIsBack(t *testing.T) {
	t.Parallel() // several checks in a row, each of which may take as long as the interval
	members(t, gated(1), "a b", "TARGET_HEALTH_PATH", "/health", "TARGET_HEALTH_INTERVAL", "500ms").play(`
		b health 503; b is down
		held GET /held; waiting 1; a gets /held; waits GET /; waiting 2
		b health 200; waits -> 200 ="b"`)
}

// inLine waits until so many requests wait for a place at any target.
func (r *rig) inLine(n int) {
	r.t.Helper()
	r.until(fmt.Sprintf("%d requests are in line", n), func() bool {
		sum := 0
		r.loops.each(func(s *loopServer, _ time.Time) { sum += s.line.Len() }) // there is one loop
		return sum == n
	})
}

// When the time of an ejection has passed, the target serves requests that wait for another one.
func TestLineIsServedByATargetThatIsTriedAgain(t *testing.T) {
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
func TestLineIsKeptWhenTheLimitIsReached(t *testing.T) {
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
