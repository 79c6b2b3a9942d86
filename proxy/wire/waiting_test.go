package wire

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// barrier is a target whose answers wait: each request that comes in shows on
// asked, each value put into open lets one answer out.
type barrier struct {
	target *fakeTarget // of holding
	asked  chan string
	open   chan bool
}

func newBarrier() *barrier {
	return &barrier{asked: make(chan string, 1000), open: make(chan bool, 1000)}
}

func (b *barrier) script(c *targetConn) {
	for s := c.next(); s != nil; s = c.next() {
		b.asked <- s.target()
		if strings.HasPrefix(s.target(), "/held") {
			b.pass(c)
		}
		c.echo(s)
	}
}

// holding runs a proxy on one loop, unless env says otherwise, before a barrier that
// holds a request of held.
func holding(t *testing.T, tweak func(c *Config), env ...string) (r *rig, b *barrier, held *testkit.Conn) {
	t.Helper()
	b = newBarrier()
	b.target = newTarget(t, b.script)
	r = startWith(t, tweak, b.target.url(), append(env, "EVENT_LOOPS", "1")...)
	held = r.dial()
	held.Send(request("/held"))
	b.next(t)
	return r, b, held
}

// frees answers the held request while another one waits, which is then sent and answered. It
// returns that one's connection.
func (b *barrier) frees(r *rig, held *testkit.Conn) *testkit.Conn {
	waits := r.dial()
	waits.Send(request("/waits"))
	r.waiting(2)
	b.open <- true
	held.Status(200)
	waits.Status(200)
	return waits
}

// asSet changes nothing.
func asSet(*Config) {}

// pass waits until the gate opens, or the test is over.
func (b *barrier) pass(c *targetConn) {
	select {
	case <-b.open:
	case <-c.t.Context().Done():
	}
}

// next waits for a request to arrive at the target.
func (b *barrier) next(t *testing.T) string {
	t.Helper()
	select {
	case target := <-b.asked:
		return target
	case <-time.After(testkit.Patience):
		t.Fatal("no request reaches the target")
		return ""
	}
}

