package loop

import "time"

const (
	// lingerMax is how long a lingering connection may live,
	// lingerIdleMax how long it may be silent.
	lingerMax     = 5 * time.Second
	lingerIdleMax = time.Second
	// lingerBytesMax is how much it may still send. It is large because
	// closing early is what loses the answer, and discarding is cheap.
	lingerBytesMax = 64 << 20
)

// An ending says how the connection is to end. It only ever becomes a later
// one of these, and conclude acts on it.
type ending uint8

const (
	endingNone   ending = iota // not yet
	endingDrain                // when everything written has been sent
	endingLinger               // likewise, but after a half close and a while of discarding
	endingNow                  // at once
	endingReset                // at once, and the peer is told that something is missing
)

// String names the ending in failures of tests.
func (e ending) String() string { return [...]string{"none", "drain", "linger", "now", "reset"}[e] }

// CloseDrained closes the connection when everything written has been sent, or
// when the peer has taken nothing of it for Config.WriteStall.
func (c *Conn) CloseDrained() { c.end(endingDrain) }

// CloseLinger is CloseDrained for an answer given before the request was read
// to its end: after the last byte it half closes, reads on and discards for a
// bounded time and size, so that the reset which unread bytes cause does not
// overtake the answer (RFC 9112 section 9.6).
func (c *Conn) CloseLinger() { c.end(endingLinger) }

// Close closes the connection at once; unsent bytes may be lost. The Handler's
// Closed follows when its current call has returned.
func (c *Conn) Close() { c.end(endingNow) }

// Abort closes the connection at once by a reset, so that the peer does not
// take what it has for everything. Unsent bytes are lost.
func (c *Conn) Abort() { c.end(endingReset) }

// end notes how the connection is to end and does what can be done at once.
func (c *Conn) end(how ending) {
	if c.state == stateClosed || how <= c.ending {
		return
	}
	if c.ending == endingNone {
		c.loop.deadlines.Clear(&c.deadline)
	}
	c.ending = how
	c.conclude()
}

// conclude brings a connection that is to end as far towards its end as it can
// get for now. It is called whenever the ending, the place of the socket or
// the peer changes, and when unsent bytes are gone. Each way to wait here has
// a bound: that of the enrolment, Config.WriteStall or lingerMax.
func (c *Conn) conclude() {
	switch {
	case c.state == stateClosed || c.ending == endingNone:
		return
	case c.ending >= endingNow || c.sending == sendingBroken:
		c.gone(nil)
		return
	case c.state == stateAway: // opened or failed goes on
		return
	case c.paused():
		// What the kernel has not shown us would reset the connection: it
		// comes back and is discarded.
		c.resume()
		return
	}
	c.discard()
	switch {
	case c.state == stateClosed:
	case c.Unsent() > 0: // look goes on
	case c.ending == endingLinger && c.peer == peerSends:
		c.linger()
	default:
		c.gone(nil)
	}
}

// linger half closes and gives the peer time to read before the close.
func (c *Conn) linger() {
	if !c.lingerEnd.IsZero() {
		return
	}
	c.loop.kernel.shutdown(c.descriptor())
	c.lingerEnd = c.loop.now.Add(lingerMax)
	c.setDeadline(c.loop.now.Add(lingerIdleMax))
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
		c.gone(nil)
		return
	}
	if !c.lingerEnd.IsZero() {
		idle := c.loop.now.Add(lingerIdleMax)
		if idle.After(c.lingerEnd) {
			idle = c.lingerEnd
		}
		c.setDeadline(idle)
	}
}

// gone ends the connection for good. The Handler is told when the turn's
// current call has returned, never from inside it.
func (c *Conn) gone(cause error) {
	if c.state == stateClosed {
		return
	}
	if c.ending != endingNone {
		cause = nil // closing was our wish, whoever was first
	}
	c.state, c.cause = stateClosed, cause
	c.closeSocket()
	c.saved = nil
	c.dropOut()
	c.loop.deadlines.Remove(&c.deadline)
	switch {
	case c.secure != nil:
		if c.ending == endingReset {
			c.secure.Reset()
		}
		c.secure.LetGo()
	case c.accepted:
		c.loop.g.leave(c)
	}
	c.loop.closing = append(c.loop.closing, c)
}

// closeSocket closes the descriptor, if there is one: a socket on its way into
// the loop is closed when it arrives.
func (c *Conn) closeSocket() {
	fd := c.descriptor()
	if fd < 0 {
		return
	}
	if c.ending == endingReset && c.secure == nil {
		c.loop.kernel.reset(fd)
	}
	sock := c.sock
	c.sock, c.fd = nil, -1
	if sock == nil {
		c.loop.kernel.close(fd)
		return
	}
	_ = c.loop.el.Close(sock) // OnClose sees that the socket is not ours any more
}

func (c *Conn) tellClosed(now time.Time) {
	c.loop.conns.remove(c)
	if c.handler == nil {
		return
	}
	defer c.loop.caught(nil)
	c.handler.Closed(now, c.cause)
}
