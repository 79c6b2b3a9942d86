package loop

import (
	"net/netip"
	"time"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"

	"weir/internal/net/admit"
	"weir/internal/net/loop/deadline"
	"weir/internal/net/loop/pump"
)

// A connState is which part of the program has the socket.
type connState uint8

const (
	stateEnrolling connState = iota // gnet is taking it into the loop
	stateOpen                       // gnet's loop
	stateDetached                   // the Conn: reading is paused, or the peer has ended
	stateClosed                     // nothing: it is closed
)

// A Conn is one connection of a loop, accepted or dialled. Its methods must be called on its
// loop.
//
// Owned by its loop.
type Conn struct {
	loop    *Loop
	handler Handler
	sock    gnet.Conn // in stateOpen, otherwise nil
	fd      int       // the socket in stateDetached, otherwise -1
	remote  netip.AddrPort
	local   netip.AddrPort // of an accepted connection
	accept  AcceptFunc     // makes the Handler of an accepted connection
	dialled DialFunc       // likewise of a dialled one; nil after its call
	secure  *pump.Pump     // of a TLS connection

	state   connState
	ending  ending
	peer    peerState
	sending sendingState

	accepted bool // counted in Group.open
	duplex   bool // fed regardless of unsent bytes
	pumping  bool // in Loop.pumps
	watching bool // in Loop.watched
	blocked  bool // not fed because of unsent bytes
	full     bool // see Full
	held     bool // see SetHeld
	unacked  bool // see Unacked
	stalled  bool // see Stalled
	inTurn   bool // in Loop.turnBatch
	inRound  bool // in Loop.roundBatch
	batch    WriteBatching

	incomplete bool // see SetIncomplete

	unused *admit.UnusedConn // nil from the first byte on, and for a dialled connection

	saved []byte // unread bytes taken over from gnet
	cause error  // why it was closed
	out   []byte // unsent; see write.go
	sent  int    // bytes of out that have been sent

	deadline   deadline.Entry[*Conn]
	lookAt     time.Time     // when to try to send again
	lookPause  time.Duration // pause before that
	progressed time.Time     // when something was last sent
	discarded  int           // bytes read while closing
	lingerEnd  time.Time     // zero: it does not linger yet
	at         int           // index in Loop.conns, or -1 before it is there
}

func newConn(l *Loop) *Conn {
	c := &Conn{loop: l, fd: -1, at: -1}
	c.deadline.Value = c
	return c
}

// Loop returns the loop of the connection.
func (c *Conn) Loop() *Loop { return c.loop }

// Remote returns the address of the peer.
func (c *Conn) Remote() netip.AddrPort { return c.remote }

// Local returns the local address of an accepted connection.
func (c *Conn) Local() netip.AddrPort { return c.local }

// SetDuplex makes the Handler of an accepted connection be fed regardless of unsent bytes: it
// bounds those itself.
func (c *Conn) SetDuplex(duplex bool) {
	c.duplex = duplex
	if duplex && c.blocked || c.useless() {
		c.blocked = false
		c.Pump()
	}
}

