package loop

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// errNotEnrolled means that epoll refused the socket.
var errNotEnrolled = errors.New("take connection into its loop: refused by the kernel")

// gnet cannot pause reading, so a paused socket is taken out of the loop: its descriptor is
// duplicated, gnet closes its own, and the connection keeps the duplicate while TCP's flow
// control slows the sender. The socket is enrolled again when the Handler has caught up.
// Writing continues meanwhile, because the Conn keeps unsent bytes itself (write.go).

// paused reports whether reading is paused.
func (c *Conn) paused() bool { return c.state == stateDetached && c.peer == peerSends }

// pause stops reading.
func (c *Conn) pause() {
	fd, err := c.sock.Dup()
	if err != nil {
		c.Close() // no descriptor is left
		return
	}
	c.takeOver(c.sock.InboundBuffered())
	sock := c.sock
	c.sock, c.fd, c.state = nil, fd, stateDetached
	c.loop.g.stats.Paused.Add(1)
	_ = c.loop.el.Close(sock) // OnClose finds that the socket is no longer that of the Conn
}

// resume enrols the socket of a paused connection again; opened follows.
func (c *Conn) resume() {
	err := c.rejoin(c.fd)
	if err == unix.ENOTCONN {
		c.peerLeft(unix.ECONNRESET)
		return
	}
	c.fd, c.state = -1, stateEnrolling
	if err != nil {
		c.gone(err)
	}
}

// failed handles a socket that could not be taken into the loop.
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
