package loop

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"weir/internal/pump"
)

// A kernel is what a Conn asks of the operating system beside gnet; tests have
// one of their own, in which anything may fail.
type kernel interface {
	write(fd int, b []byte) (int, error)
	read(fd int, b []byte) (int, error)
	// shutdown ends what is sent: a half close.
	shutdown(fd int)
	// socketError is the error that a socket ended with, once; nil: there is none.
	socketError(fd int) error
	// reset has the close that follows reset the connection.
	reset(fd int)
	close(fd int)
	// enroll hands a descriptor to c's loop, which it takes over also when it
	// fails, but for ENOTCONN: the peer is gone, and gnet does not take a
	// socket without a peer's address. Conn.opened or Conn.failed follows.
	enroll(c *Conn, fd int) error
}

// system is the kernel of the machine.
type system struct{}

// write does not tell the scheduler, as unix.Write does: a socket of a loop never blocks.
// Loopback delivers within the call, and the scheduler would meanwhile take the loop's
// processor away.
func (system) write(fd int, b []byte) (int, error) {
	n, _, err := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
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
