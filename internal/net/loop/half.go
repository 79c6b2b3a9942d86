package loop

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// gnet closes a socket when its peer has ended, and drops unread bytes. A connection that
// outlives that end keeps a duplicate of the descriptor for writing, and passes on the unread
// bytes first.

// A peerState says what the peer may still send.
type peerState uint8

const (
	peerSends     peerState = iota // anything
	peerGone                       // only the bytes that the kernel holds
	peerEnded                      // nothing
	peerDelivered                  // nothing, and the last call of HalfCloser.End is done
)

// A HalfCloser is a Handler whose connections outlive the half close of their peer. For other
// Handlers the connection then ends, and unread bytes are lost.
type HalfCloser interface {
	// End is called when all bytes have been passed on and the peer has half closed;
	// unread is the number of unread bytes. It is called again after these bytes were
	// passed again, for the last time when none are left. The peer may still read: the
	// connection stays open until it is closed.
	End(now time.Time, unread int)
}

// outlives reports whether the connection outlives the end of its peer: because its Handler is
// a HalfCloser, or to send unsent bytes, or to see that the peer has them before a reset.
func (c *Conn) outlives() bool {
	if c.ending != endingNone {
		return c.Unsent() > 0 || c.ending == endingCut
	}
	_, ok := c.handler.(HalfCloser)
	return ok
}

// peerEnds handles the half close of the peer. It reports whether the other half of the
// connection stays open. It is called by OnClose, while gnet's descriptor is still open.
func (c *Conn) peerEnds() bool {
	if !c.outlives() || c.sending == sendingBroken {
		return false
	}
	fd, err := c.sock.Dup()
	if err != nil {
		return false
	}
	c.takeOver(c.sock.InboundBuffered())
	c.sock, c.fd, c.state, c.peer = nil, fd, stateDetached, peerEnded
	c.Pump()
	c.conclude()
	return true
}

// Unacked reports, in Handler.Closed of a dialled connection without TLS, whether the peer
// certainly closed before everything that was written had arrived there. So it has not read the
// end of that, unless it has only half closed and continued to read.
func (c *Conn) Unacked() bool { return c.unacked }

// Quiet reports whether the peer of a TLS connection has neither ended it nor sent bytes that TLS
// has not read. The Handler learns of an end later, through the pump. It is true without TLS: there
// Unacked says more.
func (c *Conn) Quiet() bool { return c.secure == nil || c.secure.Quiet() }

// owes reports whether a part of what was written is unacknowledged. The peer's FIN acknowledges
// everything that arrived before it was sent.
func (c *Conn) owes(fd int) bool {
	return c.sending == sendingBroken || c.Unsent() > 0 || c.loop.system.Unacked(fd) > 0
}

// peerLeft handles the end of the peer of a paused connection: only the bytes that the kernel
// holds are left.
func (c *Conn) peerLeft(err error) {
	if _, ok := c.handler.(HalfCloser); !ok || c.ending != endingNone {
		c.gone(err)
		return
	}
	c.peer = peerGone
	c.Pump()
}

// deliverEnd calls HalfCloser.End; had is the number of bytes that were just passed to the Handler.
func (c *Conn) deliverEnd(now time.Time, had int) {
	left := len(c.saved)
	switch {
	case c.peer == peerDelivered || c.pumping: // the rest is passed again first
	case c.peer == peerGone:
		if left < had {
			c.Pump()
		}
	default:
		if left == 0 {
			c.peer = peerDelivered
		}
		c.loop.protect(c, func() { c.handler.(HalfCloser).End(now, left) })
		if left == 0 && c.sending == sendingBroken {
			c.gone(unix.ECONNRESET) // neither direction is left
		}
	}
}

// restBytes is how much is read from the kernel at a time.
const restBytes = 64 << 10

// Fetch passes bytes that the kernel already holds to the Handler. A Handler calls it before it
// gives up its peer, because the loop may be late. It must not be called by Handler.Data.
func (c *Conn) Fetch() {
	if c.state != stateOpen || c.ending != endingNone {
		return
	}
	if c.loop.fetched == nil {
		c.loop.fetched = make([]byte, restBytes)
	}
	b := c.loop.fetched
	if n, _ := c.loop.system.Read(c.descriptor(), b); n > 0 { // the loop reports an end or an error later
		c.takeOver(c.sock.InboundBuffered())
		c.saved = append(c.saved, b[:n]...)
		c.feed(c.loop.now)
	}
}

// readRest reads more of the bytes that the kernel holds.
func (c *Conn) readRest() {
	had := len(c.saved)
	c.saved = slices.Grow(c.saved, restBytes)
	n, err := c.loop.system.Read(c.fd, c.saved[had:had+restBytes])
	c.saved = c.saved[:had+max(n, 0)]
	switch {
	case err != nil:
		c.gone(err)
	case n == 0 && c.secure != nil && c.secure.Reason() != nil:
		c.gone(c.secure.Reason())
	case n == 0:
		c.peer = peerEnded
	}
}
