package serve

import (
	"time"

	"weir/internal/net/loop"
	"weir/internal/program/service"
	"weir/target/model"
	"weir/target/session"
)

// A conn applies the effects of one session. It implements loop.Handler.
//
// Owned by its loop.
type conn struct {
	shard   *shard
	net     *loop.Conn
	session *session.Session
	ticket  model.Ticket[*conn] // of the request in the model
	closed  bool
}

func newConn(now time.Time, r *shard, lc *loop.Conn) *conn {
	c := &conn{shard: r, net: lc, session: session.New(now, &r.shared)}
	lc.SetDeadline(c.session.Deadline())
	return c
}

func (c *conn) Data(now time.Time, b []byte) int {
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
	if c.ticket != (model.Ticket[*conn]{}) {
		c.shard.server.station.cancel(c.ticket)
	}
}

// serve starts to answer the session's request, and reports whether it was answered at once.
func (c *conn) serve(now time.Time) bool {
	switch c.shard.shared.Ask {
	case session.AskService:
		return c.askService(now)
	case session.AskOwn:
		return c.askOwn(now)
	}
	return false
}

func (c *conn) askService(now time.Time) bool {
	station := c.shard.server.station
	if station.plain.Load() {
		c.session.HandleAnswer(now, 200)
		return true
	}
	outcome := station.arrive(now, c)
	if !outcome.Final() {
		return false
	}
	if outcome != model.Refused {
		c.shard.waits.Observe(0)
	}
	c.session.HandleAnswer(now, statusOf(outcome))
	return true
}

// finish handles the end of the request in the model.
func (c *conn) finish(now time.Time, d model.Done[*conn]) {
	c.shard.waits.Observe(d.Wait)
	c.ticket = model.Ticket[*conn]{}
	if c.closed {
		return // closed before the outcome came
	}
	c.session.HandleAnswer(now, statusOf(d.Outcome))
	c.answered()
}

func statusOf(o model.Outcome) int {
	switch o {
	case model.Served:
		return 200
	case model.Failed:
		return 500
	case model.Refused, model.TimedOut:
		return 503
	}
	panic("bug: a request that is " + o.String() + " has no status")
}

func (c *conn) askOwn(now time.Time) bool {
	taken := c.shard.server.pool.Submit(c.shard.shared.Raw, service.Addrs{Remote: c.net.Remote(), Local: c.net.Local()},
		func(r service.Reply) {
			c.shard.loop.Post(func(now time.Time) { c.reply(now, r) })
		})
	if !taken {
		r := service.Overloaded()
		c.session.HandleReply(now, r.Status, r.Fields, r.Body)
	}
	return !taken
}

func (c *conn) reply(now time.Time, r service.Reply) {
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

func (c *conn) flush() {
	shared := &c.shard.shared
	c.shard.meter.count(shared.Answered) // before the write: an answer that was received has been counted
	if len(shared.Out) > 0 {
		c.net.Write(shared.Out)
	}
	shared.Close.Apply(c.net, c.session.Deadline())
	shared.Reset()
}
