package wire

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"weir/internal/testkit"
)

// mirrors is the script of a target that answers with the head it was sent.
func mirrors(c *targetConn) {
	for s := c.next(); s != nil; s = c.next() {
		c.say(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(s.raw), s.raw))
	}
}

// The head as the target sees it: what belongs to the client's connection stays
// behind, what the proxy knows is put in.
func TestForwardedHead(t *testing.T) {
	const ours = "X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: x\r\nVia: 1.1 weir\r\n"
	for _, test := range []struct {
		name, sent, seen string // without their ends
		env              []string
	}{
		{"plain", "GET /a?b=c HTTP/1.1\r\nHost: x\r\n", "GET /a?b=c HTTP/1.1\r\nHost: x\r\n" + ours, nil},
		{"fields as they came", "GET / HTTP/1.1\r\nhost: x\r\nAccept: a\r\nACCEPT: b\r\nEmpty:\r\nX-B:  c  \r\n",
			"GET / HTTP/1.1\r\nHost: x\r\nAccept: a\r\nACCEPT: b\r\nEmpty: \r\nX-B: c\r\n" + ours, nil},
		{"hop by hop", "GET / HTTP/1.1\r\nHost: x\r\nConnection: X-Gone, keep-alive\r\nX-Gone: 1\r\nKeep-Alive: 5\r\nTE: trailers\r\nUpgrade: h2c\r\nProxy-Connection: a\r\nX-Stays: 1\r\n",
			"GET / HTTP/1.1\r\nHost: x\r\nX-Stays: 1\r\n" + ours, nil},
		{"Connection takes nothing of ours away", "GET / HTTP/1.1\r\nHost: x\r\nConnection: Host, X-Forwarded-For, Via\r\n", "GET / HTTP/1.1\r\nHost: x\r\n" + ours, nil},
		{"claims of origin", "GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 6.6.6.6\r\nForwarded: for=6.6.6.6\r\nX-Real-IP: 6.6.6.6\r\nX-Forwarded-Host: evil\r\nX-Forwarded-Proto: https\r\n",
			"GET / HTTP/1.1\r\nHost: x\r\n" + ours, nil},
		{"of a trusted proxy", "GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Proto: https\r\n",
			"GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-Proto: https\r\nX-Forwarded-For: 6.6.6.6, 127.0.0.1\r\nX-Forwarded-Host: x\r\nVia: 1.1 weir\r\n", []string{"TRUSTED_PROXIES", "127.0.0.0/8"}},
		{"fields of our own that only trusted proxies may send", "GET / HTTP/1.1\r\nHost: x\r\nX-Remote-User: root\r\nX-Remote-Users: 2\r\n", "GET / HTTP/1.1\r\nHost: x\r\nX-Remote-Users: 2\r\n" + ours,
			[]string{"UNTRUSTED_FIELDS", "x-auth-*, X-Remote-User"}},
		{"absolute form", "GET http://x/a HTTP/1.1\r\nHost: x\r\n", "GET /a HTTP/1.1\r\nHost: x\r\n" + ours, nil},
		{"old version", "GET / HTTP/1.0\r\nHost: x\r\n", "GET / HTTP/1.1\r\nHost: x\r\n" + strings.Replace(ours, "1.1", "1.0", 1), nil},
		{"no length is invented", "POST / HTTP/1.1\r\nHost: x\r\n", "POST / HTTP/1.1\r\nHost: x\r\n" + ours, nil},
		{"a length of none", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n", "POST / HTTP/1.1\r\nHost: x\r\n" + ours + "Content-Length: 0\r\n", nil},
		{"the target's host", "GET / HTTP/1.1\r\nHost: x\r\n", "GET / HTTP/1.1\r\nHost: TARGET\r\n" + ours, []string{"HOST_HEADER", "target"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			target := newTarget(t, mirrors)
			conn := start(t, target.url(), test.env...).dial()
			want := strings.Replace(test.seen, "TARGET", target.addr, 1) + "\r\n"
			if got := conn.Ask(test.sent+"\r\n", 200); got != want {
				t.Errorf("the target saw\n%s\nwant\n%s", got, want)
			}
		})
	}
	// A request of HTTP/1.0 may have no host: the target's is put in.
	target := newTarget(t, mirrors)
	conn := start(t, target.url()).dial()
	if got := conn.Ask("GET / HTTP/1.0\r\n\r\n", 200); !strings.Contains(got, "Host: "+target.addr+"\r\n") || strings.Contains(got, "X-Forwarded-Host") {
		t.Errorf("the target saw %q", got)
	}
}

// The answer as the client sees it, by what it understands.
func TestRelayedAnswer(t *testing.T) {
	const inChunks = "HTTP/1.1 200 Fine\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n3;x=1\r\nabc\r\n2\r\nde\r\n0\r\nX: 1\r\n\r\n"
	for _, test := range []struct {
		name, request, answer string
		closes                bool     // the target does
		head                  []string // lines of the head that the client sees
		not                   string   // what its head has not
		body                  string
		over                  bool // the client's connection closes
	}{
		{"length", get, "HTTP/1.1 201 Made it\r\nContent-Length: 2\r\nX-A: b\r\n\r\nab", false, []string{"HTTP/1.1 201 Made it", "Content-Length: 2", "X-A: b", "Via: 1.1 weir"}, "Transfer-Encoding", "ab", false},
		{"chunks are made anew", get, inChunks, false, []string{"HTTP/1.1 200 Fine", "Transfer-Encoding: chunked"}, "Trailer", "abcde", false},
		{"up to the close", get, "HTTP/1.0 200 OK\r\n\r\nabc", true, []string{"HTTP/1.1 200 OK", "Transfer-Encoding: chunked"}, "Connection", "abc", false},
		{"no chunks for an old client", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", inChunks, false, []string{"HTTP/1.1 200 Fine", "Connection: close"}, "Transfer-Encoding", "abcde", true},
		{"an old client goes on", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", false, []string{"Connection: keep-alive"}, "Transfer-Encoding", "a", false},
		{"an old client ends", "GET / HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", false, []string{"Connection: close"}, "Transfer-Encoding", "a", true},
		{"the client wants to end", "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", false, []string{"Connection: close"}, "", "a", true},
		{"hop by hop", get, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close, X-Gone\r\nX-Gone: 1\r\nKeep-Alive: 5\r\nX-Stays: 1\r\n\r\na", true, []string{"X-Stays: 1"}, "X-Gone: 1", "a", false},
		{"nothing there", get, "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", false, []string{"HTTP/1.1 204 No Content"}, "Content-Length", "", false},
		{"not changed", get, "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nETag: \"a\"\r\n\r\n", false, []string{"Content-Length: 5", `ETag: "a"`}, "Transfer-Encoding", "", false},
		{"HEAD", "HEAD / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", false, []string{"Content-Length: 5"}, "Transfer-Encoding", "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			conn := start(t, newTarget(t, answersOnce(test.answer, test.closes)).url()).dial()
			conn.Send(test.request)
			method, _, _ := strings.Cut(test.request, " ")
			a := testkit.Must(readAnswer(conn, method))(t)
			lines := strings.Split(a.head, "\r\n")
			for _, want := range test.head {
				if !slices.Contains(lines, want) {
					t.Errorf("the client saw no %q in %q", want, a.head)
				}
			}
			if test.not != "" && strings.Contains(a.head, test.not) || a.count("connection") > 1 {
				t.Errorf("the client saw %q", a.head)
			}
			if a.body != test.body {
				t.Errorf("the client saw the body %q", a.body)
			}
			if test.over {
				conn.Closed()
			} else {
				conn.Ask(request("/again"), 200)
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
	g := newBarrier()
	target := newTarget(t, func(c *targetConn) {
		for s := c.next(); s != nil; s = c.next() {
			c.say("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
			g.pass(c)
			c.echo(s)
		}
	})
	r := start(t, target.url())
	conn := r.dial()
	conn.Send(get)
	if res, _ := conn.Status(103); res.Header.Get("Link") != "</a>" {
		t.Errorf("hints: %v", res.Header)
	}
	g.open <- true
	conn.Status(200)
	old := r.dial()
	old.Send("GET / HTTP/1.0\r\n\r\n")
	g.open <- true
	old.Status(200)
	old.Closed()
}

// A client that waits for 100 gets it once the limiter has admitted the
// request, and 429 without having to send its body otherwise.
func TestExpectContinue(t *testing.T) {
	r := start(t, newTarget(t, echoes).url(), "RATE_LIMIT_LIMIT", "1")
	conn := r.dial()
	const head = "PUT /p HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"
	conn.Send(head)
	conn.Status(100)
	if body := conn.Ask("abc", 200); body != echoOf("PUT", "/p", "abc") {
		t.Errorf("answered %q", body)
	}
	conn.Send(head)
	if res, _ := conn.Status(429); !res.Close {
		t.Error("the rest of the connection cannot be read, and goes on")
	}
	conn.Closed()
}

// A refused upload that is still on its way is answered, however large, and the
// answer is not lost to a reset.
func TestRefusedUpload(t *testing.T) {
	for _, size := range []int{200_000, 4_000_000} {
		for name, head := range map[string]string{
			"length": fmt.Sprintf("Content-Length: %d\r\n\r\n", size),
			"chunks": fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n", size),
		} {
			t.Run(fmt.Sprintf("%s %d", name, size), func(t *testing.T) {
				t.Parallel() // a lingering close takes a second
				r := start(t, newTarget(t, echoes).url(), "RATE_LIMIT_LIMIT", "1")
				conn := r.dial()
				conn.Ask(get, 200)
				conn.Send("POST /p HTTP/1.1\r\nHost: x\r\n" + head)
				// The proxy may close before it has taken everything.
				_, _ = conn.Write([]byte(strings.Repeat("a", size)))
				if res, _ := conn.Status(429); !res.Close {
					t.Error("the answer does not say that the connection closes")
				}
				if err := over(conn); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
