package sessiontest

import (
	"errors"
	"time"
)

// Bounds of connections, as those of internal/loop but small, so that they are
// met all the time.
const (
	inboundMax    = 4 << 10
	outboundMax   = 4 << 10
	writeStall    = 15 * time.Second
	lingerMax     = 5 * time.Second
	lingerIdleMax = time.Second
	deadlineStep  = 20 * time.Millisecond
)

var (
	errReset = errors.New("connection reset by peer")
	errStall = errors.New("the peer takes nothing")
)

// A handler is told what happens on a conn, as a loop.Handler is.
type handler interface {
	data(b []byte) int
	end(unread int)
	expired()
	writable()
	closed(err error)
}

// A peer is the other side of a conn. It is woken when there is something to
// take, room to send, or the end.
type peer interface{ wake() }

type connState uint8

const (
	connOpen connState = iota
	connDraining
	connLingering
	connClosed
)

// A conn is one connection as the proxy's loop has it, with the network behind
// it: the peer sends by arrive, fin and reset, and receives by take.
//
// Owned by its world.
type conn struct {
	w        *world
	id       int
	handler  handler
	peer     peer
	accepted bool
	log      *history

	in      []byte // arrived and not done with
	out     []byte // written and not sent
	network []byte // sent and not taken by the peer
	carries int    // bytes that the network holds

	state         connState
	finIn, ended  bool // the peer sends no more; the handler was told for the last time
	finOut        bool // we send no more
	aborted       bool // by us, or by the peer
	full, hungry  bool
	relieved      bool // no longer full, which the handler is yet to be told
	pumping       bool // is fed when the current call is over
	duplex        bool // is fed however much is unsent
	linger        bool
	lingerEnd     time.Time
	deadline      time.Time
	armed         time.Time // of the event that looks at the deadline
	progress      time.Time // when the peer last took something
	stallExpected bool      // an event looks after progress
}

func (w *world) newConn(accepted bool, log *history) *conn {
	w.serial++
	return &conn{w: w, id: w.serial, accepted: accepted, log: log, carries: 512 + w.IntN(8<<10)}
}

func (c *conn) note(what string, n int) {
	if c.accepted {
		c.log.note(c.w.now, "client "+what, int64(n), "")
	} else {
		c.log.note(c.w.now, "target "+what, int64(n), "")
	}
}

// room is how many bytes the peer may send now.
func (c *conn) room() int {
	if c.state != connOpen {
		return inboundMax // it is thrown away
	}
	return inboundMax - len(c.in)
}

// arrive is told of bytes that the peer has sent.
func (c *conn) arrive(b []byte) {
	c.note("sends", len(b))
	c.in = append(c.in, b...)
	c.feed()
}

// fin is told that the peer sends no more.
func (c *conn) fin() {
	if c.finIn || c.state == connClosed {
		return
	}
	c.note("ends", 0)
	c.finIn = true
	c.feed()
}

// reset is told that the peer has reset the connection.
func (c *conn) reset() {
	if c.state == connClosed {
		return
	}
	c.note("resets", 0)
	c.aborted, c.network = true, nil
	c.gone(errReset)
}

// take returns what the peer receives, at most n bytes.
func (c *conn) take(n int) []byte {
	n = min(n, len(c.network))
	b := c.network[:n:n]
	c.network = c.network[n:]
	c.progress = c.w.now
	c.flush()
	return b
}

// over says whether the peer has received all there is, and whether that is the
// end it was told or a reset.
func (c *conn) over() (ended, reset bool) {
	if c.aborted {
		return true, true
	}
	return len(c.network) == 0 && (c.state == connClosed || c.finOut && len(c.out) == 0), false
}

// pump has the handler shown its unread bytes again, after the current call.
func (c *conn) pump() {
	c.pumping = true
	c.w.turn(c.feed)
}

// feed shows the handler what there is.
func (c *conn) feed() {
	c.pumping = false
	switch c.state {
	case connClosed:
		return
	case connDraining, connLingering:
		c.discard()
		return
	}
	if c.hungry = c.accepted && !c.duplex && len(c.out) > outboundMax; c.hungry {
		return
	}
	if len(c.in) > 0 {
		c.show()
	}
	if c.state == connOpen && c.finIn && !c.ended && !c.pumping {
		c.ended = len(c.in) == 0
		c.handler.end(len(c.in))
	}
}

func (c *conn) show() {
	had := len(c.in)
	n := c.w.lend(c.in, c.handler.data)
	if n < 0 || n > had {
		c.w.failed(c.log, "of %d bytes %d are done with", had, n)
		return
	}
	c.in = c.in[min(n, len(c.in)):]
	if n > 0 {
		c.peer.wake()
	}
}

