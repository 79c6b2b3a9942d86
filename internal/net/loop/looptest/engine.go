package looptest

import (
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"
)

// Start implements loop.System, as do the following.
func (k *Kernel) Start(n int, h gnet.EventHandler, wake func(loop int)) (all []gnet.EventLoop, err error) {
	k.handler = h
	for i := range n {
		e := &engine{k: k, index: i, ring: func() { wake(i) }}
		k.loops = append(k.loops, e)
		all = append(all, e)
	}
	return all, nil
}

// Stop is described at loop.System.
func (k *Kernel) Stop() {}

// SetTimer is described at loop.System.
func (k *Kernel) SetTimer(loop int, at time.Time) {
	e := k.loops[loop]
	e.due = at
	k.At(at, func() {
		if e.due.Equal(at) {
			e.due = time.Time{}
			e.ring()
		}
	})
}

// Dial is described at loop.System.
func (k *Kernel) Dial(ctx context.Context, _ *net.Dialer, addr string) (net.Conn, error) {
	type result struct {
		nc  net.Conn
		err error
	}
	r, given := make(chan result, 1), false
	k.Later("dial "+addr, func() {
		s, after, err := k.Reach(addr)
		k.After(after, func() {
			switch {
			case given:
			case err != nil:
				r <- result{err: err}
			default:
				r <- result{nc: k.netConn(s, k.open(s))}
			}
		})
	})
	select {
	case got := <-r:
		return got.nc, got.err
	case <-ctx.Done():
		k.Later("dial "+addr, func() { given = true })
		return nil, ctx.Err()
	}
}

// Conn is described at loop.System.
func (k *Kernel) Conn(fd int) (net.Conn, error) {
	s := k.socket(fd)
	switch {
	case !s.Lost.IsZero() || s.over():
		return nil, unix.ENOTCONN
	case k.Fault(k.Faults):
		s.Faulty = true
		k.Close(fd)
		return nil, unix.EMFILE
	}
	return k.netConn(s, fd), nil
}

// A netConn is a socket on its way into a loop.
type netConn struct {
	net.Conn
	k             *Kernel
	s             *Socket
	fd            int
	local, remote net.Addr
}

func (k *Kernel) netConn(s *Socket, fd int) *netConn {
	return &netConn{k: k, s: s, fd: fd, remote: net.TCPAddrFromAddrPort(s.Addr),
		local: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.IPv4Unspecified(), 80))}
}

func (nc *netConn) RemoteAddr() net.Addr { return nc.remote }
func (nc *netConn) LocalAddr() net.Addr  { return nc.local }

func (nc *netConn) Close() error {
	nc.k.Later(key("close", nc.fd), func() { nc.k.Close(nc.fd) })
	return nil
}

// A Listener is a listening socket in a Kernel.
//
// Safe for concurrent use, except for Connect.
type Listener struct {
	k     *Kernel
	queue chan net.Conn
	ended chan struct{}
}

// NewListener returns a listener, with an accept queue that is long enough.
func (k *Kernel) NewListener() *Listener {
	return &Listener{k: k, queue: make(chan net.Conn, 1<<10), ended: make(chan struct{})}
}

// Connect brings s to the accept queue.
func (l *Listener) Connect(s *Socket) {
	nc := l.k.netConn(s, l.k.open(s))
	l.k.late = append(l.k.late, func() { l.queue <- nc })
}

// Accept implements net.Listener, as do the following.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case nc := <-l.queue:
		return nc, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

// Addr is described at net.Listener.
func (l *Listener) Addr() net.Addr { return &net.TCPAddr{} }

// Close is described at net.Listener.
func (l *Listener) Close() error {
	close(l.ended)
	return nil
}

// An engine is one event loop of gnet.
type engine struct {
	gnet.EventLoop
	k     *Kernel
	index int
	due   time.Time // of the timer; zero: it is not set
	ring  func()
}

