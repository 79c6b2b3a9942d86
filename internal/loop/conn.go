package loop

import (
	"net/netip"
	"time"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"

	"weir/internal/deadline"
	"weir/internal/pump"
)

// A connState says where the socket is.
type connState uint8

const (
	stateAway   connState = iota // nobody: it is on its way into the loop
	stateOpen                    // the loop
	stateOurs                    // we: reading is paused, or the peer sends no more
	stateClosed                  // nobody: it is gone
)

// A Conn is one connection of a loop: an accepted one or a dialled one. Its methods are
// for its loop only.
//
// Owned by its loop.
type Conn struct {
	loop    *Loop
	handler Handler
	sock    gnet.Conn // while the loop has the socket, else nil
	fd      int       // the socket while it is ours, else -1
	remote  netip.AddrPort
	local   netip.AddrPort // of an accepted connection
	accept  AcceptFunc     // makes the Handler of an accepted connection
	dialled DialFunc       // or of a dialled one; nil once it has
	secure  *pump.Pump     // to the peer, of a TLS connection

	state   connState
	ending  ending    // how it is to end
	peer    peerState // what is still to come
	sending sendingState

	accepted bool // counted in Group.open
	duplex   bool // is fed however many bytes wait unsent
	pumping  bool // in Loop.pumps
	watching bool // in Loop.watched
	hungry   bool // has unread bytes that wait for unsent ones to leave
	full     bool // more than OutboundMax were unsent

	saved []byte // unread bytes taken over from gnet
	cause error  // why it was closed
	out   []byte // unsent; see write.go
	sent  int    // bytes of out that have been sent

	deadline       deadline.Entry[*Conn]
	lookAt         time.Time     // when to try again to send
	lookPause      time.Duration // and the pause before that
	progressed     time.Time     // when something was last sent
	discarded      int           // bytes read while closing
	lingerEnd      time.Time     // zero: does not linger yet
	prev, nextConn *Conn
}

func newConn(l *Loop) *Conn {
	c := &Conn{loop: l, fd: -1}
	c.deadline.Value = c
	return c
}

// Loop is the loop that the connection belongs to.
func (c *Conn) Loop() *Loop { return c.loop }

// Remote is the address of the peer.
func (c *Conn) Remote() netip.AddrPort { return c.remote }

// Local is our address of an accepted connection.
func (c *Conn) Local() netip.AddrPort { return c.local }

// SetDuplex has an accepted connection's Handler be fed however many of its
// answers wait unsent: it sees to their bound itself.
func (c *Conn) SetDuplex(duplex bool) {
	c.duplex = duplex
	if duplex && c.hungry || c.answersNobody() {
		c.hungry = false
		c.Pump()
	}
}

// opened is told that the socket is in the loop, for the first time or again.
func (c *Conn) opened(now time.Time, sock gnet.Conn) {
	c.sock = sock
	if c.state == stateClosed { // closed while on its way
		c.closeSocket()
		return
	}
	c.state = stateOpen
	first := c.handler == nil
	if first && !c.makeHandler(now) {
		return
	}
	c.flush()
	c.conclude()
	if !first {
		c.feed(now)
	}
}

// makeHandler asks for the Handler; without one the connection is closed.
func (c *Conn) makeHandler(now time.Time) bool {
	c.loop.conns.add(c)
	func() {
		defer c.loop.caught(c)
		if dialled := c.dialled; dialled != nil {
			c.dialled = nil
			c.handler = dialled(now, c, nil)
			return
		}
		c.handler = c.accept(now, c)
	}()
	if c.handler == nil {
		c.Close()
	}
	return c.state != stateClosed
}