func request(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n" }

// waiting waits until so many requests are busy at the targets or wait for them.
func (r *rig) waiting(n int) {
	r.t.Helper()
	r.until(fmt.Sprintf("%d requests are at the targets or wait for them", n), func() bool {
		sum := 0
		all := gather(r.loops, func(s *loopServer, _ time.Time) int {
			n := s.line.Len()
			for _, at := range s.targets.Targets() {
				n += at.Value.pool.InFlight()
			}
			return n
		})
		for _, n := range all {
			sum += n
		}
		return len(all) == len(r.loops) && sum == n
	})
}

// With one connection to the target allowed, other requests wait for it, first come, first
// served, and each that leaves makes room.
func TestTargetConnectionsMax(t *testing.T) {
	g := newBarrier()
	target := newTarget(t, g.script)
	r := start(t, target.url(), "EVENT_LOOPS", "1", "TARGET_MAX_CONNECTIONS", "1")
	var conns []*testkit.Conn
	for i := range 4 {
		conn := r.dial()
		conn.Send(request(fmt.Sprintf("/held/%d", i)))
		conns = append(conns, conn)
		r.waiting(i + 1)
	}
	if first := g.next(t); first != "/held/0" {
		t.Errorf("first served: %s", first)
	}
	conns[1].Reset()
	r.waiting(3)
	for i, want := range []string{"/held/0", "/held/2", "/held/3"} {
		g.open <- true
		conn := []*testkit.Conn{conns[0], conns[2], conns[3]}[i]
		if _, body := conn.Status(200); body != echoOf("GET", want, "") {
			t.Errorf("answered %q, asked for %s", body, want)
		}
		if i < 2 {
			if next := g.next(t); next != []string{"/held/2", "/held/3"}[i] {
				t.Errorf("served next: %s", next)
			}
		}
	}
	if n := target.opened.Load(); n != 1 {
		t.Errorf("%d connections to the target", n)
	}
}

// A request that has waited for a connection longer than TARGET_WAIT_TIMEOUT is answered 503.
func TestWaitingTimesOut(t *testing.T) {
	t.Parallel() // waits for the timeout
	// which a connect may take
	r, g, first := holding(t, asSet, "TARGET_MAX_CONNECTIONS", "1", "TARGET_WAIT_TIMEOUT", "2s")
	second := r.dial()
	second.Send(request("/held"))
	if res, body := second.Status(503); res.Header.Get("Retry-After") != "1" ||
		!strings.Contains(body, "all connections to the target that this client may use are taken") {
		t.Errorf("answered %v %q", res.Header, body)
	}
	r.waiting(1)
	g.open <- true
	first.Status(200)
	second.Ask(get, 200)
	r.samplesAre(`ratelimiter_upstream_shed_total{kind="busy"}`, 1, `ratelimiter_upstream_errors_total{kind="timeout"}`, 0)
}

// The line is bounded: further requests are refused with 503, and so is the next request on the
// same connection.
func TestWaitersMax(t *testing.T) {
	r, g, first := holding(t, func(c *Config) { c.WaitersPerLoop = 2 }, "TARGET_MAX_CONNECTIONS", "1")
	var inLine []*testkit.Conn
	for i := range 2 {
		inLine = append(inLine, r.dial())
		inLine[i].Send(request("/line"))
	}
	r.waiting(3)
	late := r.dial()
	late.Send(request("/late") + request("/later"))
	for range 2 {
		res, body := late.Status(503)
		if res.Header.Get("Retry-After") != "1" || res.Close ||
			!strings.Contains(body, "all connections to the target that this client may use are taken") {
			t.Errorf("answered %v %q", res.Header, body)
		}
	}
	g.open <- true
	first.Status(200)
	for _, conn := range inLine {
		conn.Status(200)
	}
	late.Ask(get, 200)
	r.samplesAre(`ratelimiter_upstream_shed_total{kind="busy"}`, 2)
}

// A client that leaves while the target works is counted. The connection to the target is used
// again when the target has answered.
func TestClientLeaves(t *testing.T) {
	r, g, conn := holding(t, asSet)
	conn.Reset()
	r.noClients()
	r.waiting(1)
	g.open <- true
	r.waiting(0)
	conn = r.dial()
	conn.Ask(get, 200)
	conn.Close()
	checkBaseLine(r)
	r.samplesAre("ratelimiter_requests_abandoned_total", 1, `ratelimiter_requests_total{decision="forwarded"}`, 2)
	if n := g.target.opened.Load(); n != 1 {
		t.Errorf("%d connections to the target", n)
	}
}

// A target that crashes: what is at it becomes 502, what is elsewhere goes on,
// and when it is back the same clients are served again.
func TestTargetRestart(t *testing.T) {
	g := newBarrier()
	crashing := newTarget(t, g.script)
	r := start(t, crashing.url())
	var conns []*testkit.Conn
	for i := range 8 {
		conns = append(conns, r.dial())
		conns[i].Send(request("/held"))
		g.next(t)
	}
	crashing.crash()
	for _, conn := range conns {
		conn.Status(502)
		conn.Ask(get, 502)
	}
	close(g.open)
	crashing.ended.Wait()
	crashing.start()
	for i, conn := range conns {
		path := fmt.Sprintf("/back/%d", i)
		if body := conn.Ask(request(path), 200); body != echoOf("GET", path, "") {
			t.Errorf("answered %q", body)
		}
	}
}

// One exchange is cut by the target, another on its own connection is not
// bothered.
func TestNeighbourOfResetIsServed(t *testing.T) {
	g := newBarrier()
	target := newTarget(t, func(c *targetConn) {
		for s := c.next(); s != nil; s = c.next() {
			g.asked <- s.target()
			if s.target() == "/reset" {
				testkit.Reset(c.Conn)
				return
			}
			g.pass(c)
			c.echo(s)
		}
	})
	r := start(t, target.url())
	neighbour, conn := r.dial(), r.dial()
	neighbour.Send(request("/held"))
	g.next(t)
	for range 5 {
		conn.Ask(request("/reset"), 502)
	}
	g.open <- true
	if _, body := neighbour.Status(200); body != echoOf("GET", "/held", "") {
		t.Errorf("answered %q", body)
	}
}
