package loop

import "golang.org/x/sys/unix"

// Abort closes the connection at once by a reset, so that the peer does not
// take what it has for everything. Unsent bytes are lost.
func (c *Conn) Abort() {
	if c.secure != nil {
		c.secure.reset()
	} else if fd := c.descriptor(); c.state != stateClosed && c.state != stateOpening && fd >= 0 {
		_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	}
	c.Close()
}
