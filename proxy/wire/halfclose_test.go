package wire

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// A client that says all it has to say and half closes, as `printf … | nc -N`
// does, is answered; then its connection closes. A half close looks like the
// close of a client that is gone: what is under way is done for either.

// endSending half closes and waits until the proxy, which has one loop, knows it.
func endSending(c *testkit.Conn, r *rig) {
	c.T.Helper()
	_ = c.Conn.(*net.TCPConn).CloseWrite()
	other := r.dial()
	for range 2 { // one may be in the same turn
		other.Ask("GET /actuator/health HTTP/1.1\r\nHost: x\r\n\r\n", 200)
	}
	other.Close()
}

func TestHalfClosedClientIsAnswered(t *testing.T) {
	const chunkedUpload = "POST /held/b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nxyz\r\n0\r\n\r\n"
	for _, test := range []struct {
		name, text string
		want       []string // bodies
	}{
		{"one request", request("/held"), []string{echoOf("GET", "/held", "")}},
		{"HTTP/1.0", "GET /held HTTP/1.0\r\n\r\n", []string{echoOf("GET", "/held", "")}},
		{"pipelined", request("/held") + request("/b") + chunkedUpload,
			[]string{echoOf("GET", "/held", ""), echoOf("GET", "/b", ""), echoOf("POST", "/held/b", "xyz")}},
		{"with part of another", request("/held") + "GET /never HTTP/1.1\r\nHo", []string{echoOf("GET", "/held", "")}},
		{"answered by the proxy", request("/held") + "OPTIONS / HTTP/1.1\r\nHost: x\r\nMax-Forwards: 0\r\n\r\n",
			[]string{echoOf("GET", "/held", ""), ""}},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := newBarrier()
			r := start(t, newTarget(t, g.script).url(), "EVENT_LOOPS", "1")
			conn := r.dial()
			conn.Send(test.text)
			g.next(t)
			endSending(conn, r)
			close(g.open)
			for _, want := range test.want {
				if _, body := conn.Status(200); body != want {
					t.Errorf("answered %q, want %q", body, want)
				}
			}
			conn.Closed()
			checkBaseLine(r)
		})
	}
}

// The last answer says that the connection closes.
func TestHalfClosedClientIsToldOfTheClose(t *testing.T) {
	r, g, conn := holding(t, asSet)
	endSending(conn, r)
	g.open <- true
	if res, _ := conn.Status(200); !res.Close {
		t.Error("the answer promises to keep the connection")
	}
	conn.Closed()
}

// In a queue and in line for a connection, too.
func TestHalfClosedClientKeepsItsPlace(t *testing.T) {
	t.Run("in a queue", func(t *testing.T) {
		r, _ := startQueue(t, "limit: {algorithm: leaky, capacity: 10, fillRate: 4}", "EVENT_LOOPS", "1")
		r.dial().Ask(request("/q/first"), 200)
		conn := r.dial()
		conn.Send(request("/q/waits"))
		r.places(2, 0)
		endSending(conn, r)
		conn.Status(200)
		conn.Closed()
	})
	t.Run("in line", func(t *testing.T) {
		r, g, first := holding(t, asSet, "TARGET_MAX_CONNECTIONS", "1")
		conn := r.dial()
		conn.Send(request("/line"))
		r.waiting(2)
		endSending(conn, r)
		g.open <- true
		first.Status(200)
		conn.Status(200)
		conn.Closed()
	})
}

