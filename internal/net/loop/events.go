package loop

import (
	"errors"
	"io"
	"time"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"
)

// events has gnet's callbacks. Each is one turn of a loop: enter, call a Handler, leave.
type events struct{ gnet.BuiltinEventEngine }

// OnOpen is called for an enrolled socket: an anchor, an accepted or dialled connection, or one
// whose reading is resumed.
func (e *events) OnOpen(gc gnet.Conn) ([]byte, gnet.Action) {
	switch ctx := gc.Context().(type) {
	case chan gnet.EventLoop:
		ctx <- gc.EventLoop()
	case *registration:
		ctx.arrived.Store(true)
		c := ctx.c
		gc.SetContext(c)
		now := c.loop.enter()
		c.opened(now, gc)
		c.loop.leave(now)
	}
	return nil, gnet.None
}

// OnTraffic is called when bytes have arrived.
func (e *events) OnTraffic(gc gnet.Conn) gnet.Action {
	c, ok := gc.Context().(*Conn)
	if !ok {
		return gnet.None
	}
	now := c.loop.enter()
	c.feed(now)
	c.loop.leave(now)
	return gnet.None
}

// OnClose is called when gnet closes a socket: its peer has ended, or we have closed it. The
// Handler is notified at the end of the turn.
func (e *events) OnClose(gc gnet.Conn, err error) gnet.Action {
	c, ok := gc.Context().(*Conn)
	if !ok || c.sock != gc {
		return gnet.None // an anchor, or a socket given away by pause
	}
	now := c.loop.enter()
	if cause := closeCause(c, err); cause != io.EOF || !c.peerEnds() {
		c.unacked = cause == io.EOF && !c.accepted && c.secure == nil && c.owes(gc.Fd())
		if c.cuts() && c.secure == nil {
			c.loop.system.Reset(gc.Fd())
		}
		c.sock = nil // gnet closes it
		c.gone(cause)
	}
	c.loop.leave(now)
	return gnet.None
}

// closeCause returns the error for Handler.Closed, for a socket that we did not close.
func closeCause(c *Conn, err error) error {
	switch {
	case err == nil:
		return nil
	case c.secure != nil && c.secure.Reason() != nil:
		return c.secure.Reason()
	case errors.Is(err, io.EOF):
		return c.loop.endCause(c.sock.Fd())
	case errors.Is(err, unix.EAGAIN):
		return io.EOF
	}
	return err
}

// endCause returns why the peer of a socket ended, if gnet reports EOF. gnet does so for a reset
// too, if epoll reports the error before the data. EPIPE is not a reset: the peer had closed
// after sending everything, and has refused what we sent since.
func (l *Loop) endCause(fd int) error {
	if err := l.system.SocketError(fd); err != nil && !errors.Is(err, unix.EPIPE) {
		return err
	}
	return io.EOF
}

// wallEvery is how often a loop reads the wall clock, which may be set. In between it advances with the
// monotonic clock: to read only one of them takes half the time.
const wallEvery = 10 * time.Millisecond

// enter begins a turn and reads the clock, once.
func (l *Loop) enter() time.Time {
	if l.depth++; l.depth == 1 {
		passed := time.Since(l.read)
		if passed >= wallEvery {
			l.read, passed = time.Now(), 0
		}
		l.now = l.read.Add(passed)
	}
	return l.now
}

// leave ends a turn: it notifies the Handlers of connections that ended during it, feeds those
// that asked for more, rings alarms that are due, sends what was collected, and sets the clock.
func (l *Loop) leave(now time.Time) {
	if l.depth == 1 {
		l.settle(now)
		if len(l.alarms) > 0 {
			if at := l.since(now); l.alarms.due(at) {
				l.ring(now, at)
				l.settle(now)
			}
		}
		for l.endTurn() {
			l.settle(now)
		}
		l.rearm()
	}
	l.depth--
}

// settle does the remaining work of the turn, until nothing is left.
func (l *Loop) settle(now time.Time) {
	for len(l.closing) > 0 || len(l.pumps) > 0 {
		for i := 0; i < len(l.closing); i++ {
			l.closing[i].notifyClosed(now)
		}
		l.closing = l.closing[:0]
		l.pumpAll(now)
	}
}

// pumpAll feeds every connection that asked for it once. Those that ask again meanwhile are fed
// in the next round.
func (l *Loop) pumpAll(now time.Time) {
	l.pumps, l.pumped = l.pumped[:0], l.pumps
	for _, c := range l.pumped {
		c.pumping = false
		c.feed(now)
	}
}
