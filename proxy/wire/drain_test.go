package wire

import (
	"context"
	"fmt"
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
	g := newBarrier()
	addr := testkit.FreeAddr(t) // which nobody else gets when the listener is closed
	r := startWith(t, func(c *Config) { c.Sockets = []net.Listener{testkit.Must(net.Listen("tcp", addr))(t)} },
		newTarget(t, g.script).url())
	var busy, idle []*testkit.Conn
	for i := range 4 {
		busy, idle = append(busy, r.dial()), append(idle, r.dial())
		idle[i].Ask(get, 200)
		g.next(t)
		busy[i].Send(request(fmt.Sprintf("/held/%d", i)))
		g.next(t)
	}
	uploading, own := r.dial(), r.dial()
	uploading.Send("POST /up HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nabc")
	r.until("the upload has begun", func() bool { return r.samples()["ratelimiter_store_decisions_total"] == 9 })
	own.Send(request("/config/adaptive"))
	r.until("the own endpoint is asked", func() bool { return r.holding.Load() == 1 })

	cut := make(chan int)
	go func() { cut <- r.drain(context.Background()) }()
	for _, conn := range idle {
		conn.Closed()
	}
	if c, err := net.Dial("tcp", r.Addr().String()); err == nil {
		c.Close()
		t.Error("a new client is let in")
	}
	close(r.held)
	ends(own, "")
	uploading.Send("def")
	ends(uploading, echoOf("POST", "/up", "abcdef"))
	close(g.open)
	for i, conn := range busy {
		ends(conn, echoOf("GET", fmt.Sprintf("/held/%d", i), ""))
	}
	if n := <-cut; n != 0 {
		t.Errorf("%d connections were cut", n)
	}
}

// ends fails unless a good answer comes that says it is the last.
func ends(conn *testkit.Conn, want string) {
	conn.T.Helper()
	res, body := conn.Status(200)
	if !res.Close || body != want {
		conn.T.Errorf("answered %q, closes: %t; want %q", body, res.Close, want)
	}
	conn.Closed()
	conn.Close()
}

// A client that was idle when draining began may have a request on its way: it
// is answered.
func TestDrainAnswersWhatIsOnItsWay(t *testing.T) {
	r := serve(t, echoes)
	conn := r.dial()
	conn.Ask(get, 200)
	drained := make(chan bool, len(r.loops))
	for _, s := range r.loops {
		s.loop.Post(func(now time.Time) {
			s.drain(now.Add(testkit.Patience)) // so that the grace lasts
			drained <- true
		})
	}
	for range r.loops {
		<-drained
	}
	conn.Send(get)
	ends(conn, echoOf("GET", "/api", ""))
	late := r.dial() // accepted before the listener closed: likewise
	late.Send(get)
	ends(late, echoOf("GET", "/api", ""))
}

// A target that never answers is cut at the end of DRAIN_TIMEOUT.
func TestDrainTimeout(t *testing.T) {
	holding(t, asSet, "EVENT_LOOPS", "2", "DRAIN_TIMEOUT", "50ms").play(`drain 1; held -> closed`)
}

