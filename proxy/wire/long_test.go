package wire

import (
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/targets/gate"
)

// longKinds are requests that may hold their connections for long because of what their client sends.
var longKinds = map[string]string{
	"upgrades": "GET /held HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
	"logins":   "GET /held HTTP/1.1\r\nHost: x\r\nAuthorization: Negotiate abc\r\n\r\n",
	"uploads":  "POST /held HTTP/1.1\r\nHost: x\r\nContent-Length: 2000\r\n\r\n" + strings.Repeat("a", 2000),
	"chunked": "POST /held HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" +
		strings.Repeat("a", 2000) + "\r\n0\r\n\r\n",
}

// A target that treats such a request as any other works on no more of them than there are places, and
// they wait in the line like others. Their connections are used again.
func TestLongRequestsNeedPlaces(t *testing.T) {
	const places, all = 3, 12
	for name, text := range longKinds {
		t.Run(name, func(t *testing.T) {
			b := newBarrier()
			r := startWith(t, gated(places), newTarget(t, b.script).url(), "EVENT_LOOPS", "1", "BODY_BUFFER_BYTES", "1KiB")
			var conns []*testkit.Conn
			for range all {
				c := r.dial()
				c.Send(text)
				conns = append(conns, c)
			}
			for range places {
				b.next(t)
			}
			r.inLine(all - places)
			g := r.loops.gate(r.Targets.All()[0])
			if n := g.InFlight(); n != places || len(b.asked) > 0 {
				t.Errorf("%d are in flight, %d too many at the target", n, len(b.asked))
			}
			for range all {
				b.open <- true
			}
			for _, c := range conns {
				c.Status(200)
				c.Close()
			}
			checkBaseLine(r)
			if g.Taken() != 0 || r.lines.Taken() != 0 {
				t.Errorf("in the end %d places are taken, %d in the lines", g.Taken(), r.lines.Taken())
			}
			r.samplesAre("ratelimiter_upstream_streams", 0)
		})
	}
}

// Without a place they are refused like others. The client may go on with its connection.
func TestLongRequestsAreShed(t *testing.T) {
	for name, text := range longKinds {
		t.Run(name, func(t *testing.T) {
			r, b, held := holding(t, gatedFor(5*time.Millisecond), "BODY_BUFFER_BYTES", "1KiB")
			c := r.dial()
			c.Send(text)
			if res, body := c.Status(503); res.Header.Get("X-Weir-Reason") != "gate" || res.Close {
				t.Errorf("answered %v %q", res.Header, body)
			}
			b.open <- true
			held.Status(200)
			c.Ask(get, 200)
			c.Close()
			held.Close()
			checkBaseLine(r)
		})
	}
}

// Every request on a private connection needs a place, too. One that is refused does not end the
// client's login.
func TestPrivateRequestsNeedPlaces(t *testing.T) {
	const places, all = 3, 8
	b := newBarrier()
	target := newTarget(t, b.script)
	r := startWith(t, gated(places), target.url(), "EVENT_LOOPS", "1")
	var conns []*testkit.Conn
	for range all {
		c := r.dial()
		c.Ask(login("Negotiate abc"), 200)
		b.next(t)
		conns = append(conns, c)
	}
	for _, c := range conns {
		c.Send(request("/held"))
	}
	for range places {
		b.next(t)
	}
	r.inLine(all - places)
	r.until("between requests they are streams",
		func() bool { return r.samples()["ratelimiter_upstream_streams"] == all-places })
	leaves := conns[len(conns)-1]
	conns = conns[:len(conns)-1]
	leaves.Reset()
	r.inLine(all - places - 1)
	for range all - 1 {
		b.open <- true
	}
	for _, c := range conns {
		c.Status(200)
	}
	if n := target.opened.Load(); n != all {
		t.Errorf("%d connections to the target, want %d", n, all)
	}
	for _, c := range conns {
		c.Close()
	}
	checkBaseLine(r)
}

func TestPrivateConnectionOutlivesRefusals(t *testing.T) {
	r, b, held := holding(t, gatedFor(5*time.Millisecond))
	b.open <- true
	held.Status(200)
	private := r.dial()
	private.Ask(login("Negotiate abc"), 200)
	b.next(t)
	opened := b.target.opened.Load()
	held.Send(request("/held"))
	b.next(t)
	private.Ask(get, 503)
	b.open <- true
	held.Status(200)
	private.Ask(get, 200)
	b.next(t)
	if n := b.target.opened.Load(); n > opened+1 {
		t.Errorf("%d connections to the target were opened", n-opened)
	}
	r.until("it is kept", func() bool { return r.samples()["ratelimiter_upstream_streams"] == 1 })
}

// An upload is served when its own target has a place, whichever that is.
func TestUploadStaysWithItsTarget(t *testing.T) {
	r, a, b, held := holdBoth(t)
	c := r.dial()
	c.Send(strings.Replace(longKinds["uploads"], "/held", "/api", 1))
	r.inLine(1)
	a.gate.open <- true
	b.gate.open <- true
	c.Status(200)
	for _, c := range held {
		c.Status(200)
	}
}

// gatedFor gives each target one place, for which requests wait for a limited time.
func gatedFor(wait time.Duration) func(c *Config) {
	return func(c *Config) {
		gated(1)(c)
		c.Gate.Mode, c.Gate.Wait = gate.On, wait
	}
}
