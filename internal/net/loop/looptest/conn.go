package looptest

import (
	"errors"
	"time"
)

// Bounds of a Conn. They are smaller than those of package loop, so that they are often
// reached.
const (
	InboundMax  = 4 << 10
	OutboundMax = 4 << 10
)

const (
	writeStall    = 15 * time.Second
	lingerMax     = 5 * time.Second
	lingerIdleMax = time.Second
	deadlineStep  = 20 * time.Millisecond
)

var (
	errReset = errors.New("connection reset by peer")
	errStall = errors.New("the peer takes nothing")
)

// A Handler handles the events of a Conn, like a loop.Handler.
type Handler interface {
	Data(b []byte) int
	End(unread int)
	Expired()
	Writable()
	Closed(err error)
}

// A Peer is the other end of a Conn. Wake is called when it can receive or send, or the
// connection has ended.
type Peer interface{ Wake() }

type connState uint8

const (
	connOpen connState = iota
	connDraining
	connLingering
	connClosed
)

// A Conn is a connection of a loop together with the network: the peer sends with Arrive, Fin
// and Reset, and receives with Take. The other methods are those of loop.Conn.
//
// Owned by its World.
type Conn struct {
	ID      int
	Handler Handler
	Peer    Peer
	Log     *History
	Duplex  bool // data is passed on regardless of unsent bytes

	w        *World
	accepted bool

	in      []byte // received and not consumed
	out     []byte // written and not sent
	network []byte // sent and not received by the peer
	carries int    // capacity of the network in bytes

	state         connState
	finIn, ended  bool // the peer sends no more; the handler was notified for the last time
	finOut        bool // we send no more
	aborted       bool // by us, or by the peer
	full, blocked bool
	relieved      bool // no longer full, and the handler must still be notified
	pumping       bool // is called again after the current call
	linger        bool
	lingerEnd     time.Time
	deadline      time.Time
	armed         time.Time // of the event that looks at the deadline
	progress      time.Time // when the peer last took something
	stallExpected bool      // an event looks after progress
}

// NewConn returns an accepted or dialled connection. Its Handler and Peer must be set before
// its first event.
func (w *World) NewConn(accepted bool, log *History) *Conn {
	return &Conn{w: w, ID: w.Serial(), accepted: accepted, Log: log, carries: 512 + w.IntN(8<<10)}
}

// Open reports whether the connection is open and not to be closed.
func (c *Conn) Open() bool { return c.state == connOpen }

// Unread returns how many bytes the handler has not consumed.
func (c *Conn) Unread() int { return len(c.in) }

// Unsent returns how many bytes are not sent.
func (c *Conn) Unsent() int { return len(c.out) }

// Sent returns how many bytes are sent and not received by the peer.
func (c *Conn) Sent() int { return len(c.network) }

// Full corresponds to Full of loop.Conn.
func (c *Conn) Full() bool { return c.full }

// Blocked reports whether data is not passed on because too many bytes are unsent.
func (c *Conn) Blocked() bool { return c.blocked }

// Ended reports whether the peer has ended its direction.
func (c *Conn) Ended() bool { return c.finIn }

func (c *Conn) note(what string, n int) {
	if c.accepted {
		c.Log.Note(c.w.Now, "client "+what, int64(n), "")
	} else {
		c.Log.Note(c.w.Now, "target "+what, int64(n), "")
	}
}

// Room returns how many bytes the peer may send now.
func (c *Conn) Room() int {
	if c.state != connOpen {
		return InboundMax // the bytes are discarded
	}
	return InboundMax - len(c.in)
}

// Arrive simulates that the peer sends b.
func (c *Conn) Arrive(b []byte) {
	c.note("sends", len(b))
	c.in = append(c.in, b...)
	c.feed()
}

// Fin simulates that the peer ends its direction.
func (c *Conn) Fin() {
	if c.finIn || c.state == connClosed {
		return
	}
	c.note("ends", 0)
	c.finIn = true
	c.feed()
}

// Reset simulates a reset by the peer.
func (c *Conn) Reset() {
	if c.state == connClosed {
		return
	}
	c.note("resets", 0)
	c.aborted, c.network = true, nil
	c.gone(errReset)
}

// Take returns at most n bytes that the peer receives.
func (c *Conn) Take(n int) []byte {
	n = min(n, len(c.network))
	b := c.network[:n:n]
	c.network = c.network[n:]
	c.progress = c.w.Now
	c.flush()
	return b
}

// Over reports whether the peer has received everything, and whether the end was a reset.
func (c *Conn) Over() (ended, reset bool) {
	if c.aborted {
		return true, true
	}
	return len(c.network) == 0 && (c.state == connClosed || c.finOut && len(c.out) == 0), false
}

// Pump passes the unread bytes to the handler again after the current call.
func (c *Conn) Pump() {
	c.pumping = true
	c.w.Turn(c.feed)
}

// Pumping reports whether unread bytes will be passed on again after the current call.
func (c *Conn) Pumping() bool { return c.pumping }

// feed passes on the received bytes and the end.
func (c *Conn) feed() {
	c.pumping = false
	switch c.state {
	case connClosed:
		return
	case connDraining, connLingering:
		c.discard()
		return
	}
	if c.blocked = c.accepted && !c.Duplex && len(c.out) > OutboundMax; c.blocked {
		return
	}
	if len(c.in) > 0 {
		c.show()
	}
	if c.state == connOpen && c.finIn && !c.ended && !c.pumping {
		c.ended = len(c.in) == 0
		c.Handler.End(len(c.in))
	}
}

