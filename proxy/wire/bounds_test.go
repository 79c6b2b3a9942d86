package wire

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"weir/internal/test/testkit"
)

// Connections beyond MAX_CONNECTIONS are refused; those that are open are not affected, and each
// one that closes makes room.
func TestConnectionsMax(t *testing.T) {
	r := start(t, newTarget(t, echoes).url(), "MAX_CONNECTIONS", "3")
	var in []*testkit.Conn
	for range 3 {
		in = append(in, r.dial())
		in[len(in)-1].Ask(get, 200)
	}
	turnedAway := r.dial()
	if b, err := turnedAway.In.ReadByte(); err == nil {
		t.Errorf("read %q", b)
	}
	r.metrics(`client_connections_refused_total=1 client_connections=3`)
	for _, conn := range in {
		conn.Ask(get, 200)
	}
	in[0].Close()
	r.until("there is room", func() bool { return r.samples()["ratelimiter_client_connections"] == 2 })
	r.dial().Ask(get, 200)
}

// A body may have any size, however much of it is collected, unless BODY_MAX_BYTES bounds it.
// Then one byte more is refused, at once if its length is announced.
func TestRequestBodyBound(t *testing.T) {
	t.Parallel()
	post := func(n int) string {
		return fmt.Sprintf("POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", n, strings.Repeat("a", n))
	}
	inChunks := func(n int) string { return chunked("POST /p", strings.Repeat("a", n)) }
	for _, test := range []struct {
		name    string
		env     []string
		request func(n int) string
		most    int
		bound   bool // one more is refused
	}{
		{"BODY_BUFFER_BYTES", []string{"BODY_BUFFER_BYTES", "1KiB"}, post, 1024, false},
		{"BODY_BUFFER_BYTES in chunks", []string{"BODY_BUFFER_BYTES", "1KiB"}, inChunks, 1024, false},
		{"256 KiB by default", nil, post, 256 << 10, false},
		{"256 KiB by default in chunks", nil, inChunks, 256 << 10, false},
		{"BODY_MAX_BYTES", []string{"BODY_MAX_BYTES", "100"}, post, 100, true},
		{"BODY_MAX_BYTES in chunks", []string{"BODY_MAX_BYTES", "100"}, inChunks, 100, true},
		{"BODY_MAX_BYTES beyond the buffer", []string{"BODY_BUFFER_BYTES", "1KiB", "BODY_MAX_BYTES", "300KiB"}, post,
			300 << 10, true},
		{"BODY_MAX_BYTES beyond the buffer in chunks", []string{"BODY_BUFFER_BYTES", "1KiB", "BODY_MAX_BYTES", "300KiB"},
			inChunks, 300 << 10, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel() // a lingering close takes a second
			r := start(t, newTarget(t, echoes).url(), test.env...)
			conn := r.dial()
			passes := func(n int) {
				if body := conn.Ask(test.request(n), 200); body != echoOf("POST", "/p", strings.Repeat("a", n)) {
					t.Errorf("a body of %d bytes is answered %q", n, body)
				}
			}
			passes(test.most)
			if !test.bound {
				passes(test.most + 1)
				return
			}
			conn.Send(test.request(test.most + 1))
			if res, body := conn.Status(413); !res.Close ||
				body != `{"error":"the request body is larger than this proxy takes"}`+"\n" {
				t.Errorf("answered %q, closes: %t", body, res.Close)
			}
			conn.Closed()
			checkBaseLine(r)
		})
	}
}

