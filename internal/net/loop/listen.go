package loop

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/net/admit"
)

const (
	// acceptPauseMin and Max bound the wait after a failed accept, which
	// doubles from one to the other.
	acceptPauseMin = 5 * time.Millisecond
	acceptPauseMax = 50 * time.Millisecond
	// shedMax bounds the connections closed after one failed accept.
	shedMax = 256
	// enrollingMax bounds the accepted connections that are being enrolled.
	enrollingMax = 256
)

// A Listener accepts connections for a Group and gives each to the loop with the fewest. It has
// its own socket and goroutine, because gnet's listener stops the whole engine when accept
// runs out of descriptors.
//
// Safe for concurrent use: one goroutine accepts.
type Listener struct {
	g      *Group
	ln     net.Listener
	accept AcceptFunc
	secure *tls.Config // nil without TLS

	enrolling chan *registration
	ended     sync.WaitGroup
	reserve   *os.File // a descriptor to free when there is no other
}

// Serve accepts on ln and takes it over; ln may come from another process. accept makes the Handler
// of each connection, on the connection's loop. If secure is not nil connections use TLS, and accept
// is called after the handshake.
func (g *Group) Serve(ln net.Listener, secure *tls.Config, accept AcceptFunc) *Listener {
	l := &Listener{g: g, ln: ln, accept: accept, secure: secure, enrolling: make(chan *registration, enrollingMax)}
	if secure != nil {
		g.connLimit.ReserveTLSIn()
	}
	l.reserve, _ = os.Open(os.DevNull)
	l.ended.Go(l.run)
	l.ended.Go(l.settle)
	return l
}

// Addr returns the listening address.
func (l *Listener) Addr() net.Addr { return l.ln.Addr() }

// SyscallConn gives access to the socket, on a duplicate of which another process can accept.
// Both share one accept queue, so closing either does not affect clients in it.
func (l *Listener) SyscallConn() (syscall.RawConn, error) {
	if sc, ok := l.ln.(syscall.Conn); ok {
		return sc.SyscallConn()
	}
	return nil, fmt.Errorf("listener %s: a %T has no socket", l.Addr(), l.ln)
}

// Close stops accepting and returns when no accept is in progress. Connections stay open,
// including those in a handshake.
func (l *Listener) Close() {
	_ = l.ln.Close()
	l.ended.Wait()
}

func (l *Listener) run() {
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
			l.g.stats.AcceptErrors.Add(1)
			if exhausted(err) {
				l.shed()
			}
			time.Sleep(pause)
			pause = min(2*pause, acceptPauseMax)
		}
	}
}

// exhausted reports whether accept failed for lack of descriptors or memory.
func exhausted(err error) bool {
	return slices.ContainsFunc([]error{unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM},
		func(e error) bool { return errors.Is(err, e) })
}

// shed closes the connections in the accept queue, using the reserved descriptor, so that
// clients do not wait for an answer.
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
			l.g.stats.Refused.Add(1)
			_ = nc.Close()
		}
		_ = tl.SetDeadline(time.Time{})
	}
	l.reserve, _ = os.Open(os.DevNull)
}

// take passes an accepted connection to the loop with the fewest, or closes it at the bound.
func (l *Listener) take(nc net.Conn) {
	g, remote := l.g, addrPortOf(nc.RemoteAddr())
	if !g.admit(remote.Addr()) {
		_ = nc.Close()
		return
	}
	lp := slices.MinFunc(g.loops, func(a, b *Loop) int { return cmp.Compare(a.open.Load(), b.open.Load()) })
	lp.open.Add(1)
	c := newConn(lp)
	c.accepted, c.accept, c.remote, c.local = true, l.accept, remote, addrPortOf(nc.LocalAddr())
	if l.secure != nil {
		l.takeSecure(c, nc)
		return
	}
	e, err := c.enroll(nc)
	if err != nil {
		lp.Post(func(now time.Time) { c.failed(now, err) })
		return
	}
	l.enrolling <- e
}

// takeSecure starts a goroutine for the handshake, since a client may be slow.
func (l *Listener) takeSecure(c *Conn, nc net.Conn) {
	p := c.newPump(nc, func(w net.Conn) *tls.Conn { return tls.Server(w, l.secure) })
	if p == nil {
		_ = nc.Close()
		l.g.leave(c)
		return
	}
	go c.welcome(p, time.Now().Add(l.g.cfg.HandshakeTimeout))
}

// settle awaits enrolments, and handles those that failed.
func (l *Listener) settle() {
	for e := range l.enrolling {
		e.await()
	}
}

func addrPortOf(addr net.Addr) netip.AddrPort {
	a, ok := addr.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := a.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

// admit counts a connection from addr, and reports whether it is within the bounds. At the bound it
// is accepted in place of one that is about to be closed, so there may be more for a moment. That one
// has no connection to a target, so there are descriptors for both.
func (g *Group) admit(addr netip.Addr) bool {
	most, refused := g.connLimit.Most(), &g.stats.Refused
	open := g.stats.Open.Add(1)
	switch g.clients.Enter(addr, most, open) {
	case admit.Accepted:
		g.stats.Accepted.Add(1)
		if open > most {
			g.clients.EndSilent(addr)
		}
		return true
	case admit.ClientBound:
		refused = &g.stats.RefusedAddress
	case admit.ClientShare:
		refused = &g.stats.RefusedShare
	case admit.TotalBound:
	}
	g.stats.Open.Add(-1)
	refused.Add(1)
	return false
}

// await lets the connection be closed in favour of a new one until something is received.
func (c *Conn) await() {
	g := c.loop.g
	if !c.remote.IsValid() {
		return
	}
	c.unused = g.clients.Await(c.remote.Addr(), func() {
		c.loop.Post(func(time.Time) {
			c.Fetch() // its request may have arrived during this turn
			switch {
			case c.state == stateClosed:
			case c.unused == nil: // something has been received meanwhile
				g.clients.EndSilent(c.remote.Addr())
			default:
				g.stats.Replaced.Add(1)
				c.CloseDrained()
			}
		})
	})
}

// heard ends what await began.
func (c *Conn) heard() {
	if c.unused != nil {
		c.loop.g.clients.MarkUsed(c.unused)
		c.unused = nil
	}
}

// leave undoes admit for c. It is called when the socket to the client is closed; for a TLS
// connection that is after the end of the Conn. The Group's count falls last, so the place is
// free then.
func (g *Group) leave(c *Conn) {
	g.clients.Leave(c.remote.Addr())
	c.loop.open.Add(-1)
	g.stats.Open.Add(-1)
}
