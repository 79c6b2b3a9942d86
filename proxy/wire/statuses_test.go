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
	const upgraded = "HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: "
	breaks := func(text string) func(c *targetConn) { return func(c *targetConn) { c.next(); c.say(text) } }
	for _, w := range []struct {
		name, setting string
		target        func(c *targetConn) // nil: there is none
		sent, reason  string
	}{
		{"400 malformed", "", echoes, `"GET /\r\n\r\n"`, "the request line"},
		{"408 no head", "HEAD_TIMEOUT=50ms", echoes, `"GET"`, "head did not arrive in time"},
		{"408 no body", "BODY_TIMEOUT=50ms", echoes, `PUT / Content-Length=1`, "body did not arrive in time"},
		{"408 no rest of a stream", "BODY_TIMEOUT=50ms", echoes, `PUT / Content-Length=1000000 part=a`,
			"body did not arrive in time"},
		{"413", "BODY_MAX_BYTES=5", echoes, `PUT / Content-Length=6`, "larger than this proxy takes"},
		{"414", "", echoes, `GET /` + strings.Repeat("a", 32<<10), "too long"},
		{"417", "", echoes, `PUT / Expect=x`, "expectation"},
		{"431", "", echoes, `GET / A*20000`, "too"},
		{"502 refused", "", nil, `GET /`, "refuses connections"},
		{"502 closed", "", breaks(""), `GET /`, "closed the connection before"},
		{"502 reset", "", func(c *targetConn) { c.next(); testkit.Reset(c.Conn) }, `GET /`, "closed the connection before"},
		{"502 garbled", "", says("HTTP/1.1 200 " + secret + "\r\n" + secret + "\r\n\r\n"), `GET /`, "not valid HTTP"},
		{"502 unasked switch", "", says(upgraded + "websocket\r\nA: " + secret + "\r\n\r\n"), `GET /`, "not valid HTTP"},
		{"502 other switch", "", says(upgraded + secret + "\r\n\r\n"), `GET / upgrade`, "not valid HTTP"},
		{"502 too large a head", "", says("HTTP/1.1 200 OK\r\nA: " + strings.Repeat(secret, 5000) + "\r\n\r\n"), `GET /`,
			"not valid HTTP"},
		{"502 small answer cut", "", breaks("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n" + secret), `GET /`,
			"closed the connection before"},
		{"503 no target", "", nil, `GET /`, "no target can be reached"},
		{"504 silent", "TARGET_TIMEOUT=50ms", func(c *targetConn) { c.next(); c.silence() }, `GET /`,
			"did not answer in time"},
		{"505", "", echoes, `"GET / HTTP/3.0\r\nHost: x\r\n\r\n"`, "version"},
	} {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel() // lingering closes take a second
			targets, ends, after := map[string]*fakeTarget{"a": newTarget(t, w.target)}, `stays`, ``
			if w.name[0] == '4' || w.name == "505" {
				ends = `closes + closed`
			}
			if w.name[:3] == "503" { // two targets are down
				targets["b"], after = newTarget(t, nil), `1`
			}
			for _, f := range targets {
				if w.target == nil {
					f.kill()
				}
			}
			name, value, _ := strings.Cut(w.setting, "=")
			before(t, asSet, targets, name, value).playf(`
				c %s -> %s "{\"error\":\"" %q !%s Content-Length=* Server= Retry-After=%s %s; rest`,
				w.sent, w.name[:3], w.reason, secret, after, ends)
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
	serve(t, holds).playf(`target answers 8; a %s
		a -> 200*50 echo`, strings.Join(asked, " + "))
}

// A request that asks for a switch of protocols is not repeated: the target may
// have switched.
func TestRetryOfUpgrade(t *testing.T) {
	serve(t, func(c *targetConn) {
		for s := c.next(); s != nil; s = c.next() {
			if strings.Contains(s.raw, "Upgrade: websocket\r\n") {
				c.at.asked <- fmt.Sprint(c.number)
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
	}).playf(`
		refused GET /up upgrade + GET /next; target gets /up; target answers; refused -> 426 + 200 echo
		switched GET /up/switch upgrade + GET /next; target gets /up/switch; target answers; switched -> 101 + takes %q
		rest; metrics store_decisions_total=3 # not one for the bytes in the tunnel`, request("/next"))
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
		equal(t, err.Error(), dialFault(fmt.Errorf("dial: %w", &net.OpError{Op: "dial", Err: err})), want)
	}
}

// Without a port or descriptor to connect with, clients hear what is missing, and so does the log.
func TestNoPortsToDialFrom(t *testing.T) {
	serveWith(t, func(c *Config) { c.Loop.Sources = []netip.Addr{netip.MustParseAddr("192.0.2.1")} }, echoes).play(`
		3 x GET / -> 503 "no descriptors or ports left"
		metrics shed.no_resources=3; logged 1 "No descriptor or port is left" # once a minute`)
}
