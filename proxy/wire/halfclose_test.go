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
	for _, test := range []struct{ name, asked, want string }{
		{"one request", `GET /held`, `200 echo`},
		{"HTTP/1.0", `GET /held HTTP/1.0`, `200 echo`},
		{"pipelined", `GET /held + GET /b + POST /held/b chunked=xyz`, `200*3 echo`},
		{"with part of another", `GET /held + "GET /never HTTP/1.1\r\nHo"`, `200 echo`},
		{"answered by the proxy", `GET /held + OPTIONS / Max-Forwards=0`, `200 echo + 200 =""`},
	} {
		t.Run(test.name, func(t *testing.T) {
			serve(t, holds, "EVENT_LOOPS", "1").playf(`
				a %s; target gets /held; a ends; target answers all; a -> %s + closed; rest`, test.asked, test.want)
		})
	}
}

// The last answer says that the connection closes.
func TestHalfClosedClientIsToldOfTheClose(t *testing.T) {
	holding(t, asSet).play(`held ends; target answers; held -> 200 closes + closed`)
}

// In a queue and in line for a connection, too.
func TestHalfClosedClientKeepsItsPlace(t *testing.T) {
	t.Run("in a queue", func(t *testing.T) {
		startQueue(t, "limit: {algorithm: leaky, capacity: 10, fillRate: 4}", "EVENT_LOOPS", "1").play(`
			first GET /q/first -> 200; a GET /q/waits; until q.forwarded=2; a ends; a -> 200 + closed`)
	})
	t.Run("in line", func(t *testing.T) {
		holding(t, asSet, "TARGET_MAX_CONNECTIONS", "1").play(`
			a GET /line; waiting 2; a ends; target answers; held -> 200; a -> 200 + closed`)
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
					down.gives(t, "the target", w)
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
				down.arrives(t, taken(t, "the client", res.Body))
				conn.Closed()
				checkBaseLine(r)
			})
		}
	}
}

// Answers that were ready before the client ended, and which it has not taken
// yet, are not lost.
func TestHalfClosedClientGetsWhatIsUnsent(t *testing.T) {
	serve(t, says(answerOf(strings.Repeat("a", 200<<10))), "EVENT_LOOPS", "1").playf(
		`a %q; a ends; a -> 200*64 size=204800 + closed; rest`, strings.Repeat(get, 64))
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
			r.playf(`a %q; a ends; a -> closed; rest`, text)
		})
	}
}

// A client that is gone looks like one that half closes. While it waits in a queue or for a place, it
// is found out: it gives its place up, and its request is not sent.
func TestGoneClientGivesUpItsPlace(t *testing.T) {
	t.Run("in a queue", func(t *testing.T) { // with a slot every 100 s
		startQueue(t, "limit: {algorithm: leaky, capacity: 10, fillRate: 0.01}", "EVENT_LOOPS", "1").play(`
			first GET /q/first -> 200; a GET /q/waits; until q.forwarded=2; a closes
			until requests_abandoned_total=1; metrics upstream_abandoned_total=0`)
	})
	for name, script := range map[string]string{
		"in line": `a GET /waits + GET /next; line 1; a closes; line 0`,
		"in line with the last piece of an upload": `
			a POST /held body*2000; line 1; a closes; line 0; target gets nothing`,
		"after an answer": `
			a GET /held/first + GET /waits; line 1; target answers; held -> 200; target gets /held/first
			b GET /held/other; line 1; a closes
			target answers; target gets /held/other; line 0; target answers; b -> 200`,
	} {
		t.Run(name, func(t *testing.T) { holding(t, gated(1), "BODY_BUFFER_BYTES", "1KiB").play(script) })
	}
	t.Run("over TLS", func(t *testing.T) {
		certified := httptest.NewTLSServer(nil)
		defer certified.Close()
		r := serveWith(t, func(c *Config) { gated(1)(c); c.Secure = certified.TLS }, holds, "EVENT_LOOPS", "1")
		for n, path := range []string{"/held", "/waits"} {
			secured := tls.Client(r.dial().Conn, &tls.Config{InsecureSkipVerify: true})
			testkit.NewConn(t, secured).Send(request(path))
			r.waiting(n + 1)
			if n == 1 {
				secured.Close()
			}
		}
		r.inQueue(0)
	})
}

// One that half closes gets the first bytes of its answer early, and the rest when it is there.
func TestHalfClosedClientIsProbed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, asked, early string }{
		{"HTTP/1.1", `GET /waits`, probeText},
		{"HTTP/1.0", `GET /waits HTTP/1.0`, probeText[:4]},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel() // the last bytes come with long pauses
			holding(t, gated(1)).playf(`
				a %s; line 1; a ends; a -> reads %q; target answers; held -> 200; a -> 200 echo + closed`,
				test.asked, test.early)
		})
	}
}

// A client that is gone for good looks the same until it is written to: it resets the connection on which
// it is answered.
func TestGoneClientEndsAtTheFirstAnswer(t *testing.T) {
	serve(t, holds, "EVENT_LOOPS", "1").play(`
		a GET /held + GET /held/again; target gets /held; a closes; target answers 2; rest`)
}

// Over TLS a half close is a close_notify.
func TestHalfClosedTLSClientIsAnswered(t *testing.T) {
	certified := httptest.NewTLSServer(nil)
	defer certified.Close()
	r := serveWith(t, func(c *Config) { c.Secure = certified.TLS }, holds, "EVENT_LOOPS", "1")
	secured := tls.Client(r.dial().Conn, &tls.Config{InsecureSkipVerify: true})
	r.connected = []*testClient{{Conn: testkit.NewConn(t, secured), name: "a"}}
	r.play(`a GET /held + GET /b; target gets /held`)
	if err := secured.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	r.play(`target answers; a -> 200*2 echo + closed; rest`)
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
				r.answers(conn, get)
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
