package loop

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"
)

const (
	simBuffer   = 8 << 10                // of a socket, in each direction
	simEnrolMax = 300 * time.Millisecond // how long a socket is on its way
)

// A simSocket is a TCP socket of ours in the fake kernel. Both streams are the
// numbered bytes of simByte, so that what is lost or twice is seen.
//
// Owned by its world.
type simSocket struct {
	actor *simActor

	in       []byte    // received and not read
	arrived  int       // bytes received so far
	fin, rst bool      // the peer has ended, has reset the connection
	gone     bool      // the peer has closed: what is sent now is answered by a reset
	brokenAt time.Time // when we were told of a reset by a write

	written int // bytes taken from us so far
	taken   int // and by the peer from us
	finOut  bool
	abort   bool // our close is to be a reset

	files  int  // descriptors
	closed bool // the last is gone
	resets bool // and the peer was reset
}

func simByte(i int) byte { return byte(i ^ i>>8) }

// open returns a new descriptor. No number is used twice.
func (w *simWorld) open(s *simSocket) int {
	w.lastFD++
	w.files[w.lastFD] = s
	s.files++
	return w.lastFD
}

// socket is that of a descriptor, which must be open.
func (w *simWorld) socket(fd int) *simSocket {
	s := w.files[fd]
	if s == nil {
		w.failed(nil, "descriptor %d is used, which is not open", fd)
		return &simSocket{rst: true, actor: &simActor{}}
	}
	return s
}

func (w *simWorld) write(fd int, b []byte) (int, error) {
	s := w.socket(fd)
	switch {
	case w.odds(0.02):
		return 0, unix.EINTR
	case s.rst:
		s.brokenAt = time.Now()
		return 0, unix.EPIPE
	case s.finOut:
		w.failed(s.actor, "writes after the half close")
		return 0, unix.EPIPE
	}
	n := min(len(b), simBuffer-(s.written-s.taken))
	if n > 1 && w.odds(0.2) {
		n = 1 + w.IntN(n)
	}
	if n == 0 {
		return 0, unix.EAGAIN
	}
	for i, c := range b[:n] {
		if c != simByte(s.written+i) {
			w.failed(s.actor, "byte %d of what is written is another", s.written+i)
			break
		}
	}
	s.written += n
	if s.gone {
		w.after(w.within(time.Millisecond), s.reset)
	}
	return n, nil
}

func (w *simWorld) read(fd int, b []byte) (int, error) {
	s := w.socket(fd)
	switch {
	case len(s.in) > 0:
		n := copy(b, s.in)
		s.in = s.in[n:]
		return n, nil
	case s.fin:
		return 0, nil
	case s.rst:
		return 0, unix.ECONNRESET
	}
	return 0, unix.EAGAIN
}

func (w *simWorld) socketError(fd int) error {
	if s := w.socket(fd); s.rst {
		return unix.ECONNRESET
	}
	return nil
}

func (w *simWorld) unheard(fd int) int {
	s := w.socket(fd)
	return s.written - s.taken
}

func (w *simWorld) shutdown(fd int) { w.socket(fd).finOut = true }
func (w *simWorld) reset(fd int)    { w.socket(fd).abort = true }

func (w *simWorld) close(fd int) {
	s := w.socket(fd)
	delete(w.files, fd)
	if s.files--; s.files == 0 {
		s.closed = true
		s.resets = !s.over() && (s.abort || len(s.in) > 0)
		s.actor.note("the socket is closed, reset %v, %d bytes are unread", s.resets, len(s.in))
	}
}

// over: both sides have ended, and have what the other has sent.
func (s *simSocket) over() bool { return s.fin && s.finOut && s.taken == s.written }

