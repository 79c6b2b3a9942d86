package loop

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// errNotEnrolled: epoll refused the socket.
var errNotEnrolled = errors.New("take connection into its loop: refused by the kernel")

// Reading is paused by taking the socket out of the loop: gnet has no pause,
// so the descriptor is duplicated, gnet closes its own, and the connection
// lives on in the duplicate while TCP's flow control holds the sender back.
// It comes back when the Handler has caught up, or when an answer does not fit
// into the socket's buffer.

// pause stops reading. A connection whose answers wait unsent cannot be taken
// out, as gnet would lose them: its sender neither reads nor stops, so it is
// closed once it has filled the bound several times over.
func (c *Conn) pause() {
	if c.sock.OutboundBuffered() > 0 {
		if c.unread() > 8*c.loop.g.cfg.InboundMax {
			c.loop.g.stats.stalled.Add(1)
			c.closeSock()
		}
		return
	}
	fd, err := c.sock.Dup()
	if err != nil {
		c.closeSock() // no descriptor left to hold it by
		return
	}
	c.takeOver(c.sock.InboundBuffered())
	sock := c.sock
	c.sock, c.fd, c.state = nil, fd, statePaused
	c.loop.g.stats.paused.Add(1)
	_ = c.loop.el.Close(sock) // OnClose sees that the socket is not ours any more
}

// feedPaused shows the saved bytes and resumes reading when few are left.
func (c *Conn) feedPaused(now time.Time) {
	if len(c.saved) > 0 {
		c.showSaved(now)
	}
	if c.state == statePaused && len(c.saved) <= c.loop.g.cfg.InboundMax/2 {
		c.resume()
	}
}

// writePaused sends without the loop; the rest waits until it is back in it.
func (c *Conn) writePaused(b []byte) {
	if len(c.pending) == 0 {
		n, err := unix.Write(c.fd, b)
		if err != nil && err != unix.EAGAIN {
			_ = unix.Close(c.fd)
			c.fd = -1
			c.gone(err)
			return
		}
		b = b[max(n, 0):]
	}
	if len(b) > 0 {
		c.pending = append(c.pending, b...)
		c.resume()
	}
}

// resume brings the socket back into the loop; opened is told of it.
func (c *Conn) resume() {
	if c.state != statePaused || c.fd < 0 {
		return
	}
	c.state = stateOpening
	nc, err := fileConn(c.fd)
	c.fd = -1
	if err != nil {
		c.gone(err)
		return
	}
	e, err := c.enroll(nc)
	if err != nil {
		c.gone(err)
		return
	}
	go e.await()
}

// failed is told that the socket did not get into the loop.
func (c *Conn) failed(now time.Time, err error) {
	if err == nil {
		err = errNotEnrolled
	}
	if c.dialled != nil {
		dialled := c.dialled
		c.dialled = nil
		dialled(now, nil, err)
	}
	c.gone(err)
}
