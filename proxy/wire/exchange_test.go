package wire

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"weir/internal/test/testkit"
)

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
	for _, test := range []struct {
		name, request, answer string
		closes                bool     // the target does
		head                  []string // lines of the head that the client sees
		not                   string   // what its head has not
		body                  string
		over                  bool // the client's connection closes
	}{
		{"length", get, "HTTP/1.1 201 Made it\r\nContent-Length: 2\r\nX-A: b\r\n\r\nab", false,
			[]string{"HTTP/1.1 201 Made it", "Content-Length: 2", "X-A: b", "Via: 1.1 weir"}, "Transfer-Encoding", "ab", false},
		{"chunks are made anew", get, inChunks, false, []string{"HTTP/1.1 200 Fine", "Transfer-Encoding: chunked"},
			"Trailer", "abcde", false},
		{"up to the close", get, "HTTP/1.0 200 OK\r\n\r\nabc", true,
			[]string{"HTTP/1.1 200 OK", "Transfer-Encoding: chunked"}, "Connection", "abc", false},
		{"no chunks for an old client", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", inChunks, false,
			[]string{"HTTP/1.1 200 Fine", "Connection: close"}, "Transfer-Encoding", "abcde", true},
		{"an old client goes on", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
			"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", false, []string{"Connection: keep-alive"}, "Transfer-Encoding",
			"a", false},
		{"an old client ends", "GET / HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", false,
			[]string{"Connection: close"}, "Transfer-Encoding", "a", true},
		{"the client wants to end", "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
			"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", false, []string{"Connection: close"}, "", "a", true},
		{"hop by hop", get, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close, X-Gone\r\nX-Gone: " +
			"1\r\nKeep-Alive: 5\r\nX-Stays: 1\r\n\r\na", true, []string{"X-Stays: 1"}, "X-Gone: 1", "a", false},
		{"nothing there", get, "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", false,
			[]string{"HTTP/1.1 204 No Content"}, "Content-Length", "", false},
		{"not changed", get, "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nETag: \"a\"\r\n\r\n", false,
			[]string{"Content-Length: 5", `ETag: "a"`}, "Transfer-Encoding", "", false},
		{"HEAD", "HEAD / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", false,
			[]string{"Content-Length: 5"}, "Transfer-Encoding", "", false},
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
	serve(t, each(func(c *targetConn, s *seen) {
		c.say("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
		c.at.gate.pass(c)
		c.echo(s)
	})).play(`
		a GET / -> 103 Link=</a>; target answers; a -> 200
		old GET / HTTP/1.0; target answers; old -> 200 + closed`)
}

// A client that waits for 100 gets it once the limiter has admitted the
// request, and 429 without having to send its body otherwise.
func TestExpectContinue(t *testing.T) {
	serve(t, echoes, "RATE_LIMIT_LIMIT", "1").play(fmt.Sprintf(`
		a PUT /p Expect=100-continue Content-Length=3 -> 100; a "abc"; a -> 200 =%q
		a PUT /p Expect=100-continue Content-Length=3 -> 429 closes + closed`, echoOf("PUT", "/p", "abc")))
}

// A refused upload that is still on its way is answered, however large, and the
// answer is not lost to a reset.
func TestRefusedUpload(t *testing.T) {
	for _, size := range []int{200_000, 4_000_000} {
		for _, framing := range []string{"body", "chunked"} {
			t.Run(fmt.Sprintf("%s %d", framing, size), func(t *testing.T) {
				t.Parallel() // a lingering close takes a second
				// The proxy may close before it has taken everything.
				serve(t, echoes, "RATE_LIMIT_LIMIT", "1").play(fmt.Sprintf(`
					GET / -> 200; POST /p %s*%d -> 429 closes + gone`, framing, size))
			})
		}
	}
}
