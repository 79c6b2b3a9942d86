package loop

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"time"
	"unsafe"

	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/logging"
	"golang.org/x/sys/unix"

	"weir/internal/net/loop/pump"
)

// A System has what a Group needs of gnet and of the system: event loops, a timer, and the system
// calls of a Conn that do not go through gnet. Package looptest simulates one in virtual time, in
// which anything may fail.
//
// Dial and SetTimer are safe for concurrent use; Start and Stop are for the owner of the Group, the
// others for its loops.
type System interface {
	// Start starts n event loops, which call h, and a timer, which calls wake.
	Start(n int, h gnet.EventHandler, wake func(loop int)) ([]gnet.EventLoop, error)
	// Stop ends them.
	Stop()
	// SetTimer sets or replaces the time at which wake is called for a loop.
	SetTimer(loop int, at time.Time)
	// Dial connects with d to addr ("host:port").
	Dial(ctx context.Context, d *net.Dialer, addr string) (net.Conn, error)
	// Conn makes a net.Conn from a descriptor and takes it over, even if it fails, except with
	// ENOTCONN: the peer is gone, and gnet rejects sockets without a peer's address.
	Conn(fd int) (net.Conn, error)

	Write(fd int, b []byte) (int, error)
	Read(fd int, b []byte) (int, error)
	// Shutdown half closes.
	Shutdown(fd int)
	// SocketError returns and clears the error of a socket, or nil.
	SocketError(fd int) error
	// Unacked returns how many bytes that a socket has taken its peer has not acknowledged.
	Unacked(fd int) int
	// Reset makes the following close reset the connection.
	Reset(fd int)
	Close(fd int)
}

// sparesForOthers is the number of additional processors of Go for work outside the loops.
// Without one, a connect took up to 10 ms on an idle machine.
const sparesForOthers = 1

// A system is the real System.
//
// Safe for concurrent use like a System: its fields do not change after Start.
type system struct {
	clock   *clock
	client  *gnet.Client
	anchors []net.Conn // one for each loop, see findLoops
}

// Start implements System.
func (s *system) Start(n int, h gnet.EventHandler, wake func(loop int)) (all []gnet.EventLoop, err error) {
	if s.clock, err = startClock(n, wake); err != nil {
		return nil, err
	}
	// A thread that blocks in the kernel, as those of the loops and the clock do, keeps its
	// processor of Go until the runtime's monitor takes it, up to 10 ms later. Dials,
	// accepts and own endpoints need others.
	if most := n + 1 + sparesForOthers; runtime.GOMAXPROCS(0) < most {
		runtime.GOMAXPROCS(most)
	}
	// Level-triggered: with edges gnet would read a connection without end, before all others, if its peer
	// sends fast enough.
	s.client, err = gnet.NewClient(h,
		gnet.WithNumEventLoop(n), gnet.WithLogger(discardLogger{}), gnet.WithLogLevel(logging.FatalLevel))
	if err == nil {
		err = s.client.Start()
	}
	if err != nil {
		s.clock.stop()
		return nil, fmt.Errorf("start event loops: %w", err)
	}
	if all, err = s.findLoops(n); err != nil {
		s.Stop()
	}
	return all, err
}

// findLoops determines gnet's handle of every loop. gnet does not list them, but a connection
// has its loop, and a new connection goes to the loop with the fewest: so as many socket
// pairs as loops reach all of them. They stay open as anchors.
func (s *system) findLoops(n int) (all []gnet.EventLoop, err error) {
	known := make(map[gnet.EventLoop]bool, n)
	for range n {
		ours, theirs, err := pump.Pair()
		if err != nil {
			return nil, fmt.Errorf("open socket pair: %w", err)
		}
		found := make(chan gnet.EventLoop, 1)
		if _, err := s.client.EnrollContext(ours, found); err != nil {
			_ = theirs.Close()
			return nil, fmt.Errorf("enroll socket pair: %w", err)
		}
		s.anchors = append(s.anchors, theirs)
		el := <-found
		if known[el] {
			return nil, errors.New("find event loops: one was found twice")
		}
		known[el] = true
		all = append(all, el)
	}
	return all, nil
}

// Stop implements System.
func (s *system) Stop() {
	s.clock.stop()
	_ = s.client.Stop()
	for _, a := range s.anchors {
		_ = a.Close()
	}
}

// SetTimer implements System.
func (s *system) SetTimer(loop int, at time.Time) { s.clock.set(loop, at.Sub(s.clock.epoch)) }

// Dial implements System.
func (s *system) Dial(ctx context.Context, d *net.Dialer, addr string) (net.Conn, error) {
	return d.DialContext(ctx, "tcp", addr)
}

// Conn implements System.
func (s *system) Conn(fd int) (net.Conn, error) {
	if _, err := unix.Getpeername(fd); err != nil {
		return nil, unix.ENOTCONN
	}
	return pump.FileConn(fd)
}

// Write does not notify the scheduler, unlike unix.Sendto: sockets of a loop never block.
// Loopback delivers within the call, and the scheduler could meanwhile take the loop's
// processor. For a socket, sendto takes the kernel less time than write.
func (s *system) Write(fd int, b []byte) (int, error) {
	n, _, err := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))),
		uintptr(len(b)), unix.MSG_NOSIGNAL, 0, 0)
	if err != 0 {
		return 0, err
	}
	return int(n), nil
}

// Read implements System, as do the following.
func (s *system) Read(fd int, b []byte) (int, error) { return unix.Read(fd, b) }

// Shutdown is described at System.
func (s *system) Shutdown(fd int) { _ = unix.Shutdown(fd, unix.SHUT_WR) }

// Close is described at System.
func (s *system) Close(fd int) { _ = unix.Close(fd) }

// SocketError is described at System.
func (s *system) SocketError(fd int) error {
	if n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR); err == nil && n != 0 {
		return unix.Errno(n)
	}
	return nil
}

// Unacked is described at System.
func (s *system) Unacked(fd int) int {
	n, _ := unix.IoctlGetInt(fd, unix.SIOCOUTQ) // an error is that the socket was never connected
	return n
}

// Reset is described at System.
func (s *system) Reset(fd int) {
	_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
}
