package wire

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"
)

// Draining: what is under way gets its answer, which says that the connection
// closes; idle connections end; nobody is let in; nothing is cut.
func TestDrain(t *testing.T) {
	g := newBarrier()
	r := start(t, newTarget(t, g.script).url())
	var busy, idle []*caller
	for i := range 4 {
		busy, idle = append(busy, r.dial()), append(idle, r.dial())
		idle[i].ask(get, 200)
		g.next(t)
		busy[i].send(request(fmt.Sprintf("/held/%d", i)))
		g.next(t)
	}
	uploading, own := r.dial(), r.dial()
	uploading.send("POST /up HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nabc")
	r.until("the upload has begun", func() bool { return r.samples()["ratelimiter_store_decisions_total"] == 9 })
	own.send(request("/config/adaptive"))
	r.until("the own endpoint is asked", func() bool { return r.holding.Load() == 1 })

	cut := make(chan int)
	go func() { cut <- r.drain(context.Background()) }()
	for _, conn := range idle {
		conn.closed()
	}
	if c, err := net.Dial("tcp", r.Addr().String()); err == nil {
		c.Close()
		t.Error("a new client is let in")
	}
	close(r.held)
	ends(own, "")
	uploading.send("def")
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
func ends(conn *caller, want string) {
	conn.t.Helper()
	res, body := conn.status(200)
	if !res.Close || body != want {
		conn.t.Errorf("answered %q, closes: %t; want %q", body, res.Close, want)
	}
	conn.closed()
	conn.Close()
}

// A client that was idle when draining began may have a request on its way: it
// is answered.
func TestDrainAnswersWhatIsOnItsWay(t *testing.T) {
	r := start(t, newTarget(t, echoes).url())
	conn := r.dial()
	conn.ask(get, 200)
	drained := make(chan bool, len(r.sides))
	for _, s := range r.sides {
		s.loop.Post(func(now time.Time) {
			s.drain(now.Add(patience)) // so that the grace lasts
			drained <- true
		})
	}
	for range r.sides {
		<-drained
	}
	conn.send(get)
	ends(conn, echoOf("GET", "/api", ""))
	late := r.dial() // accepted before the listener closed: likewise
	late.send(get)
	ends(late, echoOf("GET", "/api", ""))
}

// A target that never answers is cut at the end of DRAIN_TIMEOUT.
func TestDrainTimeout(t *testing.T) {
	g := newBarrier()
	r := start(t, newTarget(t, g.script).url(), "DRAIN_TIMEOUT", "50ms")
	conn := r.dial()
	conn.send(request("/held"))
	g.next(t)
	if n := r.drain(context.Background()); n != 1 {
		t.Errorf("%d connections were cut, want 1", n)
	}
	conn.closed()
}

// An impatient caller ends draining by its context.
func TestDrainIsCancelled(t *testing.T) {
	g := newBarrier()
	r := start(t, newTarget(t, g.script).url())
	conn := r.dial()
	conn.send(request("/held"))
	g.next(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if n := r.drain(ctx); n != 1 {
		t.Errorf("%d connections were cut, want 1", n)
	}
}
