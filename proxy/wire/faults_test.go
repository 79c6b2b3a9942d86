package wire

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"weir/internal/net/loop/looptest"
	"weir/internal/test/testkit"
)

// If the target is down, every request is answered with that at once, and the client's connection
// continues.
func TestTargetDown(t *testing.T) {
	target := newTarget(t, echoes)
	target.kill()
	r := start(t, target.url())
	conn := r.dial()
	for range 3 {
		if body := conn.Ask(get, 502); body != `{"error":"the target refuses connections"}`+"\n" {
			t.Errorf("answered %q", body)
		}
	}
	r.metrics(`errors.connect_refused=3 responses.502=3 forwarded=3`)
	target.start()
	conn.Ask(get, 200)
}

// A target that does not accept is given up after TARGET_CONNECT_TIMEOUT.
func TestTargetDoesNotAccept(t *testing.T) {
	addr, _ := looptest.FullListener(t)
	r := start(t, "http://"+addr, "TARGET_CONNECT_TIMEOUT", "50ms")
	conn := r.dial()
	if body := conn.Ask(get, 504); !strings.Contains(body, "did not accept a connection in time") {
		t.Errorf("answered %q", body)
	}
	r.metrics(`errors.connect_timeout=1`)
}

// A target that does not answer is given up after TARGET_TIMEOUT, with its
// connection; neighbours notice nothing.
func TestTargetSlow(t *testing.T) {
	t.Parallel()              // waits for the timeout
	var silences atomic.Int64 // that the proxy has ended
	target := newTarget(t, func(c *targetConn) {
		for s := c.next(); s != nil; s = c.next() {
			switch s.target() {
			case "/half":
				c.say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab")
				fallthrough
			case "/silent":
				c.silence()
				silences.Add(1)
				return
			}
			c.echo(s)
		}
	})
	r := start(t, target.url(), "TARGET_TIMEOUT", "3s")
	silent, half, neighbour := r.dial(), r.dial(), r.dial()
	silent.Send("GET /silent HTTP/1.1\r\nHost: x\r\n\r\n")
	half.Send("GET /half HTTP/1.1\r\nHost: x\r\n\r\n")
	neighbour.Ask(get, 200)
	for _, conn := range []*testkit.Conn{silent, half} {
		if _, body := conn.Status(504); body != `{"error":"the target did not answer in time"}`+"\n" {
			t.Errorf("answered %q", body)
		}
		conn.Ask(get, 200)
	}
	r.until("the silent connections are closed", func() bool { return silences.Load() == 2 })
	r.metrics(`errors.timeout=2`)
}

// What is no answer, or one of a known length that breaks off, becomes a 502 of the proxy's own;
// the client's connection
// goes on, the target's does not.
func TestTargetFaulty(t *testing.T) {
	for _, test := range []struct {
		name, octets string
		closes       bool
		kind         string
	}{
		{"no HTTP", "220 mail ready\r\n", false, "bad_response"},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\n", false, "bad_response"},
		{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", false, "bad_response"},
		{"bad chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabX", false, "bad_response"},
		{"a switch of protocols", "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", false,
			"bad_response"},
		{"no word", "", true, "closed"},
		{"half a head", "HTTP/1.1 200 OK\r\nContent-", true, "closed"},
		{"half a body", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", true, "closed"},
		{"hints only", "HTTP/1.1 103 Early Hints\r\n\r\n", true, "closed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			target := newTarget(t, answersOnce(test.octets, test.closes))
			r := start(t, target.url())
			conn := r.dial()
			conn.Send(get)
			res, body, err := final(conn.In, "GET")
			if err != nil || res.StatusCode != 502 || !strings.HasPrefix(body, `{"error":"the target`) {
				t.Fatalf("answered %v %q %v", res, body, err)
			}
			conn.Ask("GET /again HTTP/1.1\r\nHost: x\r\n\r\n", 200)
			r.metrics(`errors.%s=1 upstream_retries_total=0`, test.kind)
			if n := target.opened.Load(); n != 2 {
				t.Errorf("%d connections to the target, want one for the faulty answer and one behind it", n)
			}
		})
	}
}

// An answer of unknown length is passed on as it comes. When it turns out to be
// faulty the client must notice: no last chunk, or for a client that knows no
// chunks a reset.
func TestStreamedAnswerFaulty(t *testing.T) {
	const begun = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
	for _, test := range []struct {
		name, rest string
		closes     bool
		kind       string
	}{
		{"no last chunk", "", true, "closed"},
		{"half a chunk", "5\r\nde", true, "closed"},
		{"bad chunk", "-1\r\n", false, "bad_response"},
		{"too long a chunk", "1\r\nde\r\n", false, "bad_response"},
		{"half a trailer", "0\r\nX: y\r\n", true, "closed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := newBarrier()
			target := newTarget(t, func(c *targetConn) {
				for s := c.next(); s != nil; s = c.next() {
					if s.target() == "/again" {
						c.echo(s)
						continue
					}
					c.say(begun)
					g.pass(c)
					if c.say(test.rest); test.closes {
						return
					}
				}
			})
			r := start(t, target.url())
			for _, asked := range []struct {
				request string
				end     error
			}{{get, io.ErrUnexpectedEOF}, {"GET / HTTP/1.0\r\n\r\n", syscall.ECONNRESET}} {
				conn := r.dial()
				conn.Send(asked.request)
				res, err := http.ReadResponse(conn.In, nil)
				if err != nil || res.StatusCode != 200 {
					t.Fatalf("answered %v, %v", res, err)
				}
				first := make([]byte, 3)
				if _, err := io.ReadFull(res.Body, first); err != nil || string(first) != "abc" {
					t.Fatalf("the beginning of the body is %q, %v", first, err)
				}
				g.open <- true
				if rest, err := io.ReadAll(res.Body); !errors.Is(err, asked.end) {
					t.Errorf("the body ends with %q, %v, want %v", rest, err, asked.end)
				}
			}
			r.dial().Ask(request("/again"), 200)
			r.metrics(`errors.%s=2 upstream_retries_total=0`, test.kind)
		})
	}
}

