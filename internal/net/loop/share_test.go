package loop

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/test/testkit"
)

// successor is another Listener over the socket of ln, as another process
// would have it.
func successor(t *testing.T, g *Group, ln *Listener) *Listener {
	t.Helper()
	fd, dupErr := -1, error(nil)
	raw := testkit.Must(ln.SyscallConn())(t)
	err := raw.Control(func(own uintptr) { fd, dupErr = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0) })
	if err = errors.Join(err, dupErr); err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "socket")
	defer f.Close()
	return g.Serve(testkit.Must(net.FileListener(f))(t), nil, echo)
}

// A listener closed while another has its socket takes nobody with it.
func TestClosedListenerLeavesTheSharedQueue(t *testing.T) {
	groups := [2]*Group{start(t, Config{Loops: 1}), start(t, Config{Loops: 1})}
	ln := groups[0].Serve(testkit.Listen(t), nil, echo)
	addr := ln.Addr().String()
	var storm sync.WaitGroup
	var stop atomic.Bool
	var answered atomic.Int64
	for range 8 {
		storm.Go(func() {
			for !stop.Load() {
				if err := once(addr); err != nil {
					t.Errorf("a client met %v", err)
					return
				}
				answered.Add(1)
			}
		})
	}
	for i := range 20 {
		more := answered.Load() + 20
		testkit.Eventually(t, "clients are answered", func() bool { return answered.Load() >= more || t.Failed() })
		next := successor(t, groups[(i+1)%2], ln)
		ln.Close()
		ln = next
	}
	stop.Store(true)
	storm.Wait()
	ln.Close()
}

// once connects, is answered and leaves.
func once(addr string) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(testkit.Timeout))
	if _, err := c.Write([]byte("x")); err != nil {
		return err
	}
	_, err = c.Read(make([]byte, 1))
	return err
}
