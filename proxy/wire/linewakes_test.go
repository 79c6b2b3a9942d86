package wire

import (
	"fmt"
	"testing"
	"time"

	"weir/internal/loop/looptest"
)

// An exchange whose answer becomes a stream leaves its place to who waits.
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
	waits.status(200)
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
				first.reset()
				r.inLine(0)
			}
			end()
			if !leaves {
				first.status(502)
			}
			second.status(502)
		})
	}
}

// A target that checks find well again serves who waits for another.
func TestLineIsServedByATargetThatIsBack(t *testing.T) {
	a, b := newMember(t, "a"), newMember(t, "b")
	b.health.Store(503)
	r := startWith(t, gated, a.url()+","+b.url(), "EVENT_LOOPS", "1", "TARGET_HEALTH_PATH", "/health", "TARGET_HEALTH_INTERVAL", "10ms")
	r.until("b is down", func() bool { return r.Targets()[1].Status == "down" })
	r.lineUp(0, request("/held"))
	a.gate.next(t)
	waits := r.lineUp(1, get)
	b.health.Store(200)
	if _, body := waits.status(200); body != "b" {
		t.Errorf("answered by %s", body)
	}
}

// inLine waits until so many requests wait for a place at any target.
func (r *rig) inLine(n int) {
	r.t.Helper()
	r.until(fmt.Sprintf("%d requests are in line", n), func() bool {
		sum := 0
		r.onLoops(func(s *side, _ time.Time) { sum += s.line.Len() }) // there is one loop
		return sum == n
	})
}
