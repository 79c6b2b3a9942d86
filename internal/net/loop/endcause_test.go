package loop

import (
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/test/testkit"
)

// A peer that has sent all and closed has ended properly, also when it refuses what we
// send afterwards; one that resets has not.
func TestEndCause(t *testing.T) {
	for name, test := range map[string]struct {
		linger int // of the peer; 0: it resets
		want   error
	}{
		"closed, then sent to": {-1, io.EOF},
		"reset":                {0, unix.ECONNRESET},
	} {
		t.Run(name, func(t *testing.T) {
			fd, peer := connected(t)
			_ = peer.SetLinger(test.linger)
			_ = peer.Close()
			states := func(closed uint8) {
				for late := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
					info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
					if err != nil || time.Now().After(late) {
						t.Fatalf("the socket does not come to state %d: %+v, %v", closed, info, err)
					}
					if info.State == closed {
						return
					}
				}
			}
			if test.want == io.EOF {
				states(unix.BPF_TCP_CLOSE_WAIT)
				if _, err := unix.Write(fd, []byte("late")); err != nil {
					t.Fatal(err)
				}
			}
			states(unix.BPF_TCP_CLOSE)
			if err := (&Loop{system: new(system)}).endCause(fd); err != test.want {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

// connected is a connected socket and its peer.
func connected(t *testing.T) (fd int, peer *net.TCPConn) {
	t.Helper()
	l := testkit.Listen(t)
	fd = testkit.Must(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: l.Addr().(*net.TCPAddr).Port,
		Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	c := testkit.Must(l.Accept())(t)
	return fd, c.(*net.TCPConn)
}
