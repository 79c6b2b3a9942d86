package loop

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"weir/internal/net/loop/pump"
)

// A kernel has the system calls of a Conn that do not go through gnet. Tests replace it by one
// in which anything may fail.
type kernel interface {
	write(fd int, b []byte) (int, error)
	read(fd int, b []byte) (int, error)
	// shutdown half closes.
	shutdown(fd int)
	// socketError returns and clears the error of a socket, or nil.
	socketError(fd int) error
	// unheard returns how many bytes that a socket has taken its peer has not acknowledged.
	unheard(fd int) int
	// reset makes the following close reset the connection.
	reset(fd int)
	close(fd int)
	// enroll passes a descriptor to c's loop and takes it over, even if it fails, except with
	// ENOTCONN: the peer is gone, and gnet rejects sockets without a peer's address.
	// Conn.opened or Conn.failed follows.
	enroll(c *Conn, fd int) error
}

// system is the real kernel.
type system struct{}

// write does not notify the scheduler, unlike unix.Write: sockets of a loop never block.
// Loopback delivers within the call, and the scheduler could meanwhile take the loop's
// processor.
func (system) write(fd int, b []byte) (int, error) {
	n, _, err := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))),
		uintptr(len(b)))
	if err != 0 {
		return 0, err
	}
	return int(n), nil
}

func (system) read(fd int, b []byte) (int, error) { return unix.Read(fd, b) }
func (system) shutdown(fd int)                    { _ = unix.Shutdown(fd, unix.SHUT_WR) }
func (system) close(fd int)                       { _ = unix.Close(fd) }

func (system) socketError(fd int) error {
	if n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR); err == nil && n != 0 {
		return unix.Errno(n)
	}
	return nil
}

func (system) unheard(fd int) int {
	n, _ := unix.IoctlGetInt(fd, unix.SIOCOUTQ) // an error is that the socket was never connected
	return n
}

func (system) reset(fd int) {
	_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
}

func (system) enroll(c *Conn, fd int) error {
	if _, err := unix.Getpeername(fd); err != nil {
		return unix.ENOTCONN
	}
	nc, err := pump.FileConn(fd)
	if err != nil {
		return err
	}
	e, err := c.enroll(nc)
	if err != nil {
		return err
	}
	go e.await()
	return nil
}
