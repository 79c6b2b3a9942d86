package wire

import (
	"strings"
	"testing"

	"weir/internal/test/testkit"
)

// holders are the ways to hold a connection to the target for long. A caller
// whose exchange has taken its connection is past begin.
var holders = []struct {
	name  string
	asked string
	begin func(c *testkit.Conn)
}{
	{"tunnels", "GET /tunnel HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
		func(c *testkit.Conn) { reads(c, "HTTP/1.1 101 ") }},
	{"answers without a length", request("/stream"), func(c *testkit.Conn) { reads(c, "HTTP/1.1 200 ") }},
	{"large answers", request("/large"), func(c *testkit.Conn) { reads(c, "HTTP/1.1 200 ") }},
	{"uploads", "POST /upload HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 100000\r\n\r\n",
		func(c *testkit.Conn) { reads(c, "HTTP/1.1 100 ") }},
}

// reads fails unless what comes next begins with the text.
func reads(c *testkit.Conn, text string) {
	c.T.Helper()
	if got, err := c.In.Peek(len(text)); err != nil || string(got) != text {
		c.T.Errorf("answered %q, %v, want %q", got, err, text)
	}
}

// holder answers as asked, and then holds the connection.
func holder(c *targetConn) {
	for s := c.next(); s != nil; s = c.next() {
		switch s.target() {
		case "/tunnel":
			c.say("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
		case "/stream":
			c.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n800\r\n" + strings.Repeat("a", 0x800) + "\r\n")
		case "/large":
			c.say("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("a", 2000))
		case "/late":
		default:
			c.echo(s)
			continue
		}
		c.silence()
	}
}

// One client cannot take all places for tunnels and streams: what it leaves is for others.
func TestStreamsShareOfOneClient(t *testing.T) {
	for _, test := range holders {
		t.Run(test.name, func(t *testing.T) {
			r := start(t, newTarget(t, holder).url(), "EVENT_LOOPS", "1", "TARGET_MAX_CONNECTIONS", "20",
				"TARGET_STREAM_SHARE", "0.8",
				"BODY_BUFFER_BYTES", "1KiB", "TRUSTED_PROXIES", "127.0.0.9/32")
			const most, left = 16, 2
			taken := 0
			take := func(ip, field string) {
				conn := r.dialFrom(ip)
				conn.Send(strings.Replace(test.asked, "\r\n\r\n", "\r\n"+field+"\r\n", 1))
				test.begin(conn)
				taken++
				r.until("it has a place", func() bool { return r.samples()["ratelimiter_upstream_streams"] == float64(taken) })
			}
			for range most - left {
				take("127.0.0.2", "")
			}
			more := r.dialFrom("127.0.0.2")
			more.Send(test.asked)
			if test.name == "uploads" {
				reads(more, "HTTP/1.1 100 ")
				more.In.Discard(len("HTTP/1.1 100 Continue\r\n\r\n"))
			}
			status, counted := 503, `ratelimiter_upstream_shed_total{kind="streams"}`
			if strings.Contains(test.name, "answers") { // the target has executed the request
				status, counted = 502, `ratelimiter_upstream_errors_total{kind="unstreamed"}`
			}
			if _, body := more.Status(status); !strings.Contains(body, "that may carry") {
				t.Errorf("one more of the client is answered %q", body)
			}
			take("127.0.0.9", "X-Forwarded-For: 192.0.2.1\r\n")
			take("127.0.0.9", "X-Forwarded-For: 192.0.2.2\r\n")
			r.samplesAre(counted, 1, "ratelimiter_upstream_streams", most)
		})
	}
}

// Tunnels and streams take a share of the connections to a target, and are
// refused beyond it; the rest stays for short exchanges. What ends gives its
// place back.
func TestShareStaysForShortExchanges(t *testing.T) {
	for _, test := range holders {
		t.Run(test.name, func(t *testing.T) {
			r := start(t, newTarget(t, holder).url(), "EVENT_LOOPS", "1", "TARGET_MAX_CONNECTIONS", "4",
				"TARGET_STREAM_SHARE", "0.75",
				"BODY_BUFFER_BYTES", "1KiB")
			hold := func() *testkit.Conn {
				conn := r.dial()
				conn.Send(test.asked)
				test.begin(conn)
				return conn
			}
			streams := func(n float64) func() bool {
				return func() bool { return r.samples()["ratelimiter_upstream_streams"] == n }
			}
			held := []*testkit.Conn{hold(), hold(), hold()}
			r.until("three hold a connection", streams(3))
			late := r.dial()
			late.Send(test.asked)
			if test.name == "uploads" {
				reads(late, "HTTP/1.1 100 ")
				late.In.Discard(len("HTTP/1.1 100 Continue\r\n\r\n"))
			}
			status, again, counted := 503, "1", `ratelimiter_upstream_shed_total{kind="streams"}`
			if strings.Contains(test.name, "answers") {
				// the target has executed the request
				status, again, counted = 502, "", `ratelimiter_upstream_errors_total{kind="unstreamed"}`
			}
			if res, body := late.Status(status); res.Header.Get("Retry-After") != again ||
				!strings.Contains(body, "that may carry") {
				t.Errorf("the fourth is answered %v %q", res.Header, body)
			}
			for range 3 {
				r.dial().Ask(get, 200)
			}
			r.samplesAre(counted, 1, "ratelimiter_upstream_streams", 3)
			for _, conn := range held {
				conn.Reset()
			}
			r.until("all have given their places back", streams(0))
			hold()
		})
	}
}

// One client cannot take all connections to a target with slow requests, whatever their number:
// requests of others are answered meanwhile. The gate, which would limit all of them, is off.
func TestConnectionsToTargetShareOfOneClient(t *testing.T) {
	b := newBarrier()
	r := start(t, newTarget(t, b.script).url(), "EVENT_LOOPS", "1", "TARGET_MAX_CONNECTIONS", "16", "GATE", "off",
		"TRUSTED_PROXIES", "127.0.0.9/32")
	const most, left, slow = 16, 2, 40
	var conns []*testkit.Conn
	for range slow {
		conn := r.dialFrom("127.0.0.2")
		conn.Send(request("/held"))
		conns = append(conns, conn)
	}
	for range most - left {
		b.next(t)
	}
	r.waiting(slow)
	for range 3 {
		r.dial().Ask(get, 200)
		b.next(t)
		r.dialFrom("127.0.0.9").Ask("GET /api HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n", 200)
		b.next(t)
	}
	for range slow {
		b.open <- true
	}
	for _, conn := range conns {
		conn.Status(200)
	}
}
