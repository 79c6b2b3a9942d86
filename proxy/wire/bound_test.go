package wire

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// A request that waits for a place at the target of its client's private connection, which closes
// meanwhile, gets a place like others.
func TestPrivateConnectionEndsWhileItsRequestWaits(t *testing.T) {
	b, hangup := newBarrier(), make(chan bool)
	target := newTarget(t, func(c *targetConn) {
		for s := c.next(); s != nil; s = c.next() {
			b.asked <- s.target()
			if s.target() == "/held" {
				b.pass(c)
			}
			c.echo(s)
			if s.target() == "/api" {
				await(t, hangup)
				return
			}
		}
	})
	r := startWith(t, gated(1), target.url(), "EVENT_LOOPS", "1")
	private := r.dial()
	private.Ask(login("Negotiate abc"), 200)
	b.next(t)
	held := r.dial()
	held.Send(request("/held"))
	b.next(t)
	private.Send(request("/x"))
	r.inLine(1)
	close(hangup)
	r.until("the private connection is closed", func() bool { return r.samples()["ratelimiter_upstream_streams"] == 0 })
	r.inLine(1)
	b.open <- true
	held.Status(200)
	private.Status(200)
	private.Close()
	held.Close()
	checkBaseLine(r)
}

// holdBoth runs two targets with one place each, and holds both places.
func holdBoth(t *testing.T) (r *rig, a, b *fakeTarget, held []*testkit.Conn) {
	t.Helper()
	a, b = newMember(t, "a"), newMember(t, "b")
	r = startWith(t, gated(1), a.url()+","+b.url(), "EVENT_LOOPS", "1", "BODY_BUFFER_BYTES", "1KiB")
	for n := range 2 {
		held = append(held, r.lineUp(n, request("/held")))
	}
	a.gate.next(t)
	b.gate.next(t)
	return r, a, b, held
}

// Requests on private connections to a target wait for places at that one, however many another has.
// Meanwhile others get places at the latter.
func TestPrivateRequestsWaitForTheirOwnTarget(t *testing.T) {
	const all = 8
	r, a, b, held := holdBoth(t)
	a.gate.open <- true
	r.until("a has a place", func() bool { return a.served.Load() == 1 })
	var conns []*testkit.Conn
	for range all {
		c := r.dial()
		if body := c.Ask(login("Negotiate abc"), 200); body != "a" {
			t.Fatalf("%q has answered", body)
		}
		conns = append(conns, c)
	}
	b.gate.open <- true
	for _, c := range held {
		c.Status(200)
	}
	for _, c := range conns {
		c.Send(request("/held"))
	}
	a.gate.next(t)
	r.until("they wait for a", func() bool {
		parked := 0
		r.loops.each(func(s *loopServer, _ time.Time) { parked += s.parked })
		return parked == all-1
	})
	other := r.dial()
	if body := other.Ask(get, 200); body != "b" {
		t.Errorf("%q has answered, which has no place", body)
	}
	conns[all-1].Reset()
	for range all - 2 {
		a.gate.open <- true
		a.gate.next(t)
		if n := len(a.gate.asked); n > 0 {
			t.Fatalf("%d too many are at the target", n)
		}
	}
	a.gate.open <- true
	for _, c := range conns[:all-1] {
		c.Status(200)
		c.Close()
	}
	for _, c := range append(held, other) {
		c.Close()
	}
	checkBaseLine(r)
}

// An upload needs no other connection than its own.
func TestUploadNeedsOneConnection(t *testing.T) {
	b := newBarrier()
	// one on each loop
	r := startWith(t, gated(1), newTarget(t, b.script).url(), "TARGET_MAX_CONNECTIONS", "2", "BODY_BUFFER_BYTES", "1KiB")
	c := r.dial()
	for range 2 {
		c.Send(longKinds["uploads"])
		b.next(t)
		b.open <- true
		c.Status(200)
	}
}

// Neither do requests on private connections, also when they have waited for places.
func TestPrivateRequestsNeedOneConnection(t *testing.T) {
	b := newBarrier()
	r := startWith(t, gated(3), newTarget(t, b.script).url(), "EVENT_LOOPS", "1", "TARGET_MAX_CONNECTIONS", "4",
		"TARGET_STREAM_SHARE", "0.5")
	var private, held []*testkit.Conn
	for range 2 {
		c := r.dial()
		c.Ask(login("Negotiate abc"), 200)
		b.next(t)
		private = append(private, c)
	}
	for range 2 {
		c := r.dial()
		c.Send(request("/held"))
		b.next(t)
		held = append(held, c)
	}
	for _, c := range private { // there are two places, with those of two streams, and no connection
		c.Send(request("/held"))
	}
	b.next(t)
	r.inLine(1)
	others := r.dial()
	others.Send(strings.Replace(get, "/api", "/held", 1))
	r.inLine(2)
	b.open <- true
	b.next(t)
	for range 4 {
		b.open <- true
	}
	for _, c := range append(append(private, held...), others) {
		c.Status(200)
	}
}

// The gate learns from the answers to uploads that have waited for places: they take as long as others.
func TestGateLearnsFromUploads(t *testing.T) {
	b := newBarrier()
	r := startWith(t, gated(16), newTarget(t, b.script).url(), "EVENT_LOOPS", "1", "BODY_BUFFER_BYTES", "1KiB")
	c := r.dial()
	for range 12 { // it knows nothing before the eighth
		c.Send(strings.Replace(longKinds["uploads"], "/held", "/api", 1))
		b.next(t)
		c.Status(200)
	}
	if look := r.loops.gate(r.Targets.All()[0]).Look(); look.Median == 0 {
		t.Errorf("after twelve answers the gate is %+v", look)
	}
}

// A target is to blame when it closes the connections of uploads that wait for places with their last
// pieces, but not when it does not answer them.
func TestHealthWhileUploadsWait(t *testing.T) {
	const uploads = 6
	for name, closes := range map[string]bool{"closed": true, "not answered": false} {
		t.Run(name, func(t *testing.T) {
			b, hangup, first := newBarrier(), make(chan bool), atomic.Bool{}
			target := newTarget(t, func(c *targetConn) {
				if !first.Swap(true) {
					b.asked <- c.next().target()
					b.pass(c)
					c.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na")
					c.silence()
					return
				}
				_, _ = c.Read(make([]byte, 1))
				await(t, hangup)
			})
			timeout, status := testkit.Patience.String(), 502
			if !closes {
				timeout, status = "1s", 503
			}
			r := startWith(t, gated(1), target.url(), "EVENT_LOOPS", "1", "BODY_BUFFER_BYTES", "1KiB", "TARGET_TIMEOUT", timeout)
			r.dial().Send(request("/held"))
			b.next(t)
			var conns []*testkit.Conn
			for range uploads {
				c := r.dial()
				c.Send(longKinds["uploads"])
				conns = append(conns, c)
			}
			r.inLine(uploads)
			b.open <- true // the held request outlasts the uploads
			if closes {
				close(hangup)
			}
			for _, c := range conns {
				c.Status(status)
			}
			if st := r.Targets.Status()[0]; st.Ejections > 0 != closes {
				t.Errorf("the target is %+v", st)
			}
		})
	}
}
