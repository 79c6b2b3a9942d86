package wire

import (
	"fmt"
	"strconv"
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
	target := newTarget(t, each(func(c *targetConn, s *seen) {
		await(t, open[strings.Index("01", s.target()[1:])])
		c.echo(s)
	}))
	r := startWith(t, gated(6), target.url())
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
	var held []*testkit.Conn
	ask := func(index int) {
		c := r.dialOn(index)
		c.Send(request("/" + strconv.Itoa(index)))
		held = append(held, c)
		r.waiting(len(held))
	}
	for range 6 {
		ask(0)
	}
	for range 3 {
		ask(0)
		ask(1)
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
	for _, c := range held {
		c.Status(200)
	}
	has([2]int{0, 0})
	if g := r.loops.gate(r.Targets.All()[0]); g.Taken() != 0 || g.Waiting.Load() != 0 {
		t.Errorf("in the end %d places are taken, and %d wait", g.Taken(), g.Waiting.Load())
	}
}

// A loop that has ejected the target finds out that it is back although another loop has all
// places.
func TestEjectedLoopProbes(t *testing.T) {
	b := newBarrier()
	r := startWith(t, gated(1), newTarget(t, b.script).url(), "EVENT_LOOPS", "2")
	held := r.dialOn(0)
	held.Send(request("/held"))
	b.next(t)
	queued := r.dialOn(0)
	queued.Send(request("/queued"))
	r.waiting(2)
	r.loops.each(func(s *loopServer, now time.Time) {
		if s.loop.Index() == 1 {
			at := s.targets.Targets()[0]
			for range 100 {
				at.Answered(now, at.Mark(), 503)
			}
			at.Value.note(now)
		}
	})
	probe := r.dialOn(1)
	probe.Send(request("/probe"))
	b.next(t)
	for range 3 {
		b.open <- true
	}
	for _, c := range []*testkit.Conn{held, queued, probe} {
		c.Status(200)
	}
}

// An exchange whose answer becomes a stream gives its place to a waiting request.
func TestLineIsServedWhenAStreamBegins(t *testing.T) {
	asked, open := make(chan bool), make(chan bool)
	target := newTarget(t, each(func(c *targetConn, s *seen) {
		if s.target() == "/stream" {
			asked <- true
			<-open
			c.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
			return
		}
		c.say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	}))
	r := startWith(t, gated(1), target.url(), "EVENT_LOOPS", "1")
	r.lineUp(0, request("/stream"))
	await(t, asked)
	waits := r.lineUp(1, get)
	open <- true
	waits.Status(200)
}

// An exchange for which a connection is being made has a place; when its client leaves,
// or the connect fails, the next one has it.
func TestLineIsServedWhenAConnectComesToNothing(t *testing.T) {
	t.Parallel()
	for name, leaves := range map[string]bool{"its client leaves": true, "it fails": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // the kernel connects again after a second
			addr, end := looptest.FullListener(t)
			r := startWith(t, gated(1), "http://"+addr, "EVENT_LOOPS", "1", "TARGET_CONNECT_TIMEOUT", "10m",
				"TARGET_TIMEOUT", "10m", "TARGET_WAIT_TIMEOUT", "10m")
			first := r.lineUp(0, request("/first"))
			second := r.lineUp(1, request("/second"))
			if leaves {
				first.Reset()
				r.inLine(0)
			}
			end()
			if !leaves {
				first.Status(502)
			}
			second.Status(502)
		})
	}
}

// A target that is up again according to checks serves requests that wait for another one.
func TestLineIsServedByATargetThatIsBack(t *testing.T) {
	t.Parallel() // several checks in a row, each of which may take as long as the interval
	a, b := newMember(t, "a"), newMember(t, "b")
	b.health.Store(503)
	r := startWith(t, gated(1), a.url()+","+b.url(), "EVENT_LOOPS", "1", "TARGET_HEALTH_PATH", "/health",
		"TARGET_HEALTH_INTERVAL", "500ms")
	r.until("b is down", func() bool { return r.Targets.Status()[1].Status == "down" && r.known(b.url(), "down") })
	r.lineUp(0, request("/held"))
	a.gate.next(t)
	waits := r.lineUp(1, get)
	b.health.Store(200)
	if _, body := waits.Status(200); body != "b" {
		t.Errorf("answered by %s", body)
	}
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
	a, b := newMember(t, "a"), newMember(t, "b")
	r := startWith(t, gated(1), a.url()+","+b.url(), "EVENT_LOOPS", "1", "TARGET_IDLE_TIMEOUT", "1h")
	for n := range 2 {
		r.lineUp(n, request("/held"))
	}
	a.gate.next(t)
	b.gate.next(t)
	b.status.Store(503)
	b.gate.open <- true
	bad := r.dial()
	for r.statusOf(b).Ejections == 0 { // b has the only place
		bad.Ask(get, 503)
	}
	b.status.Store(200)
	waits := r.dial()
	waits.Send(get)
	if _, body := waits.Status(200); body != "b" {
		t.Errorf("answered by %s", body)
	}
}

// When the limit reaches the number of connections as many are served as there are
// places. The others wait on where priorities and keys are told apart, and nobody who
// comes later waits for a connection before them.
func TestLineIsKeptWhenTheLimitIsReached(t *testing.T) {
	r, b, _ := holding(t, gated(1), "TARGET_MAX_CONNECTIONS", "2")
	var waits []*testkit.Conn
	for n := 1; n < 5; n++ {
		waits = append(waits, r.lineUp(n, request("/held")))
	}
	r.loops.each(func(s *loopServer, now time.Time) {
		at := s.targets.Targets()[0].Value
		at.gate.SetLimit(2)
		at.serveNext(now)
	})
	b.next(t)
	r.inLine(3)
	waits = append(waits, r.lineUp(5, request("/held")))
	r.inLine(4)
	before := r.Traffic()
	time.Sleep(time.Millisecond)
	if d := r.Traffic().Since(before); d.Bound > 0 || d.Taken == 0 {
		t.Errorf("of %d the gate bounds %d, but it is the connections", d.Taken, d.Bound)
	}
	go func() {
		for range 6 {
			b.open <- true
		}
	}()
	for range 4 {
		b.next(t)
	}
	for _, c := range waits {
		c.Status(200)
	}
}