// discard throws away what comes on a closing connection.
func (c *conn) discard() {
	had := len(c.in)
	c.in = nil
	switch {
	case c.finIn && c.state == connLingering:
		c.gone(nil)
	case had > 0 && c.state == connLingering:
		idle := c.w.now.Add(lingerIdleMax)
		if idle.After(c.lingerEnd) {
			idle = c.lingerEnd
		}
		c.setDeadline(idle)
	}
}

// write sends b, or keeps what cannot be sent at once.
func (c *conn) write(b []byte) {
	if c.state != connOpen || c.finOut || len(b) == 0 {
		return
	}
	if len(c.out) == 0 {
		c.progress = c.w.now
	}
	c.out = append(c.out, b...)
	c.flush()
	if len(c.out) > outboundMax {
		c.full = true
	}
	c.watch()
}

// flush hands the network what it carries.
func (c *conn) flush() {
	if n := min(len(c.out), c.carries+1-len(c.network)); n > 0 {
		c.network = append(c.network, c.out[:n]...)
		c.out = c.out[n:]
		c.progress = c.w.now
	}
	c.peer.wake()
	if c.hungry && len(c.out) <= outboundMax {
		c.hungry = false
		c.pump()
	}
	if c.full && len(c.out) <= outboundMax/2 {
		c.full, c.relieved = false, true
		c.w.after(c.w.within(5*time.Millisecond), func() {
			c.relieved = false
			if c.state == connOpen && !c.full {
				c.handler.writable()
			}
		})
	}
	if len(c.out) == 0 && c.state == connDraining {
		c.drained()
	}
}

// watch closes a connection whose peer takes nothing for long.
func (c *conn) watch() {
	if c.stallExpected || len(c.out) == 0 || c.state == connClosed {
		return
	}
	c.stallExpected = true
	c.w.at(c.progress.Add(writeStall), func() {
		c.stallExpected = false
		if len(c.out) > 0 && c.w.now.Sub(c.progress) >= writeStall {
			c.gone(errStall)
			return
		}
		c.watch()
	})
}

// setDeadline has expired told; the zero time takes it away.
func (c *conn) setDeadline(at time.Time) {
	c.deadline = at
	if at.IsZero() || !c.armed.IsZero() && !at.Before(c.armed) {
		return
	}
	c.armed = at
	c.w.at(at.Add(c.w.within(deadlineStep)), func() { c.due(at) })
}

// due looks whether the deadline has passed.
func (c *conn) due(armed time.Time) {
	if !armed.Equal(c.armed) || c.state == connClosed {
		return
	}
	c.armed = time.Time{}
	switch {
	case c.deadline.IsZero():
	case c.w.now.Before(c.deadline):
		c.setDeadline(c.deadline)
	case c.state == connLingering:
		c.gone(nil)
	default:
		c.deadline = time.Time{}
		c.handler.expired()
	}
}

func (c *conn) closeWrite() {
	c.finOut = true
	c.peer.wake()
}

// close closes at once; what is unsent is lost.
func (c *conn) close() {
	if c.state != connClosed {
		c.gone(nil)
	}
}

// closeDrained closes when all is sent; with linger what still comes is
// discarded for a while.
func (c *conn) closeDrained(linger bool) {
	if c.state != connOpen {
		return
	}
	c.linger = linger
	c.state, c.in = connDraining, nil
	c.setDeadline(time.Time{})
	if len(c.out) == 0 {
		c.drained()
	}
}

func (c *conn) drained() {
	if !c.linger {
		c.gone(nil)
		return
	}
	c.state, c.finOut = connLingering, true
	c.lingerEnd = c.w.now.Add(lingerMax)
	c.setDeadline(c.w.now.Add(lingerIdleMax))
	c.peer.wake()
	if c.finIn {
		c.gone(nil)
	}
}

// abort resets the connection.
func (c *conn) abort() {
	if c.state != connClosed {
		c.aborted, c.network = true, nil
		c.gone(nil)
	}
}

// gone ends the connection; its handler is told at the end of the turn.
func (c *conn) gone(cause error) {
	if c.state == connClosed {
		return
	}
	c.state, c.in, c.out = connClosed, nil, nil
	c.note("is closed: "+reason(cause), 0)
	c.deadline = time.Time{}
	c.w.turn(func() { c.handler.closed(cause) })
	c.peer.wake()
}

func reason(err error) string {
	if err == nil {
		return "by the proxy"
	}
	return err.Error()
}

// stalls: the peer takes nothing for the moment, as far as the handler knows.
func (c *conn) stalls() bool { return c.full || c.relieved }