// An idle connection that the target closes as a request comes: a request that
// may be repeated is sent once more, over a fresh connection, and only once.
func TestRetry(t *testing.T) {
	for _, test := range []struct {
		name, request string
		heals         bool // the fresh connection serves
		status        int
		attempts      int
	}{
		{"GET", "GET /x HTTP/1.1\r\nHost: x\r\n\r\n", true, 200, 2},
		{"GET, and again", "GET /x HTTP/1.1\r\nHost: x\r\n\r\n", false, 502, 2},
		{"DELETE", "DELETE /x HTTP/1.1\r\nHost: x\r\n\r\n", true, 200, 2},
		{"POST", "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\na", true, 502, 1},
		{"POST without a body", "POST /x HTTP/1.1\r\nHost: x\r\n\r\n", true, 502, 1},
		{"PUT", "PUT /x HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\na", true, 200, 2},
		{"unknown method", "BREW /x HTTP/1.1\r\nHost: x\r\n\r\n", true, 502, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			attempts := make(chan int64, 10)
			target := newTarget(t, func(c *targetConn) {
				for s := c.next(); s != nil; s = c.next() {
					if s.target() == "/x" {
						attempts <- c.number
						if c.number == 1 || !test.heals {
							return
						}
					}
					c.echo(s)
				}
			})
			r := start(t, target.url(), "EVENT_LOOPS", "1")
			conn := r.dial()
			conn.Ask(get, 200) // the connection has served
			conn.Ask(test.request, test.status)
			if len(attempts) != test.attempts {
				t.Errorf("the target was asked %d times, want %d", len(attempts), test.attempts)
			}
			r.metrics(`upstream_retries_total=%d forwarded=2 store_decisions_total=2`, test.attempts-1)
			conn.Ask(get, 200)
		})
	}
}

// A request on a connection that has never served is not repeated.
func TestNoRetryOnFreshConnection(t *testing.T) {
	target := newTarget(t, func(c *targetConn) { c.next() })
	r := start(t, target.url())
	r.dial().Ask(get, 502)
	if n := target.opened.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// Unrequested bytes close an idle connection; they are not used as an answer.
func TestUnaskedBytes(t *testing.T) {
	unasked := make(chan bool)
	target := newTarget(t, each(func(c *targetConn, s *seen) {
		c.echo(s)
		if c.number == 1 {
			select {
			case <-unasked:
			case <-t.Context().Done():
			}
			c.say("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison")
		}
	}))
	r := start(t, target.url(), "EVENT_LOOPS", "1")
	conn := r.dial()
	conn.Ask(get, 200)
	unasked <- true
	r.until("the connection is closed", func() bool { return target.open() == 0 })
	if body := conn.Ask("GET /mine HTTP/1.1\r\nHost: x\r\n\r\n", 200); body != echoOf("GET", "/mine", "") {
		t.Errorf("answered %q", body)
	}
}

// A connection to the target that is used again in time is kept beyond its first deadline, and
// closed when it is idle.
func TestTargetIdleAgain(t *testing.T) {
	const idle = 300 * time.Millisecond
	target := newTarget(t, echoes)
	r := start(t, target.url(), "TARGET_IDLE_TIMEOUT", idle.String())
	conn := r.dial()
	most, used := int64(0), time.Time{}
	for began := time.Now(); time.Since(began) < 2*idle; time.Sleep(idle / 5) {
		asked := time.Now()
		if conn.Ask(get, 200); time.Since(used) >= idle { // the first, or this machine is slow
			most++
		}
		used = asked
	}
	if n := target.opened.Load(); n > most {
		t.Errorf("%d connections to the target, want at most %d", n, most)
	}
	r.until("the idle connection is closed", func() bool { return target.open() == 0 })
}

// Idle connections to the target are closed in time.
func TestTargetIdleTimeout(t *testing.T) {
	target := newTarget(t, echoes)
	r := start(t, target.url(), "TARGET_IDLE_TIMEOUT", "30ms")
	conn := r.dial()
	conn.Ask(get, 200)
	r.until("the idle connection is closed", func() bool { return target.open() == 0 })
	conn.Ask(get, 200)
	if n := target.opened.Load(); n != 2 {
		t.Errorf("%d connections to the target", n)
	}
}
