package wire

import (
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// During a drain, requests in progress are answered, with the announcement that the connection
// closes; idle connections are closed; no connection is accepted; nothing is cut.
func TestDrain(t *testing.T) {
	addr := testkit.FreeAddr(t) // which nobody else gets when the listener is closed
	r := serveWith(t, func(c *Config) { c.Sockets = []net.Listener{testkit.Must(net.Listen("tcp", addr))(t)} }, holds)
	r.play(`
		idle*4 GET / -> 200; target gets 4; busy*4 GET /held; target gets 4
		uploading POST /up Content-Length=6 part=abc; until store_decisions_total=9; own GET /config/adaptive`)
	r.until("the own endpoint is asked", func() bool { return r.holding.Load() == 1 })

	cut := make(chan int)
	go func() { cut <- r.drain(context.Background()) }()
	r.play(`idle* -> closed`)
	if c, err := net.Dial("tcp", r.Addr().String()); err == nil {
		c.Close()
		t.Error("a new client is let in")
	}
	close(r.held)
	r.playf(`
		own -> 200 closes ="" + closed; uploading "def"; uploading -> 200 closes =%q + closed
		target answers all; busy* -> 200 closes echo + closed`, echoOf("POST", "/up", "abcdef"))
	equal(t, "connections that were cut", <-cut, 0)
}

// A client that was idle when draining began may have a request on its way: it
// is answered.
func TestDrainAnswersWhatIsOnItsWay(t *testing.T) {
	r := serve(t, echoes)
	r.play(`a GET / -> 200`)
	drained := make(chan bool, len(r.loops))
	for _, s := range r.loops {
		s.loop.Post(func(now time.Time) {
			s.drain(now.Add(testkit.Timeout)) // so that the grace lasts
			drained <- true
		})
	}
	for range r.loops {
		<-drained
	}
	r.play(`
		a GET / -> 200 closes echo + closed
		late GET / -> 200 closes echo + closed # accepted before the listener closed: likewise`)
}

// A target that never answers is cut at the end of DRAIN_TIMEOUT.
func TestDrainTimeout(t *testing.T) {
	holding(t, asSet, "EVENT_LOOPS", "2", "DRAIN_TIMEOUT", "50ms").play(`drain 1; held -> closed`)
}

// A client that is told of no length takes the close for the end of an answer. An answer that is cut
// at the end of DRAIN_TIMEOUT, or because its client does not read, ends with a reset instead; one
// that is complete does not.
func TestCutAnswersAreNotTakenForComplete(t *testing.T) {
	for _, test := range []struct {
		name, setting string
		lines         int
		steps         string
	}{
		{"drain", "DRAIN_TIMEOUT", 25, `a -> reads "HTTP/1.1 200 "; drain 1; a -> cut`},
		{"stall", "WRITE_TIMEOUT", 32 << 10, `until client_stalls_total=1; a -> cut`},
		{"complete", "WRITE_TIMEOUT", 100, `target answers; a -> 200 size=102400 + closed`},
	} {
		t.Run(test.name, func(t *testing.T) {
			serve(t, func(c *targetConn) {
				c.next()
				c.say("HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat(strings.Repeat("a", 1023)+"\n", test.lines))
				await(c.t, c.at.let)
			}, test.setting, "100ms").play(`a GET / HTTP/1.0; ` + test.steps)
		})
	}
}

// An answer that breaks off takes nothing of the complete one before it.
func TestCutAnswerLeavesTheOneBefore(t *testing.T) {
	body := strings.Repeat("a", 400_000)
	r := start(t, newService(t, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/whole" {
			w.Header().Set("Content-Length", strconv.Itoa(len(body)))
			io.WriteString(w, body)
			return
		}
		io.WriteString(w, "part")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}), "BODY_BUFFER_BYTES", "1MiB")
	_ = r.clients("a")[0].Conn.Conn.(*net.TCPConn).SetReadBuffer(64 << 10) // so that most of it waits to be sent
	r.playf(`a GET /whole + GET /cut HTTP/1.0; until errors.closed=1; a -> 200 =%q + cut`, body)
}

// An impatient caller ends draining by its context.
func TestDrainIsCancelled(t *testing.T) {
	r := holding(t, asSet, "EVENT_LOOPS", "2")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	equal(t, "connections that were cut", r.drain(ctx), 1)
}

// An old connection to a target is no longer used, without effect on clients: a new one takes its
// place, also for requests that wait.
func TestTargetConnectionMaxAge(t *testing.T) {
	serve(t, echoes, "EVENT_LOOPS", "1", "TARGET_CONNECTION_MAX_AGE", "1us", "TARGET_MAX_CONNECTIONS", "1").play(`
		20 x a,b GET /; a,b -> 200
		target opened 40; until upstream_connections_aged_total=40; metrics upstream_retries_total=0`)
}

// The last answer that a client connection gets announces the close, and the
// connections that end so are counted.
func TestConnectionMaxRequests(t *testing.T) {
	serve(t, echoes, "CONNECTION_MAX_REQUESTS", "3").play(`
		2 x a GET / -> 200 stays
		a GET / -> 200 closes echo + closed; metrics client_connections_spent_total=1`)
}

// As does the first answer after the connection's time.
func TestConnectionMaxAge(t *testing.T) {
	serve(t, echoes, "CONNECTION_MAX_AGE", "1us").play(`a GET / -> 200 closes echo + closed`)
}
