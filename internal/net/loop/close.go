package loop

import (
	"slices"
	"time"
)

const (
	// lingerMax bounds the time that a connection lingers, and lingerIdleMax the time
	// without bytes from its peer.
	lingerMax     = 5 * time.Second
	lingerIdleMax = time.Second
	// lingerBytesMax bounds the bytes that are discarded. It is large because an early
	// close would lose the answer, and discarding is cheap.
	lingerBytesMax = 64 << 20
)

// An ending says how to end the connection. It changes only to a later one of these; conclude
// carries it out.
type ending uint8

const (
	endingNone   ending = iota // not yet
	endingDrain                // when everything written has been sent
	endingLinger               // likewise, after a half close and some time of discarding
	endingCut                  // when the peer has everything written, by a reset, which tells it that data is missing
	endingNow                  // immediately, by a reset if that loses unsent bytes
	endingReset                // immediately, by a reset
)

// CloseDrained closes the connection when everything written has been sent, or when the peer
// has accepted nothing for Config.WriteStall.
func (c *Conn) CloseDrained() { c.end(endingDrain) }

// CloseLinger is CloseDrained for an answer that is sent before the request was read
// completely: after the last byte it half closes, and discards further bytes up to a bounded
// time and size. Otherwise unread bytes would cause a reset, which may destroy the answer
// (RFC 9112 section 9.6).
func (c *Conn) CloseLinger() { c.end(endingLinger) }

// CloseIncomplete is CloseDrained for an answer that stays incomplete: the peer gets everything that was
// written, which may include the end of an earlier answer, and then notices that data is missing.
// A reset discards what the peer has not acknowledged, so it waits for that.
func (c *Conn) CloseIncomplete() { c.end(endingCut) }

// Close closes the connection immediately. If bytes are unsent, they are lost, and the connection
// is reset. The Handler's Closed is called after its current call has returned.
func (c *Conn) Close() { c.end(endingNow) }

// Abort closes the connection immediately by a reset, so that the peer notices that data is
// missing. Unsent bytes are lost.
func (c *Conn) Abort() { c.end(endingReset) }

// Stalled reports, in Handler.Closed, whether the connection was closed because the peer accepted nothing for
// Config.WriteStall.
func (c *Conn) Stalled() bool { return c.stalled }

// SetIncomplete says whether what was written so far is only the beginning of something that the
// end of the connection would seem to complete. As long as it is, every end is a reset.
func (c *Conn) SetIncomplete(incomplete bool) { c.incomplete = incomplete }

// cuts reports whether the peer does not get all that it should, so that it must not be told of an
// orderly end: bytes are unsent, or more should have been written (RFC 9112 section 8).
func (c *Conn) cuts() bool {
	return c.ending == endingReset || c.ending == endingCut || c.incomplete || c.Unsent() > 0
}

// end sets the ending and carries it out as far as possible.
func (c *Conn) end(how ending) {
	if c.state == stateClosed || how <= c.ending {
		return
	}
	if c.ending == endingNone || how == endingCut { // a cut waits for Config.WriteStall, not for lingerMax
		c.loop.deadlines.Clear(&c.deadline)
		c.lingerEnd = time.Time{}
	}
	c.ending = how
	if c.batched() && how != endingReset {
		c.sendBatch()
	}
	c.conclude()
}

// conclude carries out the ending as far as currently possible. It is called when the ending,
// the state or the peer's state changes, and when unsent bytes have been sent. Each wait has
// a bound: that of the enrolment, Config.WriteStall or lingerMax.
func (c *Conn) conclude() {
	switch {
	case c.state == stateClosed || c.ending == endingNone:
		return
	case c.ending >= endingNow || c.sending == sendingBroken:
		c.gone(nil)
		return
	case c.state == stateEnrolling: // opened or failed continues
		return
	case c.paused():
		// Bytes that the kernel holds would cause a reset, so they are read and discarded.
		c.resume()
		return
	}
	c.discard()
	switch {
	case c.state == stateClosed:
	case c.Unsent() > 0: // look continues
	case c.ending == endingCut && c.owes(c.descriptor()) && c.loop.system.SocketError(c.descriptor()) == nil:
		c.watch() // if the peer has ended, gnet does not report that it resets the connection
	case c.ending == endingLinger && c.peer == peerSends:
		c.linger()
	default:
		c.gone(nil)
	}
}

// linger half closes, so that the peer has time to read before the close.
func (c *Conn) linger() {
	if !c.lingerEnd.IsZero() {
		return
	}
	c.loop.system.Shutdown(c.descriptor())
	c.lingerEnd = c.loop.now.Add(lingerMax)
	c.setDeadline(c.loop.now.Add(lingerIdleMax))
}

// discard discards what has arrived on a closing connection.
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

// gone ends the connection. The Handler is notified after the current call of the turn has
// returned, never during it.
func (c *Conn) gone(cause error) {
	if c.state == stateClosed {
		return
	}
	if c.ending != endingNone {
		cause = nil // we wanted to close, even if the peer was first
	}
	c.state, c.cause = stateClosed, cause
	c.heard()
	if c.secure != nil { // before the pump sees that the socket is closed, and sends a close_notify
		switch {
		case c.ending == endingCut && c.Unsent() == 0:
			c.secure.MarkIncomplete()
		case c.cuts():
			c.secure.Reset()
		}
	}
	c.closeSocket()
	c.saved = nil
	c.dropOut()
	c.loop.deadlines.Remove(&c.deadline)
	switch {
	case c.secure != nil:
		c.secure.OwnerClosed()
	case c.accepted:
		c.loop.g.leave(c)
	}
	c.loop.closing = append(c.loop.closing, c)
}

// closeSocket closes the descriptor, if there is one. A socket that is being enrolled is closed
// when it arrives.
func (c *Conn) closeSocket() {
	fd := c.descriptor()
	if fd < 0 {
		return
	}
	if c.cuts() && c.secure == nil {
		c.loop.system.Reset(fd)
	}
	sock := c.sock
	c.sock, c.fd = nil, -1
	if sock == nil {
		c.loop.system.Close(fd)
		return
	}
	_ = c.loop.el.Close(sock) // OnClose finds that the socket is no longer that of the Conn
}

func (c *Conn) notifyClosed(now time.Time) {
	if l := c.loop; c.at >= 0 { // the last one takes its place
		last := len(l.conns) - 1
		l.conns[c.at] = l.conns[last]
		l.conns[c.at].at = c.at
		l.conns = slices.Delete(l.conns, last, last+1)
		c.at = -1 // at the end, since c may be the last one
	}
	if c.handler == nil {
		return
	}
	defer c.loop.caught(nil)
	c.handler.Closed(now, c.cause)
}
