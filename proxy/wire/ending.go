package wire

import (
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