// An answer may be of any size. Up to BODY_BUFFER_BYTES of a known length it is
// collected, so that one that breaks off becomes a 502; beyond that the client
// sees it break off. One of unknown length is never waited for.
func TestAnswerBodyBound(t *testing.T) {
	body := func(n int) string { return strings.Repeat("a", n) }
	for _, test := range []struct {
		name      string
		answer    func(n int) string
		closes    bool
		collected bool // up to the bound
	}{
		{"with a length", func(n int) string {
			return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", n, body(n))
		}, false, true},
		{"in chunks", func(n int) string {
			return fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", n, body(n))
		}, false, false},
		{"up to the close", func(n int) string { return "HTTP/1.1 200 OK\r\n\r\n" + body(n) }, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			target := newTarget(t, func(c *targetConn) {
				for s := c.next(); s != nil; s = c.next() {
					var n int
					cut := strings.HasPrefix(s.target(), "/cut/")
					fmt.Sscanf(s.target()[strings.LastIndexByte(s.target(), '/'):], "/%d", &n)
					text := test.answer(n)
					if cut {
						text = text[:len(text)-10]
					}
					if c.say(text); test.closes || cut {
						return
					}
				}
			})
			r := start(t, target.url(), "BODY_BUFFER_BYTES", "1KiB")
			conn := r.dial()
			for _, n := range []int{1024, 1025, 1 << 20} {
				if got := conn.Ask(request(fmt.Sprintf("/whole/%d", n)), 200); got != body(n) {
					t.Errorf("%d bytes of a body of %d", len(got), n)
				}
				if test.closes {
					continue // where it ends is not known
				}
				conn.Send(request(fmt.Sprintf("/cut/%d", n)))
				a, err := readAnswer(conn, "GET")
				switch {
				case test.collected && n <= 1024:
					if err != nil || a.status != 502 ||
						!strings.Contains(a.body, "closed the connection before its answer was complete") {
						t.Errorf("a body of %d bytes breaks off: answered %+v, %v, want 502", n, a, err)
					}
				case a == nil || a.status != 200 || err == nil:
					t.Errorf("a body of %d bytes breaks off: answered %+v, %v, want what there is and an end that shows", n, a, err)
				default:
					conn = r.dial()
				}
			}
			if !test.closes {
				r.metrics(`errors.closed=3`)
			}
		})
	}
	// A length is not a body: the answer to HEAD may tell any.
	r := start(t, newTarget(t, says("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n")).url(), "BODY_BUFFER_BYTES",
		"1KiB")
	conn := r.dial()
	for range 2 {
		conn.Send("HEAD / HTTP/1.1\r\nHost: x\r\n\r\n")
		if res, _ := conn.Answer("HEAD"); res.StatusCode != 200 || res.ContentLength != 99999999 {
			t.Errorf("answered %d with a length of %d", res.StatusCode, res.ContentLength)
		}
	}
}

// headOf is a request whose head is exactly n bytes long.
func headOf(n int) string { return filled("GET /api HTTP/1.1\r\nHost: x\r\nFill: ", "\r\n\r\n", n) }

// filled is before and after with as many letters between as make n bytes.
func filled(before, after string, n int) string {
	return before + strings.Repeat("a", n-len(before)-len(after)) + after
}

// fieldsOf is a head with n field lines.
func fieldsOf(first string, n int) string {
	return first + "\r\nHost: x\r\n" + strings.Repeat("A: b\r\n", n-1) + "\r\n"
}

// HEAD_MAX_BYTES bounds the head, whatever its longest line is, and FIELDS_MAX
// the number of its fields.
func TestHeadBounds(t *testing.T) {
	target := newTarget(t, echoes).url()
	longest := func(n int) string { return filled("GET /", " HTTP/1.1\r\nHost: x\r\n\r\n", n) }
	for _, test := range []struct {
		name           string
		most           string // HEAD_MAX_BYTES
		within, beyond string
		status         int
	}{
		{"a small bound", "1KiB", headOf(1024), headOf(1025), 431},
		{"a large field", "64KiB", headOf(64 << 10), headOf(64<<10 + 1), 431},
		{"a long path", "64KiB", longest(64 << 10), longest(128 << 10), 414},
		{"fields", "64KiB", fieldsOf("GET /api HTTP/1.1", 5), fieldsOf("GET /api HTTP/1.1", 6), 431},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel() // a lingering close takes a second
			conn := start(t, target, "HEAD_MAX_BYTES", test.most, "FIELDS_MAX", "5").dial()
			conn.Ask(test.within, 200)
			conn.Send(test.beyond)
			if res, _ := conn.Status(test.status); !res.Close {
				t.Error("the answer does not say that the connection closes")
			}
			conn.Closed()
		})
	}
}