// opened handles the socket's arrival in the loop, for the first time or again.
func (c *Conn) opened(now time.Time, sock gnet.Conn) {
	c.sock = sock
	if c.state == stateClosed { // closed while it was enrolled
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

// makeHandler makes the Handler; without one the connection is closed.
func (c *Conn) makeHandler(now time.Time) bool {
	c.at = len(c.loop.conns)
	c.loop.conns = append(c.loop.conns, c)
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
	if c.accepted && c.state != stateClosed {
		c.await()
	}
	return c.state != stateClosed
}

// SetHeld says whether the Handler reads nothing for a while. Reading is then paused when anything is unread, not only
// beyond Config.InboundMax. When the Handler reads again it sets it to false and calls Pump.
func (c *Conn) SetHeld(held bool) { c.held = held }

// inboundMax returns how many bytes may be unread.
func (c *Conn) inboundMax() int {
	if c.held {
		return 0
	}
	return c.loop.g.cfg.InboundMax
}

// feed passes unread bytes to the Handler, and enforces the bounds.
func (c *Conn) feed(now time.Time) {
	switch {
	case c.state == stateClosed || c.state == stateEnrolling:
		return
	case c.ending != endingNone:
		c.discard()
		return
	case c.useless():
		c.gone(unix.ECONNRESET)
		return
	case c.peer == peerGone && len(c.saved) <= c.loop.g.cfg.InboundMax/2:
		c.readRest()
	}
	had := c.unread()
	// The watch feeds it when enough has been sent. A dialled connection is always fed,
	// since its peer may answer before it has read everything.
	c.blocked = c.accepted && !c.duplex && c.Unsent() > c.loop.g.cfg.OutboundMax
	if !c.blocked {
		c.show(now, had)
	}
	switch {
	case c.state == stateClosed || c.ending != endingNone:
	case c.state == stateOpen:
		// If the peer is gone, the bytes that the kernel holds are read to the end, which
		// has the reason.
		if most := c.inboundMax(); had > most && c.sending != sendingBroken && c.unread() > most {
			c.pause()
		}
	case c.blocked:
	case c.paused():
		if len(c.saved) <= c.inboundMax()/2 {
			c.resume()
		}
	default:
		c.deliverEnd(now, had)
	}
}

// show passes all n unread bytes to the Handler once and drops those that it has read. gnet's
// Discard and Peek interpret 0 as everything, so neither is called with 0.
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
	n = c.deliver(now, b)
	if n > 0 && c.sock != nil && c.ending == endingNone { // otherwise everything is discarded
		_, _ = c.sock.Discard(n)
	}
}

// showSaved passes the bytes taken over from gnet, followed by those that gnet has.
func (c *Conn) showSaved(now time.Time) {
	if c.sock != nil {
		c.takeOver(c.sock.InboundBuffered())
	}
	n := c.deliver(now, c.saved)
	if c.saved != nil { // the connection was not closed during the call
		c.saved = shift(c.saved, n)
	}
}

// deliver calls the Handler with b and returns how much of it was read.
func (c *Conn) deliver(now time.Time, b []byte) (n int) {
	defer c.loop.caught(c)
	c.heard()
	n = c.handler.Data(now, b)
	if n < 0 || n > len(b) {
		panic("bug: Handler.Data consumed more than it was given")
	}
	return n
}

// takeOver appends the bytes that gnet holds to saved.
func (c *Conn) takeOver(fresh int) {
	if fresh == 0 {
		return
	}
	b, _ := c.sock.Peek(fresh)
	c.saved = append(c.saved, b...)
	_, _ = c.sock.Discard(fresh)
}

// shift drops the first n bytes. It returns nil if none are left.
func shift(b []byte, n int) []byte {
	if n == len(b) {
		return nil
	}
	return b[:copy(b, b[n:])]
}

// unread returns how many received bytes the Handler has not read.
func (c *Conn) unread() int {
	n := len(c.saved)
	if c.sock != nil {
		n += c.sock.InboundBuffered()
	}
	return n
}

// Pump passes unread bytes to the Handler again, after the current call. A Handler that left
// bytes unread because it was busy calls Pump when it is ready.
func (c *Conn) Pump() {
	if c.pumping || c.state == stateClosed || c.ending != endingNone {
		return
	}
	c.pumping = true
	c.loop.pumps = append(c.loop.pumps, c)
}

// SetHandler replaces the Handler, which may be done in its Data call. The new one gets no bytes that the
// old one has consumed.
func (c *Conn) SetHandler(h Handler) { c.handler = h }

// SetDeadline sets or replaces the deadline: Handler.Expired is called once at that time, or up
// to one deadline step (20 ms) later. The zero time clears it.
func (c *Conn) SetDeadline(at time.Time) {
	if c.state == stateClosed || c.ending != endingNone {
		return // the deadline now belongs to closing
	}
	if at.IsZero() {
		c.loop.deadlines.Clear(&c.deadline)
		return
	}
	c.setDeadline(at)
}

// Deadline returns the deadline, or the zero time without one.
func (c *Conn) Deadline() time.Time {
	if at, ok := c.deadline.At(); ok {
		return c.loop.epoch.Add(at)
	}
	return time.Time{}
}

func (c *Conn) setDeadline(at time.Time) {
	l := c.loop
	d := l.since(at)
	l.deadlines.Set(&c.deadline, d)
	if d < l.coarseAt {
		l.coarseAt = min(l.coarseAt, d.Truncate(deadlineStep)+deadlineStep)
	}
}

// expired is called when the deadline has passed.
func (c *Conn) expired(now time.Time) {
	if c.ending != endingNone {
		c.Close()
		return
	}
	if c.handler == nil {
		return
	}
	// What has arrived while the loop was busy is in time: a request must not be lost because the connection
	// was idle before.
	c.Fetch()
	if at, set := c.deadline.At(); set && at > c.loop.since(now) || c.state == stateClosed || c.ending != endingNone {
		return
	}
	c.loop.deadlines.Clear(&c.deadline)
	defer c.loop.caught(c)
	c.handler.Expired(now)
}
