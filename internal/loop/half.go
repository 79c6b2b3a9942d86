package loop

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// gnet closes a socket at the end of what its peer sends, with what has not
// been shown. A connection that outlives that end keeps a duplicate of the
// descriptor, for writing, and shows first what is unread.

// A peerState says what is still to come from the peer.
type peerState uint8

const (
	peerSends peerState = iota // more may come
	peerGone                   // nothing but what the kernel holds
	peerEnded                  // nothing
	peerTold                   // and the Handler has been told for the last time
)

// An Ender is a Handler whose connections outlive the end of what their peer
// sends. For other Handlers that end is the connection's, and unread bytes are
// lost.
type Ender interface {
	// End says, when all bytes have been shown, that the peer sends no more,
	// and how many of them are unread. A Handler that waits for room to go on
	// is told again when it was shown them again; with none left it is told
	// for the last time. The peer may still read: the connection lives until
	// it is closed.
	End(now time.Time, unread int)
}

// outlives reports whether the connection goes on when its peer sends no more:
// because its Handler wants to know, or to send what is unsent before it ends.
func (c *Conn) outlives() bool {
	if c.ending != endingNone {
		return c.Unsent() > 0
	}
	_, ok := c.handler.(Ender)
	return ok
}

// peerEnds is told that the peer sends no more, and keeps the half of the
// connection that is left, if it can. It reports whether it did. It is called
// from OnClose, while gnet's descriptor is still open.
func (c *Conn) peerEnds() bool {
	if !c.outlives() || c.sending == sendingBroken {
		return false
	}
	fd, err := c.sock.Dup()
	if err != nil {
		return false
	}
	c.takeOver(c.sock.InboundBuffered())
	c.sock, c.fd, c.state, c.peer = nil, fd, stateOurs, peerEnded
	c.Pump()
	c.conclude()
	return true
}

// peerLeft is told that the peer of a paused connection is gone: only what the
// kernel holds of its bytes is left.
func (c *Conn) peerLeft(err error) {
	if _, ok := c.handler.(Ender); !ok || c.ending != endingNone {
		c.gone(err)
		return
	}
	c.peer = peerGone
	c.Pump()
}

// tellEnd tells the Handler that the peer sends no more; had is how many bytes
// it has just been shown.
func (c *Conn) tellEnd(now time.Time, had int) {
	left := len(c.saved)
	switch {
	case c.peer == peerTold || c.pumping: // not yet: it is shown the rest again
	case c.peer == peerGone:
		if left < had {
			c.Pump()
		}
	default:
		if left == 0 {
			c.peer = peerTold
		}
		c.loop.protect(c, func() { c.handler.(Ender).End(now, left) })
		if left == 0 && c.sending == sendingBroken {
			c.gone(unix.ECONNRESET) // nothing is left of it
		}
	}
}

// restBytes is how much of what the kernel holds is read at a time.
const restBytes = 64 << 10

// Fetch shows the Handler what has arrived and waits in the kernel for its turn: a Handler that is
// about to give its peer up calls it first, as the loop may be late. It is not for Handler.Data.
func (c *Conn) Fetch() {
	if c.state != stateOpen || c.ending != endingNone {
		return
	}
	b := make([]byte, restBytes)
	if n, _ := c.loop.kernel.read(c.descriptor(), b); n > 0 { // the loop reports an end or an error in its turn
		c.takeOver(c.sock.InboundBuffered())
		c.saved = append(c.saved, b[:n]...)
		c.feed(c.loop.now)
	}
}

// readRest reads on in what the kernel holds.
func (c *Conn) readRest() {
	had := len(c.saved)
	c.saved = slices.Grow(c.saved, restBytes)
	n, err := c.loop.kernel.read(c.fd, c.saved[had:had+restBytes])
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
