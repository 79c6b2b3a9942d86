package wire

import (
	"fmt"
	"testing"
	"time"

	"weir/internal/loop/looptest"
	"weir/internal/testkit"
)

// An exchange whose answer becomes a stream gives its place to a waiting request.
func TestLineIsServedWhenAStreamBegins(t *testing.T) {
	asked, open := make(chan bool), make(chan bool)
	target := newTarget(t, func(c *targetConn) {
		for s := c.next(); s != nil; s = c.next() {
			if s.target() == "/stream" {
				asked <- true
				<-open
				c.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
				continue
			}
			c.say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	})
	r := startWith(t, gated, target.url(), "EVENT_LOOPS", "1")
	r.lineUp(0, request("/stream"))
	await(t, asked)
	waits := r.lineUp(1, get)
	open <- true
	waits.Status(200)
}

// An exchange for which a connection is being made has a place; when its client leaves,
// or the connect fails, the next one has it.
func TestLineIsServedWhenAConnectComesToNothing(t *testing.T) {
	for name, leaves := range map[string]bool{"its client leaves": true, "it fails": false} {
		t.Run(name, func(t *testing.T) {
			addr, end := looptest.FullListener(t)
			r := startWith(t, gated, "http://"+addr, "EVENT_LOOPS", "1", "TARGET_CONNECT_TIMEOUT", "10m", "TARGET_TIMEOUT", "10m", "TARGET_WAIT_TIMEOUT", "10m")
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
	r := startWith(t, gated, a.url()+","+b.url(), "EVENT_LOOPS", "1", "TARGET_HEALTH_PATH", "/health", "TARGET_HEALTH_INTERVAL", "500ms")
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
		r.sides.each(func(s *side, _ time.Time) { sum += s.line.Len() }) // there is one loop
		return sum == n
	})
}

// When the time of an ejection has passed, the target serves requests that wait for another one.
func TestLineIsServedByATargetThatIsTriedAgain(t *testing.T) {
	a, b := newMember(t, "a"), newMember(t, "b")
	r := startWith(t, gated, a.url()+","+b.url(), "EVENT_LOOPS", "1", "TARGET_IDLE_TIMEOUT", "1h")
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
	b := newBarrier()
	r := startWith(t, gated, newTarget(t, b.script).url(), "EVENT_LOOPS", "1", "TARGET_MAX_CONNECTIONS", "2")
	r.lineUp(0, request("/held"))
	b.next(t)
	var waits []*testkit.Conn
	for n := 1; n < 5; n++ {
		waits = append(waits, r.lineUp(n, request("/held")))
	}
	r.sides.each(func(s *side, now time.Time) {
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