// Enroll is the way of a socket into the loop.
func (e *engine) Enroll(ctx context.Context, nc net.Conn) (<-chan gnet.RegisteredResult, error) {
	k, from := e.k, nc.(*netConn)
	res := make(chan gnet.RegisteredResult, 1)
	k.Later(key("enroll", from.fd), func() {
		refused := k.Fault(k.Faults)
		from.s.Faulty = from.s.Faulty || refused
		k.After(k.Within(k.EnrolMax), func() {
			fd := k.open(from.s) // gnet duplicates
			k.Close(from.fd)
			if refused {
				k.Close(fd)
				k.late = append(k.late, func() { res <- gnet.RegisteredResult{} })
				return
			}
			gc := &conn{e: e, fd: fd, s: from.s, ctx: gnet.FromContext(ctx), opened: true}
			from.s.conn = gc
			from.s.note("is in the loop", e.index, "")
			k.calls(func() { k.handler.OnOpen(gc) })
			k.late = append(k.late, func() { res <- gnet.RegisteredResult{Conn: gc} })
			from.s.changed()
		})
	})
	return res, nil
}

// Execute is how a loop is woken.
func (e *engine) Execute(ctx context.Context, r gnet.Runnable) error {
	k := e.k
	k.Later(key("execute", e.index), func() {
		k.After(k.Within(100*time.Microsecond), func() {
			k.calls(func() {
				if err := r.Run(ctx); err != nil {
					k.Failed(nil, "a turn: %v", err)
				}
			})
		})
	})
	return nil
}

// Close is gnet's close by the Group.
func (e *engine) Close(gc gnet.Conn) error {
	e.k.hangUp(gc.(*conn), nil)
	return nil
}

// calls calls into the Group, and overwrites afterwards what it has read.
func (k *Kernel) calls(f func()) {
	k.depth++
	f()
	if k.depth--; k.depth > 0 {
		return
	}
	for _, b := range k.lent {
		Poison(b)
	}
	k.lent = k.lent[:0]
}

// A conn is gnet's connection.
type conn struct {
	gnet.Conn
	e      *engine
	fd     int
	s      *Socket
	ctx    any
	in     []byte
	opened bool
}

func (gc *conn) Context() any              { return gc.ctx }
func (gc *conn) SetContext(ctx any)        { gc.ctx = ctx }
func (gc *conn) Fd() int                   { return gc.fd }
func (gc *conn) EventLoop() gnet.EventLoop { return gc.e }

func (gc *conn) InboundBuffered() int { return len(gc.used().in) }

func (gc *conn) Peek(n int) ([]byte, error) { return gc.used().in[:n:n], nil }

func (gc *conn) Discard(n int) (int, error) {
	k := gc.used().e.k
	k.lent = append(k.lent, gc.in[:n:n])
	gc.in = gc.in[n:]
	return n, nil
}

func (gc *conn) Dup() (int, error) {
	k := gc.used().e.k
	if k.Fault(k.Faults) {
		gc.s.Faulty = true
		return -1, unix.EMFILE
	}
	return k.open(gc.s), nil
}

// used says that gnet's connection is used, which must not be after its close.
func (gc *conn) used() *conn {
	if !gc.opened {
		gc.e.k.Failed(gc.s.Log, "gnet's connection is used after its close")
	}
	return gc
}

// poll is what gnet does when a socket is ready: it reads once, and at the end of what the peer
// sends, all.
func (k *Kernel) poll(gc *conn) {
	if !gc.opened {
		return
	}
	s := gc.s
	for gc.opened && len(s.in) > 0 {
		n := len(s.in)
		if !s.Ended {
			n = 1 + k.IntN(n)
		}
		gc.in = append(gc.in, s.in[:n]...)
		s.in = s.in[n:]
		s.wake()
		k.calls(func() { k.handler.OnTraffic(gc) })
		if !s.Ended {
			s.changed()
			return
		}
	}
	switch {
	case !gc.opened:
	case s.Ended:
		k.hangUp(gc, io.EOF)
	case s.Lost.IsZero():
	case k.Odds(.2): // gnet has seen the reset, before epoll says that there is something to read
		k.hangUp(gc, io.EOF)
	default:
		k.hangUp(gc, os.NewSyscallError("read", unix.ECONNRESET))
	}
}

// hangUp is gnet's close.
func (k *Kernel) hangUp(gc *conn, err error) {
	if gc.s.conn != gc {
		return
	}
	gc.s.conn = nil
	k.calls(func() { k.handler.OnClose(gc, err) })
	gc.opened, gc.in = false, nil
	k.Close(gc.fd)
}
