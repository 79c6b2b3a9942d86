package wire

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"weir/internal/net/loop"
	"weir/internal/test/testkit"
	"weir/proxy/http/exchange"
)

// Every status that the proxy answers by itself, when it does, whether the
// connection goes on, and that its text is fixed: nothing of the target's.
func TestStatuses(t *testing.T) {
	const secret = "upstream-text"
	type world struct {
		env    []string
		target func(c *targetConn) // nil: there is none
		two    bool                // a second target that is not there either
		status int
		sent   string
		closes bool
		reason string
		after  string // Retry-After
	}
	for name, w := range map[string]world{
		"400 malformed": {target: echoes, status: 400, sent: "GET /\r\n\r\n", closes: true,
			reason: "the request line"},
		"408 no head": {env: []string{"HEAD_TIMEOUT", "50ms"}, target: echoes, status: 408, sent: "GET",
			closes: true, reason: "head did not arrive in time"},
		"408 no body": {env: []string{"BODY_TIMEOUT", "50ms"}, target: echoes, status: 408,
			sent: "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n", closes: true, reason: "body did not arrive in time"},
		"408 no rest of a stream": {env: []string{"BODY_TIMEOUT", "50ms"}, target: echoes, status: 408,
			sent: "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\na", closes: true,
			reason: "body did not arrive in time"},
		"413": {env: []string{"BODY_MAX_BYTES", "5"}, target: echoes, status: 413,
			sent: "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\n", closes: true,
			reason: "larger than this proxy takes"},
		"414": {target: echoes, status: 414, sent: "GET /" + strings.Repeat("a", 32<<10) +
			" HTTP/1.1\r\nHost: x\r\n\r\n", closes: true, reason: "too long"},
		"417": {target: echoes, status: 417, sent: "PUT / HTTP/1.1\r\nHost: x\r\nExpect: x\r\n\r\n",
			closes: true, reason: "expectation"},
		"431": {target: echoes, status: 431, sent: "GET / HTTP/1.1\r\nHost: x\r\nA: " +
			strings.Repeat("a", 20000) + "\r\n\r\n", closes: true, reason: "too"},
		"502 refused": {status: 502, sent: get, reason: "refuses connections"},
		"502 closed": {target: func(c *targetConn) { c.next() }, status: 502, sent: get,
			reason: "closed the connection before"},
		"502 reset": {target: func(c *targetConn) { c.next(); testkit.Reset(c.Conn) }, status: 502,
			sent: get, reason: "closed the connection before"},
		"502 garbled": {target: says("HTTP/1.1 200 " + secret + "\r\n" + secret + "\r\n\r\n"), status: 502,
			sent: get, reason: "not valid HTTP"},
		"502 unasked switch": {
			target: says("HTTP/1.1 101 " + secret + "\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"), status: 502,
			sent: get, reason: "not valid HTTP"},
		"502 other switch": {target: says("HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: " + secret + "\r\n\r\n"),
			status: 502,
			sent:   "GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n", reason: "not valid HTTP"},
		"502 too large a head": {target: says("HTTP/1.1 200 OK\r\nA: " + strings.Repeat(secret, 5000) + "\r\n\r\n"),
			status: 502, sent: get, reason: "not valid HTTP"},
		"502 small answer cut": {target: func(c *targetConn) {
			c.next()
			c.say("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n" + secret)
		}, status: 502, sent: get, reason: "closed the connection before"},
		"503 no target": {two: true, status: 503, sent: get, reason: "no target can be reached", after: "1"},
		"504 silent": {env: []string{"TARGET_TIMEOUT", "50ms"}, target: func(c *targetConn) { c.next(); c.silence() },
			status: 504, sent: get, reason: "did not answer in time"},
		"505": {target: echoes, status: 505, sent: "GET / HTTP/3.0\r\nHost: x\r\n\r\n", closes: true,
			reason: "version"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // lingering closes take a second
			script := w.target
			if script == nil {
				script = echoes
			}
			target := newTarget(t, script)
			if w.target == nil {
				target.kill()
			}
			targets := target.url()
			if w.two {
				other := newTarget(t, echoes)
				other.kill()
				targets += "," + other.url()
			}
			r := start(t, targets, w.env...)
			conn := r.dial()
			conn.Send(w.sent)
			res, body := conn.Status(w.status)
			if !strings.HasPrefix(body, `{"error":"`) || !strings.Contains(body, w.reason) ||
				strings.Contains(body+fmt.Sprint(res), secret) {
				t.Errorf("answered %v %q, want a reason with %q and nothing of the target's", res, body, w.reason)
			}
			if res.Close != w.closes || res.ContentLength != int64(len(body)) || res.Header.Get("Server") != "" ||
				res.Header.Get("Retry-After") != w.after {
				t.Errorf("answered %v, closes: %t with a length of %d", res.Header, res.Close, res.ContentLength)
			}
			if w.closes {
				conn.Closed()
			}
			conn.Close()
			checkBaseLine(r)
		})
	}
}

