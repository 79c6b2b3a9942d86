package loop

import (
	"time"

	"golang.org/x/sys/unix"
)

// What a socket does not take at once waits here, not in gnet: gnet would lose
// it when the socket is taken out of the loop or closed, and tells nobody when
// it is sent. The price is that the loop has to try again by itself: at first
// every watchStep, then, while nothing moves, with pauses that double up to
// watchStepMax.
const (
	// watchStep is how often connections with unsent bytes are looked at.
	watchStep    = 5 * time.Millisecond
	watchStepMax = 80 * time.Millisecond

	// sparesMax bounds the buffers for unsent bytes that a loop keeps to use
	// them again, spareBytesMax the size of one.
	sparesMax     = 32
	spareBytesMax = 512 << 10
)

// A sendingState says what may still be sent.
type sendingState uint8

const (
	sendingOpen     sendingState = iota // anything
	sendingShutting                     // what is unsent; then a half close
	sendingShut                         // nothing: half closed
	sendingBroken                       // nothing: the peer takes nothing any more
)

// A Writable is a Handler that wants to know when its unsent bytes have become
// few: Writable is told when, after more than Config.OutboundMax of them, no
// more than half of that is left.
type Writable interface {
	Writable(now time.Time)
}

// Write sends b, or keeps a copy of what cannot be sent at once. It never
// calls the Handler and reports no errors: of a broken connection Closed follows, after
// what the peer had still sent. After CloseWrite, Close, CloseDrained and CloseLinger it
// does nothing.
func (c *Conn) Write(b []byte) {
	if c.state == stateClosed || c.ending != endingNone || c.sending != sendingOpen {
		return
	}
	if c.state != stateAway && c.Unsent() == 0 {
		b = b[c.send(b):]
	}
	if len(b) == 0 || c.sending == sendingBroken {
		return
	}
	if c.out == nil {
		c.out = c.loop.spare()
	}
	if c.sent > 0 && len(c.out)+len(b) > cap(c.out) { // rather than grow for what is gone
		c.out, c.sent = c.out[:copy(c.out, c.out[c.sent:])], 0
	}
	c.out = append(c.out, b...)
	c.full = c.full || c.Unsent() > c.loop.g.cfg.OutboundMax
	c.watch()
}

// Unsent is how many written bytes wait for the peer to take them.
func (c *Conn) Unsent() int { return len(c.out) - c.sent }

// Full reports whether more than Config.OutboundMax bytes were unsent and more
// than half of that still are: a Handler that is Writable should wait.
func (c *Conn) Full() bool { return c.full }

// CloseWrite ends what is sent when everything written has been: a half close.
// The peer may go on sending.
func (c *Conn) CloseWrite() {
	if c.sending != sendingOpen || c.ending != endingNone {
		return
	}
	c.sending = sendingShutting
	if c.descriptor() >= 0 {
		c.flush()
	}
}

// send writes to the socket and returns how much of b it took. A peer that is
// gone takes everything: reading finds out what has become of it.
func (c *Conn) send(b []byte) int {
	fd := c.descriptor()
	for {
		n, err := c.loop.kernel.write(fd, b)
		switch err {
		case nil:
			c.awaitRoom(n < len(b))
			return n
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			c.awaitRoom(true)
			return 0
		}
		c.breakOff(err)
		return len(b)
	}
}

// awaitRoom has the pump of a TLS connection tell when it makes room: what is
// between it and us is small, so trying again every watchStep would be slow.
func (c *Conn) awaitRoom(short bool) {
	if short && c.secure != nil {
		c.secure.Want()
	}
}

// retry is told by the pump that there is room.
func (c *Conn) retry(now time.Time) {
	if c.watching {
		c.look(now)
	}
}

// breakOff notes that the peer takes nothing any more. What it sent before may
// still be there to be read, an answer above all.
func (c *Conn) breakOff(err error) {
	c.sending = sendingBroken
	c.dropOut()
	switch {
	case c.paused():
		c.resume()
	case c.peer == peerTold:
		c.gone(err)
	case c.answersNobody():
		c.Pump()
	}
}

