package wire

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
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
			targets := map[string]*fakeTarget{"target": newTarget(t, w.target)}
			if w.two {
				targets["other"] = newTarget(t, nil)
			}
			for _, f := range targets {
				if f.script == nil {
					f.kill()
				}
			}
			r := before(t, asSet, targets, w.env...)
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
	var asked []string
	for i := range 50 {
		path := fmt.Sprintf("/%d", i)
		if i%7 == 0 {
			path = "/held" + path
		}
		if i%3 == 0 {
			asked = append(asked, fmt.Sprintf(`PUT %[1]s chunked=%[1]s`, path))
		} else {
			asked = append(asked, `GET `+path)
		}
	}
	serve(t, holds).play(fmt.Sprintf(`target answers 8; a %s
		a -> 200*50 echo`, strings.Join(asked, " + ")))
}

// A request that asks for a switch of protocols is not repeated: the target may
// have switched.
func TestRetryOfUpgrade(t *testing.T) {
	serve(t, func(c *targetConn) {
		for s := c.next(); s != nil; s = c.next() {
			if strings.Contains(s.raw, "Upgrade: websocket\r\n") {
				c.at.gate.asked <- fmt.Sprint(c.number)
				return
			}
			c.echo(s)
		}
	}, "EVENT_LOOPS", "1").play(`
		a GET / -> 200; a GET / upgrade -> 502; target stops; target gets 1; target gets nothing`)
}

// What a client sends behind a request for another protocol is held until the
// target has answered: it belongs to the new protocol, or is the next request.
func TestPipelinedBehindUpgrade(t *testing.T) {
	serve(t, func(c *targetConn) {
		for s := c.next(); s != nil; s = c.next() {
			if !strings.HasPrefix(s.target(), "/up") {
				c.echo(s)
				continue
			}
			if len(c.unread) > 0 {
				c.t.Errorf("behind the request came %q", c.unread)
			}
			if c.hold(s); s.target() == "/up/switch" {
				c.say("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
				_, _ = io.Copy(c, io.MultiReader(strings.NewReader(string(c.unread)), c.Conn))
				return
			}
			c.say("HTTP/1.1 426 Upgrade Required\r\nContent-Length: 2\r\n\r\nno")
		}
	}).play(fmt.Sprintf(`
		refused GET /up upgrade + GET /next; target gets /up; target answers; refused -> 426 + 200 echo
		switched GET /up/switch upgrade + GET /next; target gets /up/switch; target answers; switched -> 101 + takes %q
		rest; metrics store_decisions_total=3 # not one for the bytes in the tunnel`, request("/next")))
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
	serveWith(t, func(c *Config) { c.Loop.Sources = []netip.Addr{netip.MustParseAddr("192.0.2.1")} }, echoes).play(`
		3 x GET / -> 503 "no descriptors or ports left"
		metrics shed.no_resources=3; logged 1 "No descriptor or port is left" # once a minute`)
}
