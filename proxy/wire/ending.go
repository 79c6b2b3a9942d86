package wire

import (
	"weir/proxy/session"
)

// end passes on the end of what one side of a tunnel sends.
func (c *client) end(fx *session.Effects) {
	if fx.EndUpstream && c.upstream != nil {
		c.upstream.conn.CloseWrite()
	}
	if fx.EndClient && c.conn != nil {
		c.conn.CloseWrite()
	}
}

// close ends the client's connection as its session says.
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
