package loop

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/testkit"
)

// successor is another Listener over the socket of ln, as another process
// would have it.
func successor(t *testing.T, g *Group, ln *Listener) *Listener {
	t.Helper()
	f := testkit.Must(ln.File())(t)
	defer f.Close()
	next := testkit.Must(net.FileListener(f))(t)
	return g.Serve(next, nil, echo)
}

// A listener closed while another has its socket takes nobody with it.
func TestClosedListenerLeavesTheSharedQueue(t *testing.T) {
	groups := [2]*Group{start(t, Config{Loops: 1}), start(t, Config{Loops: 1})}
	ln := testkit.Must(groups[0].Listen("127.0.0.1:0", echo))(t)
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
	_ = c.SetDeadline(time.Now().Add(testkit.Patience))
	if _, err := c.Write([]byte("x")); err != nil {
		return err
	}
	_, err = c.Read(make([]byte, 1))
	return err
}

// net.TCPListener.File makes the socket a blocking one as soon as its
// descriptor is asked for; ours is nobody's to change.
func TestFileLeavesTheSocketNonBlocking(t *testing.T) {
	g := start(t, Config{Loops: 1})
	ln := listen(t, g, echo)
	f := testkit.Must(ln.File())(t)
	defer f.Close()
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_NONBLOCK == 0 {
		t.Fatalf("the shared socket's flags are %#x, %v; want it to be non-blocking", flags, err)
	}
	flags, err = unix.FcntlInt(f.Fd(), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Fatalf("the duplicate's flags are %#x, %v; want it closed on exec", flags, err)
	}
}

func TestFileOfAClosedListener(t *testing.T) {
	g := start(t, Config{Loops: 1})
	ln := listen(t, g, echo)
	ln.Close()
	if f, err := ln.File(); err == nil {
		f.Close()
		t.Fatal("a closed listener has a socket")
	}
}
