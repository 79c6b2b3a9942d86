package wire

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"
	"time"

	xnet "golang.org/x/net/http2"

	"weir/internal/test/testkit"
)

// What one connection has sent at once does not keep the loop from others: not the requests themselves, nor those that
// wait for their bodies, nor the connections to targets that they get. Which decision came first shows in the limit.
func TestHTTP2SharesTurns(t *testing.T) {
	t.Parallel()
	const limit = 100 // of 128 requests that are sent before the other client's
	for _, ends := range []bool{true, false} {
		r := startHTTP2(t, func(http.ResponseWriter, *http.Request) {}, "EVENT_LOOPS", "1", "RATE_LIMIT_ALGORITHM", "fixed",
			"RATE_LIMIT_LIMIT", fmt.Sprint(limit), "RATE_LIMIT_WINDOW", "3600")
		conn, other := r.dial(), r.dial()
		c := r.rawHTTP2On(conn, 65535)
		c.response(c.get("/"))
		r.answers(other, get)

		var out bytes.Buffer
		c.framer = xnet.NewFramer(&out, conn.Conn)
		c.framer.ReadMetaHeaders = nil
		for range 128 {
			c.request("POST", "/", ends)
		}
		blocked, release := make(chan bool), make(chan bool)
		r.loops[0].loop.Post(func(time.Time) { close(blocked); <-release })
		testkit.Receive(t, blocked, "the loop")
		conn.Send(out.String())
		other.Send(get)
		close(release)
		if a := testkit.Must(http.ReadResponse(other.In, nil))(t); a.StatusCode != 200 {
			t.Errorf("requests that end: %v; another client's request after 128 of them: %d, want 200", ends, a.StatusCode)
		}
		r.until("the others are refused", func() bool { return r.samples()[sample("rejected")] == 2+128+1-limit })
	}
}
