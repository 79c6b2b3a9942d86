package wire

import (
	"time"

	"weir/proxy/upstream"
)

// A connection that a target has authenticated is the client's own: while the
// client asks for nothing it waits beside the pool, where it counts as busy and
// takes one of the places for streams.

// keep has sv wait for the client's next request. Without a place for it, it
// is closed, and the client has to log in anew.
func (c *client) keep(now time.Time, sv *server) {
	t := sv.target
	if sv.conn.Unsent() > 0 || !t.pool.Stream(&c.wait) {
		sv.owner = nil
		t.over(now, c)
		sv.conn.Close()
		return
	}
	c.side.line.Give(now, &c.wait)
	c.own = sv
	sv.rest(now)
	t.note(now)
	t.freed()
}

// serveOwn has the next exchange go over the client's own connection; false:
// there is none, or its target has left the list.
func (c *client) serveOwn(now time.Time) bool {
	sv := c.own
	if sv == nil {
		return false
	}
	if sv.target.at.Status(now) == upstream.Draining {
		c.disown()
		return false
	}
	c.own = nil
	c.at, c.mark = sv.target.at, sv.target.at.Mark()
	c.serve(now, sv, false)
	return true
}

// disown closes the client's own connection, if there is one.
func (c *client) disown() {
	sv := c.own
	if sv == nil {
		return
	}
	c.own, sv.owner = nil, nil
	sv.target.over(c.side.loop.Now(), c)
	sv.conn.Close()
}
