package wire

import (
	"weir/internal/loop"
	"weir/proxy/session"
)

// end passes on the end of what one side of a tunnel sends.
func (c *client) end(fx *session.Effects) {
	if fx.EndUpstream && c.upstream != nil {
		c.upstream.conn.CloseWrite()
	}
	if fx.EndClient {
		c.conn.CloseWrite()
	}
}

// closeConn ends a client's connection as its session says.
func closeConn(c *loop.Conn, how session.Close) {
	switch how {
	case session.CloseDrained:
		c.CloseDrained()
	case session.CloseLinger:
		c.CloseLinger()
	case session.CloseAbort:
		c.Abort()
	}
}
