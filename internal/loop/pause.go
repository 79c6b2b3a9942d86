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
// It comes back when the Handler has caught up. Writing goes on meanwhile: what
// is unsent is ours, not gnet's (write.go).

// pause stops reading.
func (c *Conn) pause() {
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
	if c.accepted && !c.duplex && c.Unsent() > c.loop.g.cfg.OutboundMax {
		c.hungry = true
		return
	}
	if len(c.saved) > 0 {
		c.showSaved(now)
	}
	if c.state == statePaused && len(c.saved) <= c.loop.g.cfg.InboundMax/2 {
		c.resume()
	}
}

// resume brings the socket back into the loop; opened is told of it.
func (c *Conn) resume() {
	if c.state != statePaused || c.fd < 0 {
		return
	}
	if _, err := unix.Getpeername(c.fd); err != nil {
		c.finish()
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