// enroll is the way of a socket into the loop.
func (w *simWorld) enroll(c *Conn, fd int) error {
	s := w.socket(fd)
	switch {
	case s.rst || s.over():
		return unix.ENOTCONN
	case w.fault(0.05):
		s.actor.faulty = true
		w.close(fd)
		return unix.EMFILE
	}
	refused := w.fault(0.05)
	s.actor.faulty = s.actor.faulty || refused
	w.after(w.within(simEnrolMax), func() {
		own := w.open(s) // gnet duplicates
		w.close(fd)
		if refused {
			w.close(own)
			w.l.Post(func(now time.Time) { c.failed(now, nil) })
			return
		}
		gc := &simConn{w: w, fd: own, s: s, ctx: &registration{c: c}, opened: true}
		w.polled[own] = gc
		s.actor.note("is in the loop")
		w.events.OnOpen(gc)
		w.poll(gc)
	})
	return nil
}

// reset is told that the peer resets the connection.
func (s *simSocket) reset() {
	if !s.rst {
		s.rst, s.actor.lostAt = true, time.Now()
		s.actor.note("the peer resets")
	}
	s.changed()
}

// changed has the loop look at the socket.
func (s *simSocket) changed() {
	w := s.actor.w
	for fd, gc := range w.polled {
		if gc.s == s {
			w.after(w.within(200*time.Microsecond), func() { w.poll(w.polled[fd]) })
		}
	}
}

// A simConn is gnet's connection, and simWorld its event loop, as far as a Conn
// and a Loop use them.
//
// Owned by its world.
type simConn struct {
	gnet.Conn
	w      *simWorld
	fd     int
	s      *simSocket
	ctx    any
	in     []byte
	opened bool
}

func (gc *simConn) Context() any       { return gc.ctx }
func (gc *simConn) SetContext(ctx any) { gc.ctx = ctx }
func (gc *simConn) Fd() int            { return gc.fd }

func (gc *simConn) InboundBuffered() int { return len(gc.used().in) }

func (gc *simConn) Peek(n int) ([]byte, error) { return gc.used().in[:n:n], nil }

func (gc *simConn) Discard(n int) (int, error) {
	gc.used().in = gc.in[n:]
	return n, nil
}

func (gc *simConn) Dup() (int, error) {
	if gc.used().w.fault(0.05) {
		gc.s.actor.faulty = true
		return -1, unix.EMFILE
	}
	return gc.w.open(gc.s), nil
}

// used says that gnet's connection is used, which must not be after its close.
func (gc *simConn) used() *simConn {
	if !gc.opened {
		gc.w.failed(gc.s.actor, "gnet's connection is used after its close")
	}
	return gc
}

// poll is what gnet does when a socket is ready: it reads once, and at the
// end of what the peer sends, all.
func (w *simWorld) poll(gc *simConn) {
	if gc == nil || !gc.opened {
		return
	}
	s := gc.s
	for gc.opened && len(s.in) > 0 {
		n := len(s.in)
		if !s.fin {
			n = 1 + w.IntN(n)
		}
		gc.in = append(gc.in, s.in[:n]...)
		s.in = s.in[n:]
		w.events.OnTraffic(gc)
		if !s.fin {
			s.changed()
			return
		}
	}
	switch {
	case !gc.opened:
	case s.fin:
		w.hangUp(gc, io.EOF)
	case s.rst && w.odds(.2): // gnet has seen the reset, before epoll says that there is something to read
		w.hangUp(gc, io.EOF)
	case s.rst:
		w.hangUp(gc, os.NewSyscallError("read", unix.ECONNRESET))
	}
}

// hangUp is gnet's close.
func (w *simWorld) hangUp(gc *simConn, err error) {
	if w.polled[gc.fd] == nil {
		return
	}
	delete(w.polled, gc.fd)
	w.events.OnClose(gc, err)
	gc.opened, gc.in = false, nil
	w.close(gc.fd)
}

// A simEngine is gnet's event loop.
type simEngine struct {
	gnet.EventLoop
	w *simWorld
}

func (e simEngine) Close(gc gnet.Conn) error {
	e.w.hangUp(gc.(*simConn), nil)
	return nil
}

func (e simEngine) Execute(ctx context.Context, r gnet.Runnable) error {
	e.w.after(e.w.within(100*time.Microsecond), func() {
		if err := r.Run(ctx); err != nil {
			e.w.failed(nil, "a turn: %v", err)
		}
	})
	return nil
}