func (c *Conn) show() {
	had := len(c.in)
	n := c.w.Lend(c.in, c.Handler.Data)
	if n < 0 || n > had {
		c.w.Failed(c.Log, "of %d bytes %d are done with", had, n)
		return
	}
	c.in = c.in[min(n, len(c.in)):]
	if n > 0 {
		c.Peer.Wake()
	}
}

// discard discards bytes received on a closing connection.
func (c *Conn) discard() {
	had := len(c.in)
	c.in = nil
	switch {
	case c.finIn && c.state == connLingering:
		c.gone(nil)
	case had > 0 && c.state == connLingering:
		idle := c.w.Now.Add(lingerIdleMax)
		if idle.After(c.lingerEnd) {
			idle = c.lingerEnd
		}
		c.SetDeadline(idle)
	}
}

// Write sends b; what cannot be sent now is kept.
func (c *Conn) Write(b []byte) {
	if c.state != connOpen || c.finOut || len(b) == 0 {
		return
	}
	if len(c.out) == 0 {
		c.progress = c.w.Now
	}
	c.out = append(c.out, b...)
	c.flush()
	if len(c.out) > OutboundMax {
		c.full = true
	}
	c.watch()
}

// flush moves as many unsent bytes to the network as it has capacity for.
func (c *Conn) flush() {
	if n := min(len(c.out), c.carries+1-len(c.network)); n > 0 {
		c.network = append(c.network, c.out[:n]...)
		c.out = c.out[n:]
		c.progress = c.w.Now
	}
	c.Peer.Wake()
	if c.blocked && len(c.out) <= OutboundMax {
		c.blocked = false
		c.Pump()
	}
	if c.full && len(c.out) <= OutboundMax/2 {
		c.full, c.relieved = false, true
		c.w.After(c.w.Within(5*time.Millisecond), func() {
			c.relieved = false
			if c.state == connOpen && !c.full {
				c.Handler.Writable()
			}
		})
	}
	if len(c.out) == 0 && c.state == connDraining {
		c.drained()
	}
}

// watch closes the connection if the peer receives nothing for writeStall.
func (c *Conn) watch() {
	if c.stallExpected || len(c.out) == 0 || c.state == connClosed {
		return
	}
	c.stallExpected = true
	c.w.At(c.progress.Add(writeStall), func() {
		c.stallExpected = false
		if len(c.out) > 0 && c.w.Now.Sub(c.progress) >= writeStall {
			c.gone(errStall)
			return
		}
		c.watch()
	})
}

// SetDeadline sets the time at which Expired is called; the zero time clears it.
func (c *Conn) SetDeadline(at time.Time) {
	c.deadline = at
	if at.IsZero() || !c.armed.IsZero() && !at.Before(c.armed) {
		return
	}
	c.armed = at
	c.w.At(at.Add(c.w.Within(deadlineStep)), func() { c.due(at) })
}

// due checks whether the deadline has passed.
func (c *Conn) due(armed time.Time) {
	if !armed.Equal(c.armed) || c.state == connClosed {
		return
	}
	c.armed = time.Time{}
	switch {
	case c.deadline.IsZero():
	case c.w.Now.Before(c.deadline):
		c.SetDeadline(c.deadline)
	case c.state == connLingering:
		c.gone(nil)
	default:
		c.deadline = time.Time{}
		c.Handler.Expired()
	}
}

// CloseWrite ends our direction.
func (c *Conn) CloseWrite() {
	c.finOut = true
	c.Peer.Wake()
}

// Close closes at once; unsent bytes are lost.
func (c *Conn) Close() {
	if c.state != connClosed {
		c.gone(nil)
	}
}

// CloseDrained closes when all bytes are sent. With linger, bytes received afterwards are
// discarded for a while.
func (c *Conn) CloseDrained(linger bool) {
	if c.state != connOpen {
		return
	}
	c.linger = linger
	c.state, c.in = connDraining, nil
	c.SetDeadline(time.Time{})
	if len(c.out) == 0 {
		c.drained()
	}
}

func (c *Conn) drained() {
	if !c.linger {
		c.gone(nil)
		return
	}
	c.state, c.finOut = connLingering, true
	c.lingerEnd = c.w.Now.Add(lingerMax)
	c.SetDeadline(c.w.Now.Add(lingerIdleMax))
	c.Peer.Wake()
	if c.finIn {
		c.gone(nil)
	}
}

// Abort resets the connection.
func (c *Conn) Abort() {
	if c.state != connClosed {
		c.aborted, c.network = true, nil
		c.gone(nil)
	}
}

// gone ends the connection; Closed is called at the end of the turn.
func (c *Conn) gone(cause error) {
	if c.state == connClosed {
		return
	}
	c.state, c.in, c.out = connClosed, nil, nil
	c.note("is closed: "+reason(cause), 0)
	c.deadline = time.Time{}
	c.w.Turn(func() { c.Handler.Closed(cause) })
	c.Peer.Wake()
}

func reason(err error) string {
	if err == nil {
		return "by the proxy"
	}
	return err.Error()
}

// Stalls reports whether, as far as the handler knows, the peer does not receive at present.
func (c *Conn) Stalls() bool { return c.full || c.relieved }