// answersNobody reports whether an accepted connection is of no use any more:
// its peer is gone, and its Handler would only answer what is unread. That of
// a duplex connection may pass it on. feed ends such a connection.
func (c *Conn) answersNobody() bool {
	return c.accepted && !c.duplex && c.sending == sendingBroken && c.peer != peerSends
}

// descriptor is the socket, whoever has it.
func (c *Conn) descriptor() int {
	if c.sock != nil {
		return c.sock.Fd()
	}
	return c.fd
}

// flush sends of the unsent bytes what the socket takes and reports whether it
// took any.
func (c *Conn) flush() (some bool) {
	if c.Unsent() > 0 {
		n := c.send(c.out[c.sent:])
		if c.sending == sendingBroken {
			return true
		}
		c.sent += n
		some = n > 0
	}
	if c.Unsent() > 0 {
		c.watch()
		return some
	}
	c.dropOut()
	if c.sending == sendingShutting {
		c.sending = sendingShut
		c.loop.kernel.shutdown(c.descriptor())
	}
	return some
}

// dropOut gives the buffer of unsent bytes back.
func (c *Conn) dropOut() {
	if c.out != nil {
		c.loop.giveSpare(c.out)
	}
	c.out, c.sent = nil, 0
}

func (l *Loop) spare() []byte {
	if n := len(l.spares); n > 0 {
		b := l.spares[n-1]
		l.spares = l.spares[:n-1]
		return b
	}
	return make([]byte, 0, 4<<10)
}

func (l *Loop) giveSpare(b []byte) {
	if cap(b) <= spareBytesMax && len(l.spares) < sparesMax {
		l.spares = append(l.spares, b[:0])
	}
}

// watch has the connection looked at until its unsent bytes are gone.
func (c *Conn) watch() {
	if c.watching {
		return
	}
	l := c.loop
	c.watching = true
	c.progressed, c.lookPause = l.now, watchStep
	c.lookAt = l.now.Add(watchStep)
	l.watched = append(l.watched, c)
	if at := l.since(c.lookAt); at < l.watchAt {
		l.watchAt = at
	}
}

// watch looks at the connections with unsent bytes.
func (l *Loop) watch(now time.Time) {
	kept, next := 0, farAway
	for i := 0; i < len(l.watched); i++ { // looking may add more
		c := l.watched[i]
		if !now.Before(c.lookAt) && !c.look(now) {
			c.watching = false
			continue
		}
		l.watched[kept] = c
		kept++
		next = min(next, l.since(c.lookAt))
	}
	clear(l.watched[kept:])
	l.watched = l.watched[:kept]
	l.watchAt = farAway
	if kept > 0 {
		l.watchAt = max(next, l.since(now)+watchStep)
	}
}

// look does what a watched connection waits for and reports whether it is to
// be watched on.
func (c *Conn) look(now time.Time) bool {
	if c.state == stateClosed {
		return false
	}
	if c.state != stateAway && c.flush() || c.secure != nil && c.secure.Moved() {
		c.progressed, c.lookPause = now, watchStep
	} else {
		c.lookPause = min(2*c.lookPause, watchStepMax)
	}
	c.lookAt = now.Add(c.lookPause)
	unsent := c.Unsent()
	if unsent > 0 && now.Sub(c.progressed) >= c.loop.g.cfg.WriteStall {
		c.loop.g.stats.stalled.Add(1)
		c.Close()
		if c.secure != nil {
			c.secure.Abort()
		}
		return false
	}
	if unsent <= c.loop.g.cfg.OutboundMax/2 {
		c.relieved(now)
	}
	if unsent == 0 {
		c.conclude()
	}
	return c.state != stateClosed && c.Unsent() > 0
}

// relieved notifies a Writable that few bytes are unsent.
func (c *Conn) relieved(now time.Time) {
	if c.hungry {
		c.hungry = false
		c.Pump()
	}
	if !c.full {
		return
	}
	c.full = false
	if h, ok := c.handler.(Writable); ok && c.state != stateClosed && c.ending == endingNone {
		defer c.loop.caught(c)
		h.Writable(now)
	}
}
