package serve

import (
	"time"

	"weir/internal/cycle"
	"weir/internal/loop"
	"weir/internal/service"
	"weir/target/model"
	"weir/target/session"
)

// A conn is the rim of one session: it does what the effects say. It implements
// loop.Handler.
//
// Owned by its loop.
type conn struct {
	room    *room
	net     *loop.Conn
	session *session.Session
	ticket  model.Ticket // of the request that the model has
	// armed is the deadline set at the loop, zero when none is. It may be
	// earlier than the session's, so that a request costs no change of it: when
	// it comes, the session's is looked at again.
	armed  time.Time
	closed bool
}

// newConn gives an accepted connection its session.
func newConn(now time.Time, r *room, lc *loop.Conn) *conn {
	c := &conn{room: r, net: lc, session: session.New(now, &r.shared)}
	c.arm()
	return c
}

// Data is loop.Handler's.
func (c *conn) Data(now time.Time, b []byte) int {
	n := c.session.HandleData(now, b)
	for c.serve(now) {
		n += c.session.HandleData(now, b[n:])
	}
	c.flush()
	return n
}

// Expired is loop.Handler's.
func (c *conn) Expired(now time.Time) {
	c.armed = time.Time{}
	c.session.HandleExpired(now)
	c.flush()
}

// Closed is loop.Handler's.
func (c *conn) Closed(time.Time, error) {
	c.closed = true
	if c.ticket != (model.Ticket{}) {
		c.room.server.station.cancel(c.ticket)
	}
	c.room.server.left()
}

// serve has the session's question answered, and reports whether that is done
// already.
func (c *conn) serve(now time.Time) bool {
	switch c.room.shared.Ask {
	case session.AskService:
		return c.askService(now)
	case session.AskOwn:
		return c.askOwn(now)
	}
	return false
}

func (c *conn) askService(now time.Time) bool {
	station := c.room.server.station
	if station.plain.Load() {
		c.session.HandleAnswer(now, 200)
		return true
	}
	outcome := station.arrive(now, c)
	if !outcome.Final() {
		return false
	}
	if outcome != model.Refused {
		c.room.waits.Observe(0)
	}
	c.session.HandleAnswer(now, statusOf(outcome))
	return true
}

// finish handles the end of the request in the model.
func (c *conn) finish(now time.Time, d model.Done[*conn]) {
	c.room.waits.Observe(d.Wait)
	c.ticket = model.Ticket{}
	if c.closed {
		return // while the outcome was on its way
	}
	c.session.HandleAnswer(now, statusOf(d.Outcome))
	c.answered()
}

// statusOf is how an outcome is answered.
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
	taken := c.room.server.desk.Ask(c.room.shared.Raw, service.Link{Remote: c.net.Remote(), Local: c.net.Local()}, func(r service.Reply) {
		c.room.loop.Post(func(now time.Time) { c.reply(now, r) })
	})
	if !taken {
		c.session.HandleReply(now, session.Reply{
			Status: 503,
			Fields: [][2]string{{"Content-Type", "application/json"}},
			Body:   []byte(`{"error":"too many requests to the own endpoints at a time"}` + "\n"),
		})
	}
	return !taken
}

// reply sends what an own endpoint answers.
func (c *conn) reply(now time.Time, r service.Reply) {
	if c.closed {
		return
	}
	c.session.HandleReply(now, session.Reply(r))
	c.answered()
}

// answered does the effects of an answer that came later, and reads on.
func (c *conn) answered() {
	c.flush()
	if c.session.Unread() {
		c.net.Pump()
	}
}

// flush does what the effects say.
func (c *conn) flush() {
	shared := &c.room.shared
	c.room.meter.count(shared.Answered) // first: who has an answer finds it counted
	if len(shared.Out) > 0 {
		c.net.Write(shared.Out)
	}
	how := shared.Close
	shared.Reset()
	switch how {
	case cycle.CloseDrained:
		c.net.CloseDrained()
	case cycle.CloseLinger:
		c.net.CloseLinger()
	default:
		c.arm()
	}
}

// arm has the loop call Expired by the session's deadline.
func (c *conn) arm() {
	until := c.session.Deadline()
	if !until.IsZero() && (c.armed.IsZero() || until.Before(c.armed)) {
		c.armed = until
		c.net.SetDeadline(until)
	}
}
