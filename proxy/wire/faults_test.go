package wire

import (
	"errors"
	"io"
	"net/http"
	"syscall"
	"testing"
	"time"

	"weir/internal/net/loop/looptest"
	"weir/internal/test/testkit"
)

// If the target is down, every request is answered with that at once, and the client's connection
// continues.
func TestTargetDown(t *testing.T) {
	serve(t, echoes).play(`
		target stops
		3 x GET / -> 502 error="the target refuses connections"
		metrics errors.connect_refused=3 responses.502=3 forwarded=3
		target starts; GET / -> 200`)
}

// A target that does not accept is given up after TARGET_CONNECT_TIMEOUT.
func TestTargetDoesNotAccept(t *testing.T) {
	addr, _ := looptest.FullListener(t)
	start(t, "http://"+addr, "TARGET_CONNECT_TIMEOUT", "50ms").play(`
		GET / -> 504 "did not accept a connection in time"; metrics errors.connect_timeout=1`)
}

// A target that does not answer is given up after TARGET_TIMEOUT, with its
// connection; neighbours notice nothing.
func TestTargetSlow(t *testing.T) {
	t.Parallel() // waits for the timeout
	serve(t, func(c *targetConn) {
		for s := c.next(); s != nil; s = c.next() {
			switch s.target() {
			case "/half":
				c.say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab")
				fallthrough
			case "/silent":
				c.silence()
				c.at.asked <- "ended by the proxy"
				return
			}
			c.echo(s)
		}
	}, "TARGET_TIMEOUT", "3s").play(`
		silent GET /silent; half GET /half; neighbour GET / -> 200
		silent,half -> 504 error="the target did not answer in time"; silent,half GET / -> 200
		target gets 2; metrics errors.timeout=2`)
}

// What is no answer, or one of a known length that breaks off, becomes a 502 of the proxy's own;
// the client's connection
// goes on, the target's does not.
func TestTargetFaulty(t *testing.T) {
	for _, test := range []struct {
		name, octets string
		closes       bool
		kind         string
		interim      string
	}{
		{"no HTTP", "220 mail ready\r\n", false, "bad_response", ""},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\n", false, "bad_response", ""},
		{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", false, "bad_response", ""},
		{"bad chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabX", false, "bad_response", ""},
		{"a switch of protocols", "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", false,
			"bad_response", ""},
		{"no word", "", true, "closed", ""},
		{"half a head", "HTTP/1.1 200 OK\r\nContent-", true, "closed", ""},
		{"half a body", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", true, "closed", ""},
		{"hints only", "HTTP/1.1 103 Early Hints\r\n\r\n", true, "closed", "103 + "},
	} {
		t.Run(test.name, func(t *testing.T) {
			serve(t, answersOnce(test.octets, test.closes)).playf(`
				a GET / -> %s502 "{\"error\":\"the target"
				a GET /again -> 200; metrics errors.%s=1 upstream_retries_total=0
				target opened 2 # for the faulty answer and behind it`, test.interim, test.kind)
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
			r := serve(t, func(c *targetConn) {
				for s := c.next(); s != nil; s = c.next() {
					if s.target() == "/again" {
						c.echo(s)
						continue
					}
					c.say(begun)
					await(c.t, c.at.let)
					if c.say(test.rest); test.closes {
						return
					}
				}
			})
			for _, asked := range []struct {
				request string
				end     error
			}{{get, io.ErrUnexpectedEOF}, {"GET / HTTP/1.0\r\n\r\n", syscall.ECONNRESET}} {
				conn := r.dial()
				conn.Send(asked.request)
				res := testkit.Must(http.ReadResponse(conn.In, nil))(t)
				first := make([]byte, 3)
				if _, err := io.ReadFull(res.Body, first); err != nil || string(first) != "abc" || res.StatusCode != 200 {
					t.Fatalf("answered %d, the beginning of the body is %q, %v", res.StatusCode, first, err)
				}
				r.play(`target answers`)
				if rest, err := io.ReadAll(res.Body); !errors.Is(err, asked.end) {
					t.Errorf("the body ends with %q, %v, want %v", rest, err, asked.end)
				}
			}
			r.play(`GET /again -> 200`)
			r.metrics(`errors.%s=2 upstream_retries_total=0`, test.kind)
		})
	}
}

// An idle connection that the target closes as a request comes: a request that
// may be repeated is sent once more, over a fresh connection, and only once.
func TestRetry(t *testing.T) {
	for _, test := range []struct {
		name, asked string
		heals       bool // the fresh connection serves
		status      int
		attempts    int
	}{
		{"GET", `GET /x`, true, 200, 2},
		{"GET, and again", `GET /x`, false, 502, 2},
		{"DELETE", `DELETE /x`, true, 200, 2},
		{"POST", `POST /x body=a`, true, 502, 1},
		{"POST without a body", `POST /x`, true, 502, 1},
		{"PUT", `PUT /x body=a`, true, 200, 2},
		{"unknown method", `BREW /x`, true, 502, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			serve(t, func(c *targetConn) {
				for s := c.next(); s != nil; s = c.next() {
					if c.at.asked <- s.target(); s.target() == "/x" && (c.number == 1 || !test.heals) {
						return
					}
					c.echo(s)
				}
			}, "EVENT_LOOPS", "1").playf(`
				a GET / -> 200; target gets / # the connection has served
				a %s -> %d; target gets %d; target gets nothing
				metrics upstream_retries_total=%d forwarded=2 store_decisions_total=2
				a GET / -> 200`, test.asked, test.status, test.attempts, test.attempts-1)
		})
	}
}

// A request on a connection that has never served is not repeated.
func TestNoRetryOnFreshConnection(t *testing.T) {
	serve(t, func(c *targetConn) { c.next() }).play(`GET / -> 502; target opened 1`)
}

// Unrequested bytes close an idle connection; they are not used as an answer.
func TestUnaskedBytes(t *testing.T) {
	serve(t, each(func(c *targetConn, s *seen) {
		c.echo(s)
		if c.number == 1 {
			await(c.t, c.at.let)
			c.say("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison")
		}
	}), "EVENT_LOOPS", "1").play(`a GET / -> 200; target answers; target open 0; a GET /mine -> 200 echo`)
}

// A connection to the target that is used again in time is kept beyond its first deadline, and
// closed when it is idle.
func TestTargetIdleAgain(t *testing.T) {
	t.Parallel() // waits for deadlines
	const idle = 300 * time.Millisecond
	r := serve(t, echoes, "TARGET_IDLE_TIMEOUT", idle.String())
	most, used := int64(0), time.Time{}
	for began := time.Now(); time.Since(began) < 2*idle; time.Sleep(idle / 5) {
		asked := time.Now()
		if r.play(`a GET / -> 200`); time.Since(used) >= idle { // the first, or this machine is slow
			most++
		}
		used = asked
	}
	if n := r.targets["target"].opened.Load(); n > most {
		t.Errorf("%d connections to the target, want at most %d", n, most)
	}
	r.play(`target open 0`)
}

// Idle connections to the target are closed in time, and when they are old.
func TestTargetIdleTimeout(t *testing.T) {
	for _, setting := range []string{"TARGET_IDLE_TIMEOUT", "TARGET_CONNECTION_MAX_AGE"} {
		serve(t, echoes, setting, "30ms").play(`
			a GET / -> 200; target open 0; a GET / -> 200; target opened 2`)
	}
}
