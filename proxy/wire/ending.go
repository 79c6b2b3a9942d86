package wire

import (
	"time"

	"weir/proxy/abandon"
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
// closed stays in the pool's count until it has closed. left is what ReleaseAbandon leaves of the
// exchange.
func (c *client) release(now time.Time, how exchange.Release, left *abandon.Exchange) {
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
	if how == exchange.ReleaseAbandon && u.conn.Unsent() == 0 {
		u.abandon(now, c, left)
		return
	}
	u.target.over(now, &c.wait)
	switch {
	// The target has not got the whole request, or has answered without reading it. It would take
	// the rest for the start of the next request.
	case how == exchange.ReleaseDiscard || u.conn.Unsent() > 0:
		u.conn.Close()
	default:
		u.free(now)
	}
}
