package loop

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	// lingerMax is how long a lingering connection may live,
	// lingerIdleMax how long it may be silent.
	lingerMax     = 5 * time.Second
	lingerIdleMax = time.Second
	// lingerBytesMax is how much it may still send. It is large because
	// closing early is what loses the answer, and discarding is cheap.
	lingerBytesMax = 64 << 20
)

// Close closes the connection at once; unsent bytes may be lost. The Handler's
// Closed follows when its current call has returned.
func (c *Conn) Close() {
	if c.state != stateClosed {
		c.closeSock()
	}
}

// closeSock closes the descriptor now, on our wish. When it is gnet's, OnClose
// comes from inside.
func (c *Conn) closeSock() {
	c.state = max(c.state, stateDraining)
	if c.sock != nil {
		_ = c.loop.el.Close(c.sock)
	}
	c.gone(nil)
}

// CloseDrained closes the connection when everything written has been sent, or
// when the peer has taken nothing of it for Config.WriteStall.
func (c *Conn) CloseDrained() {
	switch c.state {
	case stateOpen, stateHalf:
		c.state = stateDraining
		c.loop.deadlines.Clear(&c.deadline)
		c.drainThenClose()
	case stateOpening: // opened goes on
		c.state = stateDraining
		c.loop.deadlines.Clear(&c.deadline)
	case statePaused:
		// What the kernel has not shown us would reset the connection: it
		// comes back and is discarded.
		if c.resume(); c.state == stateOpening {
			c.state = stateDraining
			c.loop.deadlines.Clear(&c.deadline)
		}
	}
}

// CloseLinger is CloseDrained for an answer given before the request was read
// to its end: after the last byte it half closes, reads on and discards for a
// bounded time and size, so that the reset which unread bytes cause does not
// overtake the answer (RFC 9112 section 9.6).
func (c *Conn) CloseLinger() {
	c.linger = true
	c.CloseDrained()
}

func (c *Conn) drainThenClose() {
	c.discard()
	switch {
	case c.state != stateDraining:
	case c.Unsent() > 0:
		c.watch()
	case c.linger && c.sock != nil:
		c.state = stateLingering
		_ = unix.Shutdown(c.sock.Fd(), unix.SHUT_WR)
		c.lingerEnd = c.loop.now.Add(lingerMax)
		c.setDeadline(c.loop.now.Add(lingerIdleMax))
	default:
		c.closeSock()
	}
}

// discard throws away what has arrived on a closing connection.
func (c *Conn) discard() {
	c.saved = nil
	if c.sock == nil {
		return
	}
	n := c.sock.InboundBuffered()
	if n == 0 {
		return
	}
	_, _ = c.sock.Discard(n)
	c.discarded += n
	if c.discarded > lingerBytesMax {
		c.closeSock()
		return
	}
	if c.state == stateLingering {
		idle := c.loop.now.Add(lingerIdleMax)
		if idle.After(c.lingerEnd) {
			idle = c.lingerEnd
		}
		c.setDeadline(idle)
	}
}

// gone notes that the socket is away for good. The Handler is told when the
// turn's current call has returned, never from inside it.
func (c *Conn) gone(cause error) {
	c.sock = nil
	if c.fd >= 0 {
		_ = unix.Close(c.fd)
		c.fd = -1
	}
	if c.closed {
		return
	}
	c.closed = true
	c.state = stateClosed
	c.cause = cause
	c.saved = nil
	c.dropOut()
	c.loop.deadlines.Remove(&c.deadline)
	switch {
	case c.secure != nil:
		c.secure.letGo()
	case c.accepted:
		c.loop.g.leave(c)
	}
	c.loop.closing = append(c.loop.closing, c)
}

func (c *Conn) tellClosed(now time.Time) {
	c.loop.conns.remove(c)
	if c.handler == nil {
		return
	}
	defer c.loop.caught(nil)
	c.handler.Closed(now, c.cause)
}
