package loop

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// gnet closes a socket at the end of what its peer sends, with what has not
// been shown. A connection that outlives that end keeps a duplicate of the
// descriptor, for writing, and shows first what is unread.

// An Ender is a Handler whose connections outlive the end of what their peer
// sends, if they say so by Conn.KeepHalf.
type Ender interface {
	// End says, when all bytes have been shown, that the peer sends no more,
	// and how many of them are unread. A Handler that waits for room to go on
	// is told again when it was shown them again; with none left it is told
	// for the last time. The peer may still read: the connection lives until
	// it is closed.
	End(now time.Time, unread int)
}

// KeepHalf has the connection outlive the end of what its peer sends: its
// Handler, which must be an Ender, is told. Otherwise that end is the
// connection's, and unread bytes are lost.
func (c *Conn) KeepHalf(keep bool) { c.halves = keep }

// SetDuplex has an accepted connection's Handler be fed however many of its
// answers wait unsent: it sees to their bound itself.
func (c *Conn) SetDuplex(duplex bool) {
	c.duplex = duplex
	if duplex && c.hungry {
		c.hungry = false
		c.Pump()
	}
}

// half keeps the half of the connection that is left and reports whether there
// is one. It is called from OnClose, while gnet's descriptor is still open.
func (c *Conn) half() bool {
	if !c.halves || c.state != stateOpen || c.broken {
		return false
	}
	fd, err := c.sock.Dup()
	if err != nil {
		return false
	}
	c.takeOver(c.sock.InboundBuffered())
	c.sock, c.fd, c.state = nil, fd, stateHalf
	c.Pump()
	return true
}

// feedHalf shows what the peer had sent, and then that it was all.
func (c *Conn) feedHalf(now time.Time) {
	if c.rest && len(c.saved) <= c.loop.g.cfg.InboundMax/2 {
		c.readRest()
	}
	had := len(c.saved)
	if had > 0 {
		c.showSaved(now)
	}
	switch {
	case c.state != stateHalf || c.ended:
	case c.rest:
		if len(c.saved) < had {
			c.Pump()
		}
	default:
		c.ended = len(c.saved) == 0
		defer c.loop.caught(c)
		c.handler.(Ender).End(now, len(c.saved))
	}
}

// finish turns a paused connection whose peer is gone into one of which only
// what the kernel holds is left: gnet does not take a socket without a peer's
// address.
func (c *Conn) finish() {
	if !c.halves {
		c.gone(unix.ECONNRESET)
		return
	}
	c.state, c.rest = stateHalf, true
	c.Pump()
}

// restBytes is how much of what the kernel holds is read at a time.
const restBytes = 64 << 10

// readRest reads on in what the kernel holds.
func (c *Conn) readRest() {
	had := len(c.saved)
	c.saved = slices.Grow(c.saved, restBytes)
	n, err := unix.Read(c.fd, c.saved[had:had+restBytes])
	c.saved = c.saved[:had+max(n, 0)]
	switch {
	case err != nil:
		c.gone(err)
	case n == 0 && c.secure != nil && c.secure.reason() != nil:
		c.gone(c.secure.reason())
	case n == 0:
		c.rest = false
	}
}
