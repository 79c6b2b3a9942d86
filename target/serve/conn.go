package serve

import (
	"time"

	"weir/internal/net/http2"
	"weir/internal/net/loop"
	"weir/internal/program/service"
	"weir/target/model"
	"weir/target/session"
)

// A requester waits for the outcome of a request in the model. It is a conn or a stream.
type requester interface {
	on() *shard
	// finish handles the end of the request in the model, on the loop of the shard.
	finish(now time.Time, d model.Completion[requester])
}

// A conn applies the effects of one session. It implements loop.Handler.
//
// Owned by its loop.
type conn struct {
	shard   *shard
	net     *loop.Conn
	session *session.Session
	sniffs  bool                    // nothing was read, and it may be a connection of HTTP/2
	handle  model.Handle[requester] // of the request in the model
	closed  bool
}

func newConn(now time.Time, r *shard, lc *loop.Conn) *conn {
	c := &conn{shard: r, net: lc, session: session.New(now, &r.shared), sniffs: true}
	lc.SetDeadline(c.session.Deadline())
	return c
}

func (c *conn) Data(now time.Time, b []byte) int {
	if c.sniffs {
		switch begins, whole := http2.Preface(b); {
		case whole:
			return newHTTP2Conn(now, c.shard, c.net).Data(now, b)
		case begins: // "P" may also begin a request, whose head must be complete in time
			n := c.session.HandleData(now, b[:1])
			c.flush()
			return n
		}
		c.sniffs = false
	}
	n := c.session.HandleData(now, b)
	for c.serve(now) {
		n += c.session.HandleData(now, b[n:])
	}
	c.flush()
	return n
}

func (c *conn) Expired(now time.Time) {
	c.session.HandleExpired(now)
	c.flush()
}

func (c *conn) Closed(time.Time, error) {
	c.closed = true
	c.shard.server.station.cancel(c.handle)
}

func (c *conn) drain(now time.Time) {
	c.session.HandleDrain(now)
	c.flush()
}

func (c *conn) on() *shard { return c.shard }

// serve starts to answer the session's request, and reports whether it was answered at once.
func (c *conn) serve(now time.Time) bool {
	switch c.shard.shared.Await {
	case session.AwaitService:
		status, done := c.shard.ask(now, c, &c.handle)
		if done {
			c.session.HandleAnswer(now, status)
		}
		return done
	case session.AwaitOwn:
		r, done := c.shard.askOwn(c.shard.shared.Raw, c.net, c.reply)
		if done {
			c.session.HandleReply(now, r.Status, r.Fields, r.Body)
		}
		return done
	}
	return false
}

func (c *conn) finish(now time.Time, d model.Completion[requester]) {
	c.shard.waits.Observe(d.Wait)
	c.handle = model.Handle[requester]{}
	if c.closed {
		return // closed before the outcome came
	}
	c.session.HandleAnswer(now, statusOf(d.Outcome))
	c.answered()
}

func (c *conn) reply(now time.Time, r service.Response) {
	if c.closed {
		return
	}
	c.session.HandleReply(now, r.Status, r.Fields, r.Body)
	c.answered()
}

// answered applies the effects of an answer that came later, and continues reading.
func (c *conn) answered() {
	c.flush()
	if c.session.Unread() {
		c.net.Pump()
	}
}

func (c *conn) flush() { c.shard.flush(c.net, c.session.Deadline()) }
