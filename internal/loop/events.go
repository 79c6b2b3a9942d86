package loop

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"
)

// events are gnet's callbacks. Each is one turn of a loop: enter, tell a
// Handler, leave.
type events struct {
	gnet.BuiltinEventEngine
	g *Group
}

// OnOpen is told of an enrolled socket: an anchor, an accepted or dialled
// connection, or one whose reading is resumed.
func (e *events) OnOpen(gc gnet.Conn) ([]byte, gnet.Action) {
	switch ctx := gc.Context().(type) {
	case chan gnet.EventLoop:
		ctx <- gc.EventLoop()
	case *enrolment:
		ctx.arrived.Store(true)
		c := ctx.c
		gc.SetContext(c)
		now := c.loop.enter()
		c.opened(now, gc)
		c.loop.leave(now)
	}
	return nil, gnet.None
}

// OnTraffic is told that bytes have arrived.
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

// OnClose is told that gnet lets go of a socket: its peer has ended, or we
// have closed it. The Handler hears of it when the turn ends.
func (e *events) OnClose(gc gnet.Conn, err error) gnet.Action {
	c, ok := gc.Context().(*Conn)
	if !ok || c.sock != gc {
		return gnet.None // an anchor, or a socket given away by pause
	}
	now := c.loop.enter()
	if cause := closeCause(c, err); cause != io.EOF || !c.peerEnds() {
		c.sock = nil // gnet closes it
		c.gone(cause)
	}
	c.loop.leave(now)
	return gnet.None
}

// closeCause is what Handler.Closed is told of a socket that we did not close.
func closeCause(c *Conn, err error) error {
	switch {
	case err == nil:
		return nil
	case c.secure != nil && c.secure.Reason() != nil:
		return c.secure.Reason()
	case errors.Is(err, io.EOF):
		return c.loop.endCause(c.sock.Fd())
	}
	var sys *os.SyscallError
	if errors.As(err, &sys) && errors.Is(sys.Err, unix.EAGAIN) {
		return io.EOF
	}
	return err
}

// endCause is how the peer of a socket ended, of which gnet says EOF. It says so also of
// a reset when epoll reports the error before it reports that there is something to read.
// EPIPE is no reset: the peer had sent all and closed, and refused what we sent since.
func (l *Loop) endCause(fd int) error {
	if err := l.kernel.socketError(fd); err != nil && !errors.Is(err, unix.EPIPE) {
		return err
	}
	return io.EOF
}

// enter begins a turn and reads the clock, once.
func (l *Loop) enter() time.Time {
	l.depth++
	if l.depth > 1 {
		return l.now
	}
	l.now = time.Now()
	return l.now
}

// leave ends a turn: it tells Handlers of connections that went away during
// it, feeds those that asked for more, rings alarms that are due, and says to
// the clock when to wake this loop next.
func (l *Loop) leave(now time.Time) {
	if l.depth == 1 {
		l.settle(now)
		if len(l.alarms) > 0 {
			if at := l.since(now); l.alarms.due(at) {
				l.ring(now, at)
				l.settle(now)
			}
		}
		l.rearm()
	}
	l.depth--
}

// settle does what the turn so far has left to do, until nothing is left.
func (l *Loop) settle(now time.Time) {
	for len(l.closing) > 0 || len(l.pumps) > 0 {
		for i := 0; i < len(l.closing); i++ {
			l.closing[i].tellClosed(now)
		}
		l.closing = l.closing[:0]
		l.pumpAll(now)
	}
}

// pumpAll feeds every connection that asked for it once; those that ask again
// meanwhile have their turn in the next round.
func (l *Loop) pumpAll(now time.Time) {
	l.pumps, l.pumped = l.pumped[:0], l.pumps
	for _, c := range l.pumped {
		c.pumping = false
		c.feed(now)
	}
}