// feed shows the Handler its unread bytes, and keeps the bounds.
func (c *Conn) feed(now time.Time) {
	switch {
	case c.state == stateClosed || c.state == stateAway:
		return
	case c.ending != endingNone:
		c.discard()
		return
	case c.answersNobody():
		c.gone(unix.ECONNRESET)
		return
	case c.peer == peerGone && len(c.saved) <= c.loop.g.cfg.InboundMax/2:
		c.readRest()
	}
	had := c.unread()
	// The watch feeds it when enough has been sent. A dialled connection is
	// fed all the same: its peer may answer before it has read all.
	c.hungry = c.accepted && !c.duplex && c.Unsent() > c.loop.g.cfg.OutboundMax
	if !c.hungry {
		c.show(now, had)
	}
	switch {
	case c.state == stateClosed || c.ending != endingNone:
	case c.state == stateOpen:
		// A peer that is gone sends no more than the kernel holds: that is
		// read to its end, where the reason stands.
		if most := c.loop.g.cfg.InboundMax; had > most && c.sending != sendingBroken && c.unread() > most {
			c.pause()
		}
	case c.hungry:
	case c.paused():
		if len(c.saved) <= c.loop.g.cfg.InboundMax/2 {
			c.resume()
		}
	default:
		c.tellEnd(now, had)
	}
}

// show gives the Handler all n unread bytes once and takes away what it has
// read. gnet's Discard and Peek take 0 for "everything": neither is called with it.
func (c *Conn) show(now time.Time, n int) {
	if len(c.saved) > 0 {
		c.showSaved(now)
		return
	}
	if n == 0 {
		return
	}
	b, err := c.sock.Peek(n)
	if err != nil {
		panic("bug: peek at buffered bytes: " + err.Error())
	}
	n = c.tell(now, b)
	if n > 0 && c.sock != nil && c.ending == endingNone { // else all is discarded
		_, _ = c.sock.Discard(n)
	}
}

// showSaved shows the bytes taken over from gnet, and what it has behind them.
func (c *Conn) showSaved(now time.Time) {
	if c.sock != nil {
		c.takeOver(c.sock.InboundBuffered())
	}
	n := c.tell(now, c.saved)
	if c.saved != nil { // still here after the call
		c.saved = shift(c.saved, n)
	}
}

// tell calls the Handler with b and returns how much of it was read.
func (c *Conn) tell(now time.Time, b []byte) (n int) {
	defer c.loop.caught(c)
	n = c.handler.Data(now, b)
	if n < 0 || n > len(b) {
		panic("bug: Handler.Data is done with more than it was shown")
	}
	return n
}

// takeOver moves the bytes that gnet holds behind those saved.
func (c *Conn) takeOver(fresh int) {
	if fresh == 0 {
		return
	}
	b, _ := c.sock.Peek(fresh)
	c.saved = append(c.saved, b...)
	_, _ = c.sock.Discard(fresh)
}

// shift drops the first n bytes, and the memory with the last one.
func shift(b []byte, n int) []byte {
	if n == len(b) {
		return nil
	}
	return b[:copy(b, b[n:])]
}

// unread is how many received bytes the Handler has not read.
func (c *Conn) unread() int {
	n := len(c.saved)
	if c.sock != nil {
		n += c.sock.InboundBuffered()
	}
	return n
}

// Pump has the Handler shown its unread bytes again, after the current call.
// A Handler that left bytes unread because it was busy pumps when it is not
// any more.
func (c *Conn) Pump() {
	if c.pumping || c.state == stateClosed || c.ending != endingNone {
		return
	}
	c.pumping = true
	c.loop.pumps = append(c.loop.pumps, c)
}

// SetDeadline has Handler.Expired called once at the given time, or up to one
// deadline step (20 ms) later. It replaces the deadline set before; the zero
// time takes it away.
func (c *Conn) SetDeadline(at time.Time) {
	if c.state == stateClosed || c.ending != endingNone {
		return // the deadline is that of closing now
	}
	if at.IsZero() {
		c.loop.deadlines.Clear(&c.deadline)
		return
	}
	c.setDeadline(at)
}

func (c *Conn) setDeadline(at time.Time) {
	l := c.loop
	d := l.since(at)
	l.deadlines.Set(&c.deadline, d)
	if d < l.coarseAt {
		l.coarseAt = min(l.coarseAt, d.Truncate(deadlineStep)+deadlineStep)
	}
}

// expired is told by the loop that the deadline has passed.
func (c *Conn) expired(now time.Time) {
	if c.ending != endingNone {
		c.Close()
		return
	}
	if c.handler == nil {
		return
	}
	defer c.loop.caught(c)
	c.handler.Expired(now)
}
