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

// paused reports whether reading is paused.
func (c *Conn) paused() bool { return c.state == stateOurs && c.peer == peerSends }

// pause stops reading.
func (c *Conn) pause() {
	fd, err := c.sock.Dup()
	if err != nil {
		c.Close() // no descriptor left to hold it by
		return
	}
	c.takeOver(c.sock.InboundBuffered())
	sock := c.sock
	c.sock, c.fd, c.state = nil, fd, stateOurs
	c.loop.g.stats.paused.Add(1)
	_ = c.loop.el.Close(sock) // OnClose sees that the socket is not ours any more
}

// resume brings the socket of a paused connection back into the loop; opened
// is told of it.
func (c *Conn) resume() {
	err := c.loop.kernel.enroll(c, c.fd)
	if err == unix.ENOTCONN {
		c.peerLeft(unix.ECONNRESET)
		return
	}
	c.fd, c.state = -1, stateAway
	if err != nil {
		c.gone(err)
	}
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