// Pipelined requests are answered in their order, however long each takes, and
// with bodies between them.
func TestPipelining(t *testing.T) {
	g := newBarrier()
	r := start(t, newTarget(t, g.script).url())
	conn := r.dial()
	var sent strings.Builder
	const n = 50
	for i := range n {
		path := fmt.Sprintf("/%d", i)
		if i%7 == 0 {
			path = "/held" + path
			g.open <- true
		}
		if i%3 == 0 {
			sent.WriteString(chunked("PUT "+path, path))
		} else {
			sent.WriteString(request(path))
		}
	}
	conn.Send(sent.String())
	for i := range n {
		method, path, body := "GET", fmt.Sprintf("/%d", i), ""
		if i%7 == 0 {
			path = "/held" + path
		}
		if i%3 == 0 {
			method, body = "PUT", path
		}
		if _, got := conn.Status(200); got != echoOf(method, path, body) {
			t.Fatalf("answer %d is %q", i, got)
		}
	}
}

// A request that asks for a switch of protocols is not repeated: the target may
// have switched.
func TestRetryOfUpgrade(t *testing.T) {
	var asked []int64
	target := newTarget(t, func(c *targetConn) {
		for s := c.next(); s != nil; s = c.next() {
			if strings.Contains(s.raw, "Upgrade: websocket\r\n") {
				asked = append(asked, c.number)
				return
			}
			c.echo(s)
		}
	})
	conn := start(t, target.url(), "EVENT_LOOPS", "1").dial()
	conn.Ask(get, 200)
	conn.Ask("GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n", 502)
	target.kill()
	if !slices.Equal(asked, []int64{1}) {
		t.Errorf("the target was asked on connections %v, want only the first", asked)
	}
}

// What a client sends behind a request for another protocol is held until the
// target has answered: it belongs to the new protocol, or is the next request.
func TestPipelinedBehindUpgrade(t *testing.T) {
	const ask = "GET /up HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
	g := newBarrier()
	target := newTarget(t, func(c *targetConn) {
		for s := c.next(); s != nil; s = c.next() {
			if s.target() != "/up" {
				c.echo(s)
				continue
			}
			if len(c.unread) > 0 {
				c.t.Errorf("behind the request came %q", c.unread)
			}
			g.asked <- s.target()
			if <-g.open {
				c.say("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
				_, _ = io.Copy(c, io.MultiReader(strings.NewReader(string(c.unread)), c.Conn))
				return
			}
			c.say("HTTP/1.1 426 Upgrade Required\r\nContent-Length: 2\r\n\r\nno")
		}
	})
	r := start(t, target.url())
	refused := r.dial()
	refused.Send(ask + request("/next"))
	g.next(t)
	g.open <- false
	refused.Status(426)
	if _, body := refused.Status(200); body != echoOf("GET", "/next", "") {
		t.Errorf("the next request is answered %q", body)
	}
	switched := r.dial()
	switched.Send(ask + request("/next"))
	g.next(t)
	g.open <- true
	if res, err := http.ReadResponse(switched.In, nil); err != nil || res.StatusCode != 101 {
		t.Fatalf("answered %v, %v", res, err)
	}
	back := make([]byte, len(request("/next")))
	if _, err := io.ReadFull(switched.In, back); err != nil || string(back) != request("/next") {
		t.Errorf("the tunnel gave back %q, %v", back, err)
	}
	switched.Close()
	refused.Close()
	checkBaseLine(r)
	r.metrics(`store_decisions_total=3`) // not one for the bytes in the tunnel
}

// A dial that fails for want of something here says nothing about the target.
func TestDialFault(t *testing.T) {
	for err, want := range map[error]exchange.Fault{
		syscall.ECONNREFUSED:   exchange.FaultRefused,
		syscall.EHOSTUNREACH:   exchange.FaultConnect,
		os.ErrDeadlineExceeded: exchange.FaultConnectTime,
		io.EOF:                 exchange.FaultConnect,
		loop.ErrDialsBusy:      exchange.FaultResources,
		syscall.EMFILE:         exchange.FaultResources,
		syscall.ENFILE:         exchange.FaultResources,
		syscall.EADDRNOTAVAIL:  exchange.FaultResources,
	} {
		if got := dialFault(fmt.Errorf("dial: %w", &net.OpError{Op: "dial", Err: err})); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
}

// Without a port or descriptor to connect with, clients hear what is missing, and so does the log.
func TestNoPortsToDialFrom(t *testing.T) {
	r := startWith(t, func(c *Config) { c.Loop.Sources = []netip.Addr{netip.MustParseAddr("192.0.2.1")} },
		newTarget(t, echoes).url())
	for range 3 {
		if body := r.dial().Ask(get, 503); !strings.Contains(body, "no descriptors or ports left") {
			t.Errorf("answered %q", body)
		}
	}
	r.metrics(`shed.no_resources=3`)
	if n := r.log.Count("No descriptor or port is left"); n != 1 {
		t.Errorf("logged %d times, want once a minute:\n%s", n, r.log)
	}
}