// A large answer arrives whole, whether it is under way already or not.
func TestHalfClosedClientGetsAStream(t *testing.T) {
	for _, framing := range []string{"Content-Length", "Transfer-Encoding"} {
		for _, early := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, early %v", framing, early), func(t *testing.T) {
				down := newStream(stalledBytes)
				r := start(t, newService(t, func(w http.ResponseWriter, _ *http.Request) {
					if framing == "Content-Length" {
						w.Header().Set(framing, fmt.Sprint(stalledBytes))
					}
					if err := down.give(w); err != nil {
						t.Errorf("the target writes: %v", err)
					}
				}), "EVENT_LOOPS", "1")
				conn := r.dial()
				conn.Send(get)
				if early {
					endSending(conn, r)
				}
				res := testkit.Must(http.ReadResponse(conn.In, nil))(t)
				if !early {
					endSending(conn, r)
				}
				got := newStream(0)
				if _, err := got.take(res.Body); err != nil || got.String() != down.String() {
					t.Errorf("got %v, %v, of %v", got, err, down)
				}
				conn.Closed()
				checkBaseLine(r)
			})
		}
	}
}

// Answers that were ready before the client ended, and which it has not taken
// yet, are not lost.
func TestHalfClosedClientGetsWhatIsUnsent(t *testing.T) {
	const requests, size = 64, 200 << 10
	r := start(t, newService(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("a", size))
	}), "EVENT_LOOPS", "1")
	conn := r.dial()
	conn.Send(strings.Repeat(get, requests))
	endSending(conn, r)
	for range requests {
		if _, body := conn.Status(200); len(body) != size {
			t.Fatalf("a body of %d bytes, want %d", len(body), size)
		}
	}
	conn.Closed()
	checkBaseLine(r)
}

// A request that will never be whole is given up, and so is a client at rest.
func TestHalfClosedClientWithNothingUnderWay(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":            "",
		"a part of a head":   "GET / HT",
		"a part of a body":   "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc",
		"a part of a stream": "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000\r\n\r\nabc",
		"a part of an own":   "POST /config/limits HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc",
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, newTarget(t, func(c *targetConn) { _, _ = io.Copy(io.Discard, bufio.NewReader(c)) }).url(),
				"EVENT_LOOPS", "1")
			conn := r.dial()
			conn.Send(text)
			endSending(conn, r)
			conn.Closed()
			checkBaseLine(r)
		})
	}
}

// A client that is gone looks like one that half closes. While it waits in a queue or for a place, it
// is found out: it gives its place up, and its request is not sent.
func TestGoneClientGivesUpItsPlace(t *testing.T) {
	const limit = "limit: {algorithm: leaky, capacity: 10, fillRate: 0.01}" // a slot every 100 s
	t.Run("in a queue", func(t *testing.T) {
		r, _ := startQueue(t, limit, "EVENT_LOOPS", "1")
		r.dial().Ask(request("/q/first"), 200)
		conn := r.dial()
		conn.Send(request("/q/waits"))
		r.places(2, 0)
		conn.Close()
		r.until("the second is given up", func() bool { return r.samples()["ratelimiter_requests_abandoned_total"] == 1 })
		r.samplesAre("ratelimiter_upstream_abandoned_total", 0)
	})
	t.Run("in line", func(t *testing.T) {
		r, _, _ := holding(t, gated(1))
		conn := r.lineUp(1, request("/waits")+request("/next"))
		conn.Close()
		r.inLine(0)
	})
	t.Run("in line with the last piece of an upload", func(t *testing.T) {
		r, b, _ := holding(t, gated(1), "BODY_BUFFER_BYTES", "1KiB")
		conn := r.dial()
		conn.Send(longKinds["uploads"])
		r.inLine(1)
		conn.Close()
		r.inLine(0)
		if len(b.asked) > 0 {
			t.Error("the last piece was sent")
		}
	})
	t.Run("after an answer", func(t *testing.T) {
		r, b, held := holding(t, gated(1))
		conn := r.lineUp(1, request("/held/first")+request("/waits"))
		b.open <- true
		held.Status(200)
		b.next(t)
		other := r.lineUp(1, request("/held/other"))
		conn.Close()
		b.open <- true
		b.next(t) // other is first
		r.inLine(0)
		b.open <- true
		other.Status(200)
	})
	t.Run("over TLS", func(t *testing.T) {
		certified := httptest.NewTLSServer(nil)
		defer certified.Close()
		r := startWith(t, func(c *Config) { gated(1)(c); c.Secure = certified.TLS },
			newTarget(t, newBarrier().script).url(), "EVENT_LOOPS", "1")
		for n, path := range []string{"/held", "/waits"} {
			secured := tls.Client(r.dial().Conn, &tls.Config{InsecureSkipVerify: true})
			testkit.NewConn(t, secured).Send(request(path))
			r.waiting(n + 1)
			if n == 1 {
				secured.Close()
			}
		}
		r.inLine(0)
	})
}

