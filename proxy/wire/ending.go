package wire

import (
	"time"

	"weir/proxy/exchange"
	"weir/proxy/session"
)

// end passes on that one side of a tunnel has finished sending.
func (c *client) end(fx *session.Effects) {
	if fx.EndUpstream && c.upstream != nil {
		c.upstream.conn.CloseWrite()
	}
	if fx.EndClient && c.conn != nil {
		c.conn.CloseWrite()
	}
}

// close closes the client connection in the way that the session requests.
func (c *client) close(how session.Close) {
	if c.conn == nil {
		return
	}
	switch how {
	case session.CloseDrained:
		c.conn.CloseDrained()
	case session.CloseLinger:
		c.conn.CloseLinger()
	case session.CloseAbort:
		c.conn.Abort()
	}
}

// release handles that the session no longer needs its connection. A connection that is being
// closed stays in the pool's count until it has closed.
func (c *client) release(now time.Time, how exchange.Release) {
	u := c.upstream
	if u == nil {
		return
	}
	c.upstream = nil
	if how == exchange.ReleasePrivate {
		c.keep(now, u)
		return
	}
	if how == exchange.ReleaseEnd {
		u.conn.CloseDrained() // until then it keeps its place
		return
	}
	u.owner = nil
	u.target.over(now, c)
	switch {
	// The target has answered without reading the whole request. It would take the rest
	// for the start of the next request.
	case how == exchange.ReleaseDiscard || u.conn.Unsent() > 0:
		u.conn.Close()
	default:
		u.free(now)
	}
}
