package wire

import (
	"time"

	"weir/proxy/targets/upstream"
)

// A connection that a target has authenticated is private to the client. Between the
// client's requests it stays outside the pool's idle list, counts as busy and takes one
// of the places for streams.

// keep reserves u for the client's next request. If there is no place for it, it is
// closed, and the client has to log in again.
func (c *client) keep(now time.Time, u *upstreamConn) {
	t := u.target
	if u.conn.Unsent() > 0 || !t.pool.Stream(&c.wait) {
		u.owner = nil
		t.over(now, &c.wait)
		u.conn.Close()
		return
	}
	c.server.queue.Give(now, &c.wait)
	c.own = u
	u.rest(now)
	t.note(now)
	t.freed()
}

// chooseOwn chooses the target of the client's private connection for the next exchange. If that has
// left the list, the connection is closed.
func (c *client) chooseOwn(now time.Time) {
	u := c.own
	if u == nil {
		return
	}
	if u.target.at.Status(now) == upstream.Draining {
		c.disown()
		return
	}
	c.at, c.mark = u.target.at, u.target.at.Epoch()
}

// disown closes the client's private connection, if there is one.
func (c *client) disown() {
	u := c.own
	if u == nil {
		return
	}
	c.own, u.owner = nil, nil
	u.target.over(c.server.loop.Now(), &c.wait)
	u.conn.Close()
}