// One that half closes gets the first bytes of its answer early, and the rest when it is there.
func TestHalfClosedClientIsProbed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, text, early string }{
		{"HTTP/1.1", request("/waits"), probeText},
		{"HTTP/1.0", "GET /waits HTTP/1.0\r\n\r\n", probeText[:4]},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel() // the last bytes come with long pauses
			r, b, held := holding(t, gated(1))
			conn := r.lineUp(1, test.text)
			endSending(conn, r)
			reads(conn, test.early)
			b.open <- true
			held.Status(200)
			if _, body := conn.Status(200); body != echoOf("GET", "/waits", "") {
				t.Errorf("answered %q", body)
			}
			conn.Closed()
		})
	}
}

// A client that is gone for good looks the same until it is written to.
func TestGoneClientEndsAtTheFirstAnswer(t *testing.T) {
	g := newBarrier()
	target := newTarget(t, g.script)
	r := start(t, target.url(), "EVENT_LOOPS", "1")
	conn := r.dial()
	conn.Send(request("/held") + request("/held/again"))
	g.next(t)
	conn.Close()
	g.open <- true // answered to nobody, who resets
	g.open <- true
	checkBaseLine(r)
}

// Over TLS a half close is a close_notify.
func TestHalfClosedTLSClientIsAnswered(t *testing.T) {
	certified := httptest.NewTLSServer(nil)
	defer certified.Close()
	g := newBarrier()
	r := startWith(t, func(c *Config) { c.Secure = certified.TLS }, newTarget(t, g.script).url(), "EVENT_LOOPS", "1")
	secured := tls.Client(r.dial().Conn, &tls.Config{InsecureSkipVerify: true})
	conn := testkit.NewConn(t, secured)
	conn.Send(request("/held") + request("/b"))
	g.next(t)
	if err := secured.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	g.open <- true
	for _, want := range []string{"/held", "/b"} {
		if _, body := conn.Status(200); body != echoOf("GET", want, "") {
			t.Errorf("answered %q, want that to %s", body, want)
		}
	}
	conn.Closed()
	checkBaseLine(r)
}

// A client that leaves in the middle of a stream is noticed by the writes that
// fail, whatever it had sent beyond the request: that is never read.
func TestGoneClientEndsItsStream(t *testing.T) {
	for name, beyond := range map[string]string{
		"nothing":                        "",
		"another request":                get,
		"part of a request":              "GET /never HTTP/1.1\r\nHo",
		"so much that reading is paused": strings.Repeat(get, 64<<10),
	} {
		for _, half := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, half closed %v", name, half), func(t *testing.T) {
				r := start(t, newService(t, func(w http.ResponseWriter, req *http.Request) {
					for req.Context().Err() == nil {
						_, _ = io.WriteString(w, "data: 1\n\n")
						_ = http.NewResponseController(w).Flush()
						time.Sleep(10 * time.Millisecond)
					}
				}), "EVENT_LOOPS", "1")
				conn := r.dial()
				conn.Send(get)
				if _, err := conn.In.ReadByte(); err != nil {
					t.Fatal(err)
				}
				_ = conn.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
				_, _ = io.WriteString(conn, beyond) // not all of it is taken
				if half {
					endSending(conn, r)
				}
				conn.Reset()
				checkBaseLine(r)
			})
		}
	}
}
