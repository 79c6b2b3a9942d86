package wire

import (
	"fmt"
	"net"
	"strings"
	"testing"
)

// Connections beyond MAX_CONNECTIONS are refused; those that are open are not affected, and each
// one that closes makes room.
func TestConnectionsMax(t *testing.T) {
	serve(t, echoes, "MAX_CONNECTIONS", "3").play(`
		a*3 GET / -> 200; more -> gone; metrics client_connections_refused_total=1 client_connections=3
		a* GET / -> 200; a1 closes; until client_connections=2; a1 GET / -> 200`)
}

// A body may have any size, however much of it is collected, unless BODY_MAX_BYTES bounds it.
// Then one byte more is refused, at once if its length is announced.
func TestRequestBodyBound(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		env   []string
		most  int
		bound bool // one more is refused
	}{
		{"BODY_BUFFER_BYTES", []string{"BODY_BUFFER_BYTES", "1KiB"}, 1024, false},
		{"256 KiB by default", nil, 256 << 10, false},
		{"BODY_MAX_BYTES", []string{"BODY_MAX_BYTES", "100"}, 100, true},
		{"BODY_MAX_BYTES beyond the buffer", []string{"BODY_BUFFER_BYTES", "1KiB", "BODY_MAX_BYTES", "300KiB"}, 300 << 10,
			true},
	} {
		beyond := `200 echo`
		if test.bound {
			beyond = `413 closes error="the request body is larger than this proxy takes" + closed`
		}
		for _, framing := range []string{"body", "chunked"} {
			t.Run(test.name+" "+framing, func(t *testing.T) {
				t.Parallel() // a lingering close takes a second
				serve(t, echoes, test.env...).playf(`
					a POST /p %s*%d -> 200 echo; a POST /p %[1]s*%[3]d -> %[4]s; rest`, framing, test.most, test.most+1, beyond)
			})
		}
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
			for _, n := range []int{1024, 1025, 1 << 20} {
				r.playf(`a GET /whole/%d -> 200 =%q`, n, body(n))
				switch {
				case test.closes: // where it ends is not known
				case test.collected && n <= 1024:
					r.playf(`a GET /cut/%d -> 502 "closed the connection before its answer was complete"`, n)
				default:
					r.playf(`a GET /cut/%d -> 200 cut; a closes`, n)
				}
			}
			if !test.closes {
				r.metrics(`errors.closed=3`)
			}
		})
	}
	// A length is not a body: the answer to HEAD may tell any.
	serve(t, says("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n"), "BODY_BUFFER_BYTES", "1KiB").play(`
		2 x HEAD / -> 200 Content-Length=99999999`)
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
			start(t, target, "HEAD_MAX_BYTES", test.most, "FIELDS_MAX", "5").playf(`
				a %q -> 200; a %q -> %d closes + closed`, test.within, test.beyond, test.status)
		})
	}
}

// TARGET_HEAD_MAX_BYTES and TARGET_FIELDS_MAX bound the heads of targets'
// answers, interim ones among them.
func TestAnswerHeadBounds(t *testing.T) {
	const first, last = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n", "HTTP/1.1 204 No Content\r\n\r\n"
	large := func(first string, n int) string { return filled(first+"Fill: ", "\r\n\r\n", n) }
	for _, test := range []struct {
		name                    string
		within, beyond, answers string
		env                     []string
	}{
		{"32 KiB by default", large(first, 32<<10), large(first, 32<<10+1), "200", nil},
		{"TARGET_HEAD_MAX_BYTES", large(first, 100<<10), large(first, 100<<10+1), "200",
			[]string{"TARGET_HEAD_MAX_BYTES", "100KiB"}},
		{"200 fields by default", first + strings.Repeat("A: b\r\n", 199) + "\r\n",
			first + strings.Repeat("A: b\r\n", 200) + "\r\n", "200", nil},
		{"TARGET_FIELDS_MAX", first + "A: b\r\nA: b\r\n\r\n", first + "A: b\r\nA: b\r\nA: b\r\n\r\n",
			"200", []string{"TARGET_FIELDS_MAX", "3"}},
		{"interim answers", large("HTTP/1.1 103 x\r\n", 2<<10) + last, large("HTTP/1.1 103 x\r\n", 2<<10+1) + last,
			"103 + 204", []string{"TARGET_HEAD_MAX_BYTES", "2KiB"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			target := newTarget(t, func(c *targetConn) {
				for s := c.next(); s != nil; s = c.next() {
					if c.say(map[string]string{"/within": test.within, "/beyond": test.beyond}[s.target()]); s.target() == "/beyond" {
						return
					}
				}
			})
			start(t, target.url(), test.env...).playf(`
				GET /within -> %s; GET /beyond -> 502 "not valid HTTP"`, test.answers)
		})
	}
}

