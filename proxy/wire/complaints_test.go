package wire

import (
	"net/http"
	"strings"
	"testing"
)

// What is wrong with the answers of a target is logged, once a minute for each target.
func TestGarbledAnswersAreLogged(t *testing.T) {
	t.Parallel()
	replies := func(text string) *fakeTarget {
		return newTarget(t, func(c *targetConn) {
			c.next()
			c.say(text)
		})
	}
	for text, reason := range map[string]string{"220 mail ready\r\n": "",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab":           "Content-Length",
		"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n": "not asked for"} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel() // housekeeping looks once a second
			target := replies(text)
			r := start(t, target.url(), "EVENT_LOOPS", "2")
			const logged = "The answer of a target is not valid HTTP"
			r.dial().Ask(get, http.StatusBadGateway)
			r.until("it is logged", func() bool { return len(r.log.Lines(logged)) > 0 })
			for range 8 { // on both loops
				r.dial().Ask(get, http.StatusBadGateway)
			}
			r.until("housekeeping has seen them", func() bool {
				for _, s := range r.loops {
					for _, seen := range *s.seen.Load() {
						if seen.garbled.Load() != nil {
							return false
						}
					}
				}
				return true
			})
			if lines := r.log.Lines(logged); len(lines) != 1 || !strings.Contains(lines[0], "target="+target.url()) ||
				!strings.Contains(lines[0], reason) {
				t.Errorf("of %q is logged %q", text, lines)
			}
		})
	}
}

// A request that has passed a proxy of the same name is logged.
func TestLoopIsLogged(t *testing.T) {
	t.Parallel() // housekeeping looks once a second
	r := serve(t, echoes)
	r.dial().Ask("GET / HTTP/1.1\r\nHost: x\r\nVia: 1.1 weir\r\n\r\n", 508)
	const logged = "Requests had passed this proxy before"
	r.until("it is logged", func() bool { return len(r.log.Lines(logged)) > 0 })
	if lines := r.log.Lines(logged); !strings.Contains(lines[0], "VIA_NAME") || !strings.Contains(lines[0], "count=1") {
		t.Errorf("logged %q", lines)
	}
}
