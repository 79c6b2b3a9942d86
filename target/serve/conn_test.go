package serve

import (
	"io"
	"testing"
	"time"

	"weir/internal/net/loop"
	"weir/internal/test/testkit"
	"weir/target/model"
)

// onLoop calls f with every open connection of HTTP/1.1, on its loop, and waits for that.
func (r *rig) onLoop(f func(now time.Time, c *conn)) {
	r.t.Helper()
	r.onHandlers(func(now time.Time, h loop.Handler) { f(now, h.(*conn)) })
}

// onHandlers calls f with the Handler of every open connection, on its loop, and waits for that.
func (r *rig) onHandlers(f func(now time.Time, h loop.Handler)) {
	r.t.Helper()
	done := make(chan struct{})
	for _, shard := range r.shards {
		shard.loop.Post(func(now time.Time) {
			shard.loop.Each(func(_ *loop.Conn, h loop.Handler) { f(now, h) })
			done <- struct{}{}
		})
	}
	for range r.shards {
		testkit.Receive(r.t, done, "the answer of a loop")
	}
}

// deadline returns when the only connection runs out of time, from now on, according to its
// loop.
func (r *rig) deadline() (left time.Duration) {
	r.onLoop(func(now time.Time, c *conn) { left = c.net.Deadline().Sub(now) })
	return left
}

func TestIdleConnectionIsClosed(t *testing.T) {
	r := start(t, model.Default())
	w := r.dial()
	r.until("accepted", func() bool { return r.group.Stats().Open.Load() == 1 && r.deadline() > 0 })
	if left := r.deadline(); left <= 60*time.Second || left > 75*time.Second {
		t.Errorf("a new connection is closed in %v", left)
	}
	r.onLoop(func(now time.Time, c *conn) { c.Expired(now.Add(75 * time.Second)) })
	w.Closed()
	r.until("gone", func() bool { return r.group.Stats().Open.Load() == 0 })
}

// So is the preface of HTTP/2.
func TestSlowHeadIsRefused(t *testing.T) {
	for _, part := range []string{"GET /api/test HTTP/1.1\r\n", "P", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r"} {
		r := start(t, model.Default())
		w := r.dial()
		w.Send(part)
		r.until("the head has its own deadline", func() bool {
			left := r.deadline()
			return left > 0 && left <= 10*time.Second
		})
		r.onLoop(func(now time.Time, c *conn) { c.Expired(now.Add(10 * time.Second)) })
		w.Status(408)
		w.Closed()
	}
}

// An answer gives the connection the deadline of an idle one.
func TestDeadlineMoves(t *testing.T) {
	r := start(t, model.Default())
	w := r.dial()
	w.Send("GET /nowhere HTTP/1.1\r\n")
	r.until("the head has its own deadline", func() bool {
		left := r.deadline()
		return left > 0 && left <= 10*time.Second
	})
	w.Send("Host: x\r\n\r\n")
	w.Status(404)
	if left := r.deadline(); left <= 60*time.Second {
		t.Errorf("an idle connection is closed in %v", left)
	}
	r.onLoop(func(now time.Time, c *conn) { c.Expired(now) })
	w.Send(get)
	w.Status(200)
}

// A client that sends far ahead of its answers is made to wait, and loses nothing.
func TestReadingPauses(t *testing.T) {
	r := start(t, model.Config{Delay: forever, Workers: 1, Queue: 1, QueueTimeout: forever})
	r.dial().Send(get)
	r.inside(1, 0)
	const n = 20_000
	w := r.dial()
	go func() { _, _ = io.WriteString(w, get+pipeline(n)) }()
	r.inside(1, 1)
	r.until("reading is paused", func() bool { return r.group.Stats().Paused.Load() > 0 })
	r.do("POST", "/model", `{"workers":0,"delay":0}`)
	w.Status(200)
	pipelined(w, n)
}
