// Package looptest supports tests of connections: a Kernel on which a loop.Group runs in virtual time,
// with the peers of its connections, and listeners that do not answer.
package looptest

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience bounds all waits.
const patience = 2 * time.Minute

// FullListener returns the address of a listener on 127.0.0.1 whose accept queue is full, so
// that another connect gets no answer. The listener is closed by end, or when the test ends.
func FullListener(t *testing.T) (addr string, end func()) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(func() { _ = unix.Close(fd) })
	t.Cleanup(end)
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}),
		unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr = fmt.Sprintf("127.0.0.1:%d", name.(*unix.SockaddrInet4).Port)
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	for late := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err == nil && info.Unacked > info.Sacked { // of a listener: the length of the queue, and its bound
			return addr, end
		}
		if time.Now().After(late) {
			t.Fatalf("the accept queue does not fill: %+v, %v", info, err)
		}
	}
}
