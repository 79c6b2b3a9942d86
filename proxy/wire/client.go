package wire

import (
	"time"

	"weir/internal/loop"
	"weir/internal/service"
	"weir/proxy/session"
	"weir/proxy/store/redis"
	"weir/proxy/upstream"
)

// A client is the rim of one session: a client's connection.
//
// Owned by its loop.
type client struct {
	side     *side
	conn     *loop.Conn
	s        *session.Session
	deadline time.Time // as armed

	server *server                  // held
	target *target                  // waited for
	wait   upstream.Waiter[*client] // the place in its line
	closed bool                     // the connection is gone

	asked    time.Time  // when Redis was asked
	answered redis.Done // its answer comes here; made once
}

// Data passes bytes on to the session.
func (c *client) Data(now time.Time, b []byte) int {
	n := c.s.HandleClient(now, b)
	c.apply(now)
	return n
}

// Expired passes the deadline on.
func (c *client) Expired(now time.Time) {
	c.deadline = time.Time{}
	if d := c.s.Deadline(); d.IsZero() || now.Before(d) {
		c.arm()
		return
	}
	c.s.HandleExpired(now)
	c.apply(now)
	c.more()
}

// Closed gives up what is under way.
func (c *client) Closed(now time.Time, _ error) {
	c.closed = true
	c.s.HandleClosed(now)
	c.apply(now)
}

// more shows the session the bytes that it left unread while it was busy.
func (c *client) more() {
	if c.s.Idle() && !c.closed {
		c.conn.Pump()
	}
}

// apply does what the session wants until it wants nothing more.
func (c *client) apply(now time.Time) {
	for {
		fx := c.s.Effects()
		if len(fx.Client) > 0 {
			c.conn.Write(fx.Client)
		}
		if len(fx.Upstream) > 0 {
			c.server.conn.Write(fx.Upstream)
		}
		if fx.Release != session.ReleaseNone {
			c.release(now, fx.Release)
		}
		if len(fx.Own) > 0 {
			c.askOwn(now, fx.Own)
		}
		closeConn(c.conn, fx.Close)
		if fx.Acquire == session.AcquireNone && len(fx.Own) == 0 {
			break
		}
		c.acquire(now, fx.Acquire)
	}
	c.arm()
}

func closeConn(c *loop.Conn, how session.Close) {
	switch how {
	case session.CloseDrained:
		c.CloseDrained()
	case session.CloseLinger:
		c.CloseLinger()
	}
}

// arm sets the connection's deadline to the session's.
func (c *client) arm() {
	if d := c.s.Deadline(); d != c.deadline && !c.closed {
		c.deadline = d
		c.conn.SetDeadline(d)
	}
}

func (c *client) acquire(now time.Time, how session.Acquire) {
	switch how {
	case session.AcquireNone:
		return
	case session.AcquireCancel:
		if c.target != nil {
			c.target.pool.Cancel(&c.wait)
		}
		return
	}
	if how == session.AcquireOther {
		c.target = c.side.other(c.target)
	} else {
		c.target = c.side.choose()
	}
	sv, grant := c.target.pool.Acquire(&c.wait, how == session.AcquireFresh)
	switch grant {
	case upstream.Ready:
		c.serve(now, sv, true)
	case upstream.WaitAndDial:
		c.target.dial()
		c.target.note()
	case upstream.Full:
		c.s.HandleUnavailable(now, session.FaultBusy)
		c.more()
	}
}

// serve gives the session a target's connection.
func (c *client) serve(now time.Time, sv *server, reused bool) {
	c.server, sv.owner = sv, c
	sv.target.note()
	if !c.s.HandleAcquired(now, reused) {
		panic("bug: a connection was granted to a session that does not wait for one")
	}
}

// release lets go of the target's connection. Closing one is told to the pool
// when it is closed.
func (c *client) release(now time.Time, how session.Release) {
	sv := c.server
	if sv == nil {
		return
	}
	c.server, sv.owner = nil, nil
	// A target that has answered without reading the whole request would take
	// the rest for the beginning of the next.
	if how == session.ReleaseDiscard || sv.conn.Unsent() > 0 {
		sv.conn.Close()
		return
	}
	sv.free(now)
}

// askOwn has an own endpoint answer, off the loop.
func (c *client) askOwn(now time.Time, raw []byte) {
	l := c.side.loop
	asked := c.side.front.desk.Ask(raw, c.conn.Remote().String(), func(r service.Reply) {
		l.Post(func(now time.Time) { c.answerOwn(now, r) })
	})
	if !asked {
		c.answerOwn(now, service.Reply{Status: 503,
			Fields: [][2]string{{"Content-Type", "application/json"}, {"Retry-After", "1"}},
			Body:   []byte(`{"error":"too many requests to the proxy's own endpoints at a time"}` + "\n")})
	}
}

func (c *client) answerOwn(now time.Time, r service.Reply) {
	if c.closed {
		return
	}
	c.s.HandleOwn(now, &session.Reply{Status: r.Status, Fields: r.Fields, Body: r.Body})
	c.apply(now)
	c.more()
}
