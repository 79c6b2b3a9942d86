package wire

import (
	"fmt"
	"strings"
	"testing"
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
