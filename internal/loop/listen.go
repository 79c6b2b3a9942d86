package loop

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// acceptPauseMin and Max bound the wait after a failed accept, which
	// doubles from one to the other.
	acceptPauseMin = 5 * time.Millisecond
	acceptPauseMax = 50 * time.Millisecond
	// shedMax bounds the connections closed after one failed accept.
	shedMax = 256
	// enrollingMax bounds the accepted connections on their way to a loop.
	enrollingMax = 256
)

// A Listener accepts connections for a Group and deals them out to the loop
// with the fewest. It is a socket and a goroutine of our own: gnet's listener
// ends the whole engine when accept runs out of descriptors.
//
// Safe for concurrent use: accepting is one goroutine's.
type Listener struct {
	g      *Group
	ln     net.Listener
	accept AcceptFunc

	enrolling chan *enrolment
	ended     sync.WaitGroup
	reserve   *os.File // a descriptor to give up when there is no other
}

// Listen starts to accept on addr ("host:port"; port 0 picks one). Every
// connection's Handler is made by accept, on the connection's loop.
func (g *Group) Listen(addr string, accept AcceptFunc) (*Listener, error) {
	ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, err // names the address
	}
	l := &Listener{g: g, ln: ln, accept: accept, enrolling: make(chan *enrolment, enrollingMax)}
	l.reserve, _ = os.Open(os.DevNull)
	l.ended.Add(2)
	go l.run()
	go l.settle()
	return l, nil
}

// Addr is the address listened on.
func (l *Listener) Addr() net.Addr { return l.ln.Addr() }

// Close stops accepting and returns when no accept is under way. Connections
// live on.
func (l *Listener) Close() {
	_ = l.ln.Close()
	l.ended.Wait()
}

func (l *Listener) run() {
	defer l.ended.Done()
	defer close(l.enrolling)
	pause := acceptPauseMin
	for {
		nc, err := l.ln.Accept()
		switch {
		case err == nil:
			pause = acceptPauseMin
			l.take(nc)
		case errors.Is(err, net.ErrClosed):
			if l.reserve != nil {
				_ = l.reserve.Close()
			}
			return
		default:
			l.g.stats.acceptErrors.Add(1)
			if exhausted(err) {
				l.shed()
			}
			time.Sleep(pause)
			pause = min(2*pause, acceptPauseMax)
		}
	}
}

// exhausted reports whether accept failed for want of descriptors or memory.
func exhausted(err error) bool {
	for _, e := range []error{unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// shed closes what waits in the accept queue, with the one descriptor kept for
// it, so that clients learn at once instead of waiting for an answer.
func (l *Listener) shed() {
	if l.reserve == nil {
		return
	}
	_ = l.reserve.Close()
	if tl, ok := l.ln.(*net.TCPListener); ok {
		_ = tl.SetDeadline(time.Now().Add(time.Millisecond))
		for range shedMax {
			nc, err := tl.Accept()
			if err != nil {
				break
			}
			l.g.stats.refused.Add(1)
			_ = nc.Close()
		}
		_ = tl.SetDeadline(time.Time{})
	}
	l.reserve, _ = os.Open(os.DevNull)
}

// take gives an accepted connection to a loop, or closes it at the cap.
func (l *Listener) take(nc net.Conn) {
	g := l.g
	if g.open.Load() >= int64(g.cfg.ConnectionsMax) {
		g.stats.refused.Add(1)
		_ = nc.Close()
		return
	}
	lp := g.fewest()
	c := newConn(lp)
	c.accepted, c.accept, c.remote = true, l.accept, remoteOf(nc)
	g.open.Add(1)
	lp.open.Add(1)
	g.stats.accepted.Add(1)
	e, err := c.enroll(nc)
	if err != nil {
		lp.Post(func(now time.Time) { c.failed(now, err) })
		return
	}
	l.enrolling <- e
}

// settle sees to connections that did not get into their loop.
func (l *Listener) settle() {
	defer l.ended.Done()
	for e := range l.enrolling {
		e.await()
	}
}

// fewest is the loop with the fewest accepted connections.
func (g *Group) fewest() *Loop {
	best := g.loops[0]
	for _, l := range g.loops[1:] {
		if l.open.Load() < best.open.Load() {
			best = l
		}
	}
	return best
}

func remoteOf(nc net.Conn) netip.AddrPort {
	a, ok := nc.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := a.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