// Slow clients get an answer that says so; idle connections are just closed.
func TestClientTimeouts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, sent string
		setting    string // that is short
		answer     string
	}{
		{"half a head", `"GET / HTTP/1.1\r\nHo"`, "HEAD_TIMEOUT", `408 closes + closed`},
		{"half a body", `POST / Content-Length=5 part=ab`, "BODY_TIMEOUT", `408 closes + closed`},
		{"half a chunk", `POST / Transfer-Encoding=chunked part="5\r\nab"`, "BODY_TIMEOUT", `408 closes + closed`},
		{"half a body for an own endpoint", `POST /reload Content-Length=5 part=ab`, "BODY_TIMEOUT", `408 closes + closed`},
		{"nothing", `""`, "IDLE_TIMEOUT", `closed`},
		{"an empty line", `"\r\n"`, "IDLE_TIMEOUT", `closed`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel() // a lingering close takes a second
			serve(t, echoes, test.setting, "50ms").playf(`a %s -> %s; rest`, test.sent, test.answer)
		})
	}
	t.Run("between requests", func(t *testing.T) {
		t.Parallel()
		serve(t, echoes, "IDLE_TIMEOUT", "3s").play(`a GET / -> 200 + closed`) // from the connect on, too
	})
}

// A client that takes nothing of its answers is closed after WRITE_TIMEOUT, and
// its requests are held back meanwhile.
func TestClientDoesNotRead(t *testing.T) {
	body := strings.Repeat("a", 200<<10)
	r := serve(t, says(answerOf(body)), "WRITE_TIMEOUT", "100ms")
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
	if n := r.targets["target"].served.Load(); n == 0 || n > 200 {
		t.Errorf("%d of 1000 requests were forwarded for a client that takes no answer", n)
	}
	r.metrics(`client_stalls_total=1`)
}

// What passes the first of several proxies passes the others: what a proxy adds
// to requests and answers is not held against them by the next one.
func TestChain(t *testing.T) {
	const most = 1 << 10 // bytes of heads, either way
	answers := map[string]string{
		"/plain":  "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		"/large":  filled("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nFill: ", "\r\n\r\n", most),
		"/fields": "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nA: b\r\nA: b\r\nA: b\r\nA: b\r\n\r\n",
		"/tight":  "HTTP/1.1 200 OK\r\nContent-Length:0\r\nA:b\r\nA:b\r\nA:b\r\n" + filled("Fill:", "\r\n\r\n", most-55),
		"/close":  filled("HTTP/1.0 200 OK\r\nFill: ", "\r\n\r\n", most),
	}
	target := newTarget(t, func(c *targetConn) {
		for s := c.next(); s != nil; s = c.next() {
			path, _, _ := strings.Cut(s.target(), "?")
			if c.say(answers[path]); path == "/close" {
				return
			}
		}
	})
	env := []string{"HEAD_MAX_BYTES", "1KiB", "FIELDS_MAX", "5", "TARGET_HEAD_MAX_BYTES", "1KiB", "TARGET_FIELDS_MAX", "5"}
	for _, test := range []struct {
		trusted, name string
		via           int // fields of answers
	}{{"", "weir-%d", 4}, {"127.0.0.0/8", "weir-%d", 4}, {"127.0.0.0/8", "off", 0}} {
		url := target.url()
		var first *rig
		for i := range 4 {
			name := strings.Replace(test.name, "%d", fmt.Sprint(i), 1)
			first = start(t, url, append(env, "VIA_NAME", name, "TRUSTED_PROXIES", test.trusted)...)
			url = "http://" + first.Addr().String()
		}
		for name, head := range map[string]string{
			"the longest request": filled("GET /plain HTTP/1.1\r\nHost: x\r\nFill: ", "\r\n\r\n", most),
			"the longest path":    filled("GET /plain?", " HTTP/1.1\r\nHost: x\r\n\r\n", most),
			"the most fields":     fieldsOf("GET /plain HTTP/1.1", 5),
			"tight fields":        filled("GET /plain HTTP/1.1\r\nHost:x\r\nA:b\r\nA:b\r\nFill:", "\r\n\r\n", most-4),
			"the longest answer":  request("/large"),
			"most of an answer":   request("/fields"),
			"a tight answer":      request("/tight"),
			"until the close":     request("/close"),
		} {
			conn := first.dial()
			conn.Send(head)
			if res, body := conn.Answer("GET"); res.StatusCode != 200 {
				t.Errorf("%+v: %s is answered %d %q", test, name, res.StatusCode, body)
			} else if via := res.Header.Values("Via"); len(via) != test.via {
				t.Errorf("%s: the answer came by %v", name, via)
			}
		}
	}
}
