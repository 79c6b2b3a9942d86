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
	for err, want := range map[error]exchange.FailureKind{
		syscall.ECONNREFUSED:   exchange.FaultRefused,
		syscall.EHOSTUNREACH:   exchange.FaultConnect,
		os.ErrDeadlineExceeded: exchange.FaultConnectTime,
		io.EOF:                 exchange.FaultConnect,
		loop.ErrTooManyDials:   exchange.FaultResources,
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

// mirrors is the script of a target that answers with the head it was sent.
func mirrors(c *targetConn) {
	for s := c.next(); s != nil; s = c.next() {
		c.say(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(s.raw), s.raw))
	}
}

// The answer as the client sees it, by what it understands.
func TestRelayedAnswer(t *testing.T) {
	const inChunks = "HTTP/1.1 200 Fine\r\nTransfer-Encoding: chunked\r\nTrailer: " +
		"X\r\n\r\n3;x=1\r\nabc\r\n2\r\nde\r\n0\r\nX: 1\r\n\r\n"
	const one = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na"
	for _, test := range []struct {
		name, asked, answer string
		closes              bool // the target does
		want                string
	}{
		{"length", `GET /`, "HTTP/1.1 201 Made it\r\nContent-Length: 2\r\nX-A: b\r\n\r\nab", false,
			`reads "HTTP/1.1 201 Made it\r\n" + 201 Content-Length=2 X-A=b Via="1.1 weir" Transfer-Encoding= ="ab"`},
		{"chunks are made anew", `GET /`, inChunks, false,
			`reads "HTTP/1.1 200 Fine\r\n" + 200 Transfer-Encoding=chunked Trailer= stays ="abcde"`},
		{"up to the close", `GET /`, "HTTP/1.0 200 OK\r\n\r\nabc", true,
			`reads "HTTP/1.1 200 OK\r\n" + 200 Transfer-Encoding=chunked stays ="abc"`},
		{"no chunks for an old client", `GET / HTTP/1.0 Connection=keep-alive`, inChunks, false,
			`reads "HTTP/1.1 200 Fine\r\n" + 200 closes Transfer-Encoding= ="abcde" + closed`},
		{"an old client goes on", `GET / HTTP/1.0 Connection=keep-alive`, one, false,
			`200 Connection=keep-alive Transfer-Encoding= ="a"`},
		{"an old client ends", `GET / HTTP/1.0`, one, false, `200 closes Transfer-Encoding= ="a" + closed`},
		{"the client wants to end", `GET / Connection=close`, one, false, `200 closes ="a" + closed`},
		{"hop by hop", `GET /`, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close, X-Gone\r\nX-Gone: " +
			"1\r\nKeep-Alive: 5\r\nX-Stays: 1\r\n\r\na", true, `200 X-Stays=1 X-Gone= stays ="a"`},
		{"nothing there", `GET /`, "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", false,
			`reads "HTTP/1.1 204 No Content\r\n" + 204 Content-Length= =""`},
		{"not changed", `GET /`, "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nETag: \"a\"\r\n\r\n", false,
			`304 Content-Length=5 ETag="\"a\"" Transfer-Encoding= =""`},
		{"HEAD", `HEAD /`, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", false,
			`200 Content-Length=5 Transfer-Encoding= =""`},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := serve(t, answersOnce(test.answer, test.closes))
			r.play(`a ` + test.asked + ` -> ` + test.want)
			if !strings.HasSuffix(test.want, "closed") {
				r.play(`a GET /again -> 200`)
			}
		})
	}
}

// answersOnce answers with the text, except that /again is echoed.
func answersOnce(text string, closes bool) func(c *targetConn) {
	return func(c *targetConn) {
		for s := c.next(); s != nil; s = c.next() {
			if s.target() == "/again" {
				c.echo(s)
				continue
			}
			if c.say(text); closes {
				return
			}
		}
	}
}

// Interim answers are passed on before the final one, immediately, and only to clients that
// support them.
func TestInterimAnswers(t *testing.T) {
	serve(t, each(func(c *targetConn, s *seen) {
		c.say("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
		await(c.t, c.at.let)
		c.echo(s)
	})).play(`
		a GET / -> 103 Link=</a>; target answers; a -> 200
		old GET / HTTP/1.0; target answers; old -> 200 + closed`)
}

// A client that waits for 100 gets it once the limiter has admitted the
// request, and 429 without having to send its body otherwise.
func TestExpectContinue(t *testing.T) {
	serve(t, echoes, "RATE_LIMIT_LIMIT", "1").playf(`
		a PUT /p Expect=100-continue Content-Length=3 -> 100; a "abc"; a -> 200 =%q
		a PUT /p Expect=100-continue Content-Length=3 -> 429 closes + closed`, echoOf("PUT", "/p", "abc"))
}

// A refused upload that is still on its way is answered, however large, and the
// answer is not lost to a reset.
func TestRefusedUpload(t *testing.T) {
	for _, size := range []int{200_000, 4_000_000} {
		for _, framing := range []string{"body", "chunked"} {
			t.Run(fmt.Sprintf("%s %d", framing, size), func(t *testing.T) {
				t.Parallel() // a lingering close takes a second
				// The proxy may close before it has taken everything.
				serve(t, echoes, "RATE_LIMIT_LIMIT", "1").playf(`
					GET / -> 200; POST /p %s*%d -> 429 closes + gone`, framing, size)
			})
		}
	}
}
