// Package looptest has what tests of connections need.
package looptest

import (
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long what must happen may take.
const patience = 2 * time.Minute

// FullListener is an address on 127.0.0.1 whose accept queue is full until t ends: a
// further connect gets no answer.
func FullListener(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", name.(*unix.SockaddrInet4).Port)
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err == nil && info.Unacked > info.Sacked { // of a listener: who waits, and the backlog
			return addr
		}
		if time.Now().After(end) {
			t.Fatalf("the accept queue does not fill: %+v, %v", info, err)
		}
	}
}
