package loop

import (
	"time"

	"golang.org/x/sys/unix"
)

// Bytes that a socket does not accept immediately are kept here, not by gnet: gnet would lose
// them when the socket is taken out of the loop or closed, and does not report when they are
// sent. In return the loop must try again: first every watchStep, and without progress with
// pauses that double up to watchStepMax.
const (
	watchStep    = 5 * time.Millisecond
	watchStepMax = 80 * time.Millisecond

	// sparesMax bounds the free buffers for unsent bytes of a loop, spareBytesMax the size of
	// each.
	sparesMax     = 32
	spareBytesMax = 512 << 10
)

// A sendingState says what can still be sent.
type sendingState uint8

const (
	sendingOpen     sendingState = iota // anything
	sendingShutting                     // unsent bytes, then a half close
	sendingShut                         // nothing: half closed
	sendingBroken                       // nothing: the peer accepts no more
)

// A WriteHandler is a Handler that waits when its connection is Full: Writable is called when it is
// no longer Full.
type WriteHandler interface {
	Writable(now time.Time)
}

// Write sends b, or keeps a copy of what is to be sent later (see SetBatch) or cannot be sent now.
// It never calls the Handler and reports no errors: for a broken connection Closed follows, after
// what the peer has sent. After CloseWrite, Close, CloseDrained and CloseLinger it does nothing.
func (c *Conn) Write(b []byte) {
	if c.state == stateClosed || c.ending != endingNone || c.sending != sendingOpen {
		return
	}
	if c.state != stateEnrolling && !c.collects(len(b)) {
		if c.batched() {
			c.flush()
		}
		if c.Unsent() == 0 && c.sending == sendingOpen {
			b = b[c.send(b):]
		}
	}
	if len(b) == 0 || c.sending == sendingBroken {
		return
	}
	if c.out == nil {
		c.out = c.loop.spare()
	}
	if c.sent > 0 && len(c.out)+len(b) > cap(c.out) { // reuse the space of sent bytes instead of growing
		c.out, c.sent = c.out[:copy(c.out, c.out[c.sent:])], 0
	}
	c.out = append(c.out, b...)
	c.full = c.full || c.Unsent() > c.loop.g.cfg.OutboundMax
	if c.full || !c.batched() {
		c.watch()
	}
}

// Unsent returns how many written bytes have not been sent.
func (c *Conn) Unsent() int { return len(c.out) - c.sent }

// Buffered returns the size of the buffers of the connection in bytes.
func (c *Conn) Buffered() int64 {
	n := cap(c.out) + cap(c.saved)
	if c.sock != nil {
		n += c.sock.InboundBuffered()
	}
	return int64(n)
}

// Full reports whether more than Config.OutboundMax bytes were unsent, and more than half of
// that still are.
func (c *Conn) Full() bool { return c.full }

// CloseWrite half closes when everything written has been sent. The peer may continue to send.
func (c *Conn) CloseWrite() {
	if c.sending != sendingOpen || c.ending != endingNone {
		return
	}
	c.sending = sendingShutting
	if c.descriptor() >= 0 {
		c.flush()
	}
}

// send writes to the socket and returns how much of b is done. After an error everything is:
// reading reports the error.
func (c *Conn) send(b []byte) int {
	fd := c.descriptor()
	for {
		n, err := c.loop.system.Write(fd, b)
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

// awaitRoom makes the pump of a TLS connection call retry when the socket pair is writable: its
// buffer is small, so polling every watchStep would be slow.
func (c *Conn) awaitRoom(short bool) {
	if short && c.secure != nil {
		c.secure.NotifyWritable()
	}
}

// retry is called by the pump when the socket pair is writable.
func (c *Conn) retry(now time.Time) {
	if c.watching {
		c.look(now)
	}
}

// breakOff records that the peer accepts no more. Bytes that it sent before, such as an answer,
// may still be read.
func (c *Conn) breakOff(err error) {
	c.sending = sendingBroken
	c.dropOut()
	switch {
	case c.paused():
		c.resume()
	case c.peer == peerDelivered:
		c.gone(err)
	case c.useless():
		c.Pump()
	}
}

// useless reports whether an accepted connection has no further use: its peer is gone, so the
// Handler could only produce answers. The Handler of a duplex connection may pass unread bytes
// on. feed ends a useless connection.
func (c *Conn) useless() bool {
	return c.accepted && !c.duplex && c.sending == sendingBroken && c.peer != peerSends
}

// descriptor returns the descriptor of the socket, or -1.
func (c *Conn) descriptor() int {
	if c.sock != nil {
		return c.sock.Fd()
	}
	return c.fd
}

// flush sends unsent bytes, and reports whether the socket accepted any.
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
		c.loop.system.Shutdown(c.descriptor())
	}
	return some
}

// dropOut frees the buffer of unsent bytes.
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

// watch makes the loop try again until all bytes are sent.
func (c *Conn) watch() {
	if c.watching {
		return
	}
	l := c.loop
	c.watching = true
	c.progressed, c.lookPause = l.now, watchStep
	c.lookAt = l.now.Add(watchStep)
	l.watched = append(l.watched, c)
	l.watchAt = min(l.watchAt, l.since(c.lookAt))
}

// watch handles the connections with unsent bytes.
func (l *Loop) watch(now time.Time) {
	kept, next := 0, never
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
	l.watchAt = never
	if kept > 0 {
		l.watchAt = max(next, l.since(now)+watchStep)
	}
}

// look tries to send unsent bytes, and reports whether the connection must still be watched.
func (c *Conn) look(now time.Time) bool {
	if c.state == stateClosed {
		return false
	}
	if c.state != stateEnrolling && c.flush() || c.secure != nil && c.secure.Progressed() {
		c.progressed, c.lookPause = now, watchStep
	} else {
		c.lookPause = min(2*c.lookPause, watchStepMax)
	}
	c.lookAt = now.Add(c.lookPause)
	unsent := c.Unsent()
	if waits := unsent > 0 || c.ending == endingCut; waits && now.Sub(c.progressed) >= c.loop.g.cfg.WriteStall {
		c.stalled = true
		c.loop.g.stats.Stalled.Add(1)
		c.Abort()
		return false
	}
	if unsent <= c.loop.g.cfg.OutboundMax/2 {
		c.relieved(now)
	}
	if unsent == 0 {
		c.conclude()
	}
	return c.state != stateClosed && (c.Unsent() > 0 || c.ending == endingCut)
}

// relieved notifies a WriteHandler that few bytes are unsent.
func (c *Conn) relieved(now time.Time) {
	if c.blocked {
		c.blocked = false
		c.Pump()
	}
	if !c.full {
		return
	}
	c.full = false
	if h, ok := c.handler.(WriteHandler); ok && c.state != stateClosed && c.ending == endingNone {
		defer c.loop.caught(c)
		h.Writable(now)
	}
}