// A client that is told of no length takes the close for the end of an answer. An answer that is cut
// at the end of DRAIN_TIMEOUT, or because its client does not read, ends with a reset instead; one
// that is complete does not.
func TestCutAnswersAreNotTakenForComplete(t *testing.T) {
	const request = "GET / HTTP/1.0\r\n\r\n"
	cut := func(t *testing.T, conn *testkit.Conn) {
		t.Helper()
		if n, err := io.Copy(io.Discard, conn.In); n == 0 || err == nil {
			t.Errorf("the client reads %d bytes and then %v, want an error", n, err)
		}
	}
	lines := func(n int, more chan bool) string {
		return newService(t, func(w http.ResponseWriter, req *http.Request) {
			for range n {
				io.WriteString(w, strings.Repeat("a", 1023)+"\n")
			}
			w.(http.Flusher).Flush()
			await(t, more)
		})
	}
	t.Run("drain", func(t *testing.T) {
		more := make(chan bool)
		defer close(more)
		r := start(t, lines(25, more), "DRAIN_TIMEOUT", "50ms")
		conn := r.dial()
		conn.Send(request)
		reads(conn, "HTTP/1.1 200 ")
		if n := r.drain(context.Background()); n != 1 {
			t.Errorf("%d connections were cut, want 1", n)
		}
		cut(t, conn)
	})
	t.Run("stall", func(t *testing.T) {
		more := make(chan bool)
		close(more)
		r := start(t, lines(32<<10, more), "WRITE_TIMEOUT", "100ms")
		conn := r.dial()
		conn.Send(request)
		r.until("the client has stalled", func() bool { return r.samples()["ratelimiter_client_stalls_total"] == 1 })
		cut(t, conn)
	})
	t.Run("complete", func(t *testing.T) {
		more := make(chan bool)
		close(more)
		r := start(t, lines(100, more))
		conn := r.dial()
		conn.Send(request)
		if b, err := io.ReadAll(conn.In); err != nil || len(b) < 100<<10 {
			t.Errorf("the client reads %d bytes, %v", len(b), err)
		}
	})
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
	conn := r.dial()
	if err := conn.Conn.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil { // so that most of it waits to be sent
		t.Fatal(err)
	}
	conn.Send(request("/whole") + "GET /cut HTTP/1.0\r\n\r\n")
	r.until("the second is cut",
		func() bool { return r.samples()[`ratelimiter_upstream_errors_total{kind="closed"}`] == 1 })
	if _, got := conn.Status(200); got != body {
		t.Errorf("%d bytes of %d of the first answer came", len(got), len(body))
	}
	if _, err := io.ReadAll(conn.In); err == nil {
		t.Error("the second answer seems to be complete")
	}
}

// An impatient caller ends draining by its context.
func TestDrainIsCancelled(t *testing.T) {
	r := holding(t, asSet, "EVENT_LOOPS", "2")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if n := r.drain(ctx); n != 1 {
		t.Errorf("%d connections were cut, want 1", n)
	}
}

// An old connection to a target is no longer used, without effect on clients: a new one takes its
// place, also for requests that wait.
func TestTargetConnectionMaxAge(t *testing.T) {
	target := newTarget(t, echoes)
	r := start(t, target.url(), "EVENT_LOOPS", "1", "TARGET_CONNECTION_MAX_AGE", "1us", "TARGET_MAX_CONNECTIONS", "1")
	one, two := r.dial(), r.dial()
	for range 20 {
		one.Send(get)
		two.Send(get)
		one.Status(200)
		two.Status(200)
	}
	if opened := target.opened.Load(); opened != 40 {
		t.Errorf("40 requests were sent over %d connections", opened)
	}
	r.until("each is counted", func() bool { return r.samples()["ratelimiter_upstream_connections_aged_total"] == 40 })
	r.metrics(`upstream_retries_total=0`)
}

// Old connections that are idle are closed.
func TestIdleTargetConnectionMaxAge(t *testing.T) {
	target := newTarget(t, echoes)
	r := start(t, target.url(), "TARGET_CONNECTION_MAX_AGE", "30ms", "TARGET_IDLE_TIMEOUT", "1h")
	r.dial().Ask(get, 200)
	r.until("the idle connection is closed", func() bool { return target.open() == 0 })
}

// The last answer that a client connection gets announces the close, and the
// connections that end so are counted.
func TestConnectionMaxRequests(t *testing.T) {
	r := serve(t, echoes, "CONNECTION_MAX_REQUESTS", "3")
	conn := r.dial()
	for range 2 {
		conn.Ask(get, 200)
	}
	conn.Send(get)
	ends(conn, echoOf("GET", "/api", ""))
	r.metrics(`client_connections_spent_total=1`)
}

// As does the first answer after the connection's time.
func TestConnectionMaxAge(t *testing.T) {
	conn := serve(t, echoes, "CONNECTION_MAX_AGE", "1us").dial()
	conn.Send(get)
	ends(conn, echoOf("GET", "/api", ""))
}