// TARGET_HEAD_MAX_BYTES and TARGET_FIELDS_MAX bound the heads of targets'
// answers, interim ones among them.
func TestAnswerHeadBounds(t *testing.T) {
	const first, last = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n", "HTTP/1.1 204 No Content\r\n\r\n"
	large := func(first string, n int) string { return filled(first+"Fill: ", "\r\n\r\n", n) }
	for _, test := range []struct {
		name           string
		within, beyond string
		env            []string
	}{
		{"32 KiB by default", large(first, 32<<10), large(first, 32<<10+1), nil},
		{"TARGET_HEAD_MAX_BYTES", large(first, 100<<10), large(first, 100<<10+1),
			[]string{"TARGET_HEAD_MAX_BYTES", "100KiB"}},
		{"200 fields by default", first + strings.Repeat("A: b\r\n", 199) + "\r\n",
			first + strings.Repeat("A: b\r\n", 200) + "\r\n", nil},
		{"TARGET_FIELDS_MAX", first + "A: b\r\nA: b\r\n\r\n", first + "A: b\r\nA: b\r\nA: b\r\n\r\n",
			[]string{"TARGET_FIELDS_MAX", "3"}},
		{"interim answers", large("HTTP/1.1 103 x\r\n", 2<<10) + last, large("HTTP/1.1 103 x\r\n", 2<<10+1) + last,
			[]string{"TARGET_HEAD_MAX_BYTES", "2KiB"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			target := newTarget(t, func(c *targetConn) {
				for s := c.next(); s != nil; s = c.next() {
					if c.say(map[string]string{"/within": test.within, "/beyond": test.beyond}[s.target()]); s.target() == "/beyond" {
						return
					}
				}
			})
			conn := start(t, target.url(), test.env...).dial()
			conn.Send(request("/within"))
			res, _ := conn.Answer("GET")
			if res.StatusCode == 103 {
				res, _ = conn.Answer("GET")
			}
			if res.StatusCode/100 != 2 {
				t.Errorf("a head at the bound is answered %d", res.StatusCode)
			}
			if body := conn.Ask(request("/beyond"), 502); !strings.Contains(body, "not valid HTTP") {
				t.Errorf("a head beyond the bound is answered %q", body)
			}
		})
	}
}

// Slow clients get an answer that says so; idle connections are just closed.
func TestClientTimeouts(t *testing.T) {
	t.Parallel()
	const soon = "50ms"
	for _, test := range []struct {
		name, sent string
		env        []string
		status     int // 0: closed without a word
	}{
		{"half a head", "GET / HTTP/1.1\r\nHo", []string{"HEAD_TIMEOUT", soon}, 408},
		{"half a body", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab", []string{"BODY_TIMEOUT", soon}, 408},
		{"half a chunk", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
			[]string{"BODY_TIMEOUT", soon}, 408},
		{"half a body for an own endpoint", "POST /reload HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab",
			[]string{"BODY_TIMEOUT", soon}, 408},
		{"nothing", "", []string{"IDLE_TIMEOUT", soon}, 0},
		{"an empty line", "\r\n", []string{"IDLE_TIMEOUT", soon}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel() // a lingering close takes a second
			r := start(t, newTarget(t, echoes).url(), test.env...)
			conn := r.dial()
			conn.Send(test.sent)
			if test.status != 0 {
				if res, _ := conn.Status(test.status); !res.Close {
					t.Error("the answer does not say that the connection closes")
				}
			}
			conn.Closed()
			checkBaseLine(r)
		})
	}
	t.Run("between requests", func(t *testing.T) {
		t.Parallel()
		r := start(t, newTarget(t, echoes).url(), "IDLE_TIMEOUT", "3s") // from the connect on, too
		conn := r.dial()
		conn.Ask(get, 200)
		conn.Closed()
	})
}

// A client that takes nothing of its answers is closed after WRITE_TIMEOUT, and
// its requests are held back meanwhile.
func TestClientDoesNotRead(t *testing.T) {
	body := strings.Repeat("a", 200<<10)
	var reached atomic.Int64
	target := newTarget(t, each(func(c *targetConn, s *seen) {
		reached.Add(1)
		c.say(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	}))
	r := start(t, target.url(), "WRITE_TIMEOUT", "100ms")
	conn := r.dial()
	if err := conn.Conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	conn.Send(strings.Repeat(get, 1000))
	neighbour := r.dial()
	r.until("the client is closed", func() bool {
		neighbour.Ask(request("/actuator/health"), 200)
		return r.samples()["ratelimiter_client_connections"] == 1
	})
	if n := reached.Load(); n == 0 || n > 200 {
		t.Errorf("%d of 1000 requests were forwarded for a client that takes no answer", n)
	}
	if n := r.group.Stats().Stalled.Load(); n != 1 {
		t.Errorf("%d connections were closed for want of progress", n)
	}
}
