package handover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/test/testkit"
)

var unique atomic.Int64

// anyName is a unique name.
func anyName() string {
	return fmt.Sprintf("weir/test/%d/%d", os.Getpid(), unique.Add(1))
}

// brief are terms whose waits for a stuck peer are short.
func brief() terms {
	return terms{uid: uint32(os.Geteuid()), step: 2 * time.Second, ready: 300 * time.Millisecond}
}

// socket listens on a free port.
func socket(t *testing.T) *net.TCPListener { return testkit.Listen(t).(*net.TCPListener) }

func mustOffer(t *testing.T, name string, tm terms, taken func(), sockets ...syscall.Conn) *Offered {
	t.Helper()
	o := &Offered{name: name, taken: taken, terms: tm}
	if err := o.begin(sockets); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Close)
	return o
}

func mustTake(t *testing.T, name string) *Received {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Timeout)
	defer cancel()
	taken := testkit.Must(Receive(ctx, name))(t)
	t.Cleanup(func() {
		taken.Close()
		for _, ln := range taken.Sockets {
			ln.Close()
		}
	})
	return taken
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	entries := testkit.Must(os.ReadDir("/proc/self/fd"))(t)
	return len(entries)
}

// forgotten waits until there is no successor of an offer.
func forgotten(t *testing.T, o *Offered) {
	t.Helper()
	testkit.Eventually(t, "all successors are forgotten", func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return len(o.successors) == 0
	})
}

func TestTakeMovesTheSockets(t *testing.T) {
	name := anyName()
	first, second := socket(t), socket(t)
	notified := make(chan bool, 2)
	mustOffer(t, name, usual(), func() { notified <- true }, first, second)
	taken := mustTake(t, name)
	if len(taken.Sockets) != 2 || taken.Sockets[0].Addr().String() != first.Addr().String() ||
		taken.Sockets[1].Addr().String() != second.Addr().String() {
		t.Fatalf("took %v, want the sockets of %s and %s", taken.Sockets, first.Addr(), second.Addr())
	}
	if len(notified) > 0 {
		t.Fatal("the old process was notified before the new one was ready")
	}
	if err := taken.Ready(); err != nil {
		t.Fatal(err)
	}
	testkit.Receive(t, notified, "the notification of the old process")
	// The old one closes, the new one goes on with the same queue.
	c := testkit.Must(net.Dial("tcp", first.Addr().String()))(t)
	defer c.Close()
	_ = first.Close()
	got := testkit.Must(taken.Sockets[0].Accept())(t)
	defer got.Close()
	_, _ = io.WriteString(got, "hello")
	b := make([]byte, 5)
	if _, err := io.ReadFull(c, b); err != nil {
		t.Fatalf("who waited in the queue met %v", err)
	}
	if len(notified) > 0 {
		t.Fatal("the old process was notified twice")
	}
}

func TestNameIsFreeAfterReady(t *testing.T) {
	name := anyName()
	f := socket(t)
	for range 50 {
		mustOffer(t, name, usual(), func() {}, f)
		taken := mustTake(t, name)
		if err := taken.Ready(); err != nil {
			t.Fatal(err)
		}
	}
}

// The notified process may clean up.
func TestTakenMayCloseTheOffer(t *testing.T) {
	name := anyName()
	f := socket(t)
	offered, closed := make(chan *Offered, 1), make(chan bool, 1)
	offered <- mustOffer(t, name, usual(), func() { (<-offered).Close(); closed <- true }, f)
	if err := mustTake(t, name).Ready(); err != nil {
		t.Fatal(err)
	}
	testkit.Receive(t, closed, "Close to return")
}

func TestNobodyOffers(t *testing.T) {
	if _, err := Receive(t.Context(), anyName()); !errors.Is(err, ErrNoOffer) {
		t.Fatalf("error %v, want that there is no offer", err)
	}
}

func TestWithdrawnOfferIsNone(t *testing.T) {
	name := anyName()
	f := socket(t)
	before := openDescriptors(t)
	o := mustOffer(t, name, usual(), func() { t.Error("taken was called") }, f)
	o.Close()
	o.Close()
	if _, err := Receive(t.Context(), name); !errors.Is(err, ErrNoOffer) {
		t.Fatalf("error %v, want that there is no offer", err)
	}
	if after := openDescriptors(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func TestOfferUnderATakenName(t *testing.T) {
	name := anyName()
	f := socket(t)
	mustOffer(t, name, usual(), func() {}, f)
	if _, err := Offer(name, []syscall.Conn{f}, nil, func() {}); err == nil || !strings.Contains(err.Error(), name) {
		t.Fatalf("error %v, want one with %s", err, name)
	}
}

// A blocking socket would block the accepts of all processes that have it.
func TestDuplicatesDoNotBlock(t *testing.T) {
	ln := socket(t)
	fds := testkit.Must(duplicates([]syscall.Conn{ln}))(t)
	defer closeAll(fds)
	flags, err := unix.FcntlInt(uintptr(fds[0]), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_NONBLOCK == 0 {
		t.Errorf("the shared socket's flags are %#x, %v; want it to be non-blocking", flags, err)
	}
	flags, err = unix.FcntlInt(uintptr(fds[0]), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("the duplicate's flags are %#x, %v; want it closed on exec", flags, err)
	}
	_ = ln.Close()
	if fds, err := duplicates([]syscall.Conn{ln}); err == nil {
		closeAll(fds)
		t.Error("a closed listener has a socket")
	}
}

func TestOfferBoundsTheSockets(t *testing.T) {
	f := socket(t)
	for _, n := range []int{0, socketsMax, socketsMax + 1} {
		sockets := make([]syscall.Conn, n)
		for i := range sockets {
			sockets[i] = f
		}
		name := anyName()
		o, err := Offer(name, sockets, nil, func() {})
		if allowed := n == socketsMax; (err == nil) != allowed {
			t.Errorf("an offer of %d sockets: %v", n, err)
		}
		if err == nil {
			if taken := mustTake(t, name); len(taken.Sockets) != n {
				t.Errorf("%d of %d sockets arrived", len(taken.Sockets), n)
			}
			o.Close()
		}
	}
}

func TestSuccessorThatDiesChangesNothing(t *testing.T) {
	name := anyName()
	f := socket(t)
	notified := make(chan bool, 1)
	o := mustOffer(t, name, usual(), func() { notified <- true }, f)
	before := openDescriptors(t)
	for range 30 {
		forgotten(t, o)                                                 // or there are too many at a time
		c := testkit.Must(net.DialUnix(network, nil, address(name)))(t) // dies at once
		_ = c.Close()
		taken := mustTake(t, name) // dies before it is ready
		taken.Close()
	}
	testkit.Eventually(t, "the descriptors are back", func() bool { return openDescriptors(t) <= before })
	if len(notified) > 0 {
		t.Fatal("the old process was notified")
	}
	taken := mustTake(t, name)
	if err := taken.Ready(); err != nil {
		t.Fatal(err)
	}
	testkit.Receive(t, notified, "the notification of the old process")
}

// It has said that it is ready, but does not hear the answer any more.
func TestSuccessorThatDiesAtTheLastMomentChangesNothing(t *testing.T) {
	name := anyName()
	f := socket(t)
	notified := make(chan bool, 1)
	mustOffer(t, name, usual(), func() { notified <- true }, f)
	before := openDescriptors(t)
	for range 10 {
		var c *net.UnixConn
		testkit.Eventually(t, "the sockets are offered", func() bool {
			var err error
			c, err = net.DialUnix(network, nil, address(name))
			return err == nil
		})
		fds := testkit.Must(receiveFiles(c, saidSockets))(t)
		closeAll(fds)
		_ = c.CloseRead()
		_, _ = io.WriteString(c, saidReady)
		testkit.Eventually(t, "it is forgotten", func() bool {
			_, err := c.Write([]byte("?")) // fails when the other side is closed
			return err != nil
		})
		_ = c.Close()
	}
	testkit.Eventually(t, "the descriptors are back", func() bool { return openDescriptors(t) <= before })
	if len(notified) > 0 {
		t.Fatal("the old process was notified")
	}
	testkit.Eventually(t, "the sockets are offered", func() bool {
		taken, err := Receive(t.Context(), name)
		if err != nil {
			return false
		}
		taken.Close()
		return true
	})
	if err := mustTake(t, name).Ready(); err != nil {
		t.Fatal(err)
	}
	testkit.Receive(t, notified, "the notification of the old process")
}

func TestStuckSuccessorKeepsNobodyOut(t *testing.T) {
	name := anyName()
	f := socket(t)
	notified := make(chan bool, 1)
	mustOffer(t, name, usual(), func() { notified <- true }, f)
	stuck := mustTake(t, name)
	other := mustTake(t, name)
	if err := other.Ready(); err != nil {
		t.Fatal(err)
	}
	testkit.Receive(t, notified, "the notification of the old process")
	if err := stuck.Ready(); err == nil {
		t.Error("a second successor got a confirmation")
	}
	if len(notified) > 0 {
		t.Error("the old process was notified twice")
	}
}

func TestSuccessorsAreBounded(t *testing.T) {
	name := anyName()
	f := socket(t)
	mustOffer(t, name, usual(), func() {}, f)
	var all []*Received
	for range successorsMax {
		all = append(all, mustTake(t, name))
	}
	if _, err := Receive(t.Context(), name); err == nil || errors.Is(err, ErrNoOffer) {
		t.Fatalf("one more than %d successors was told %v", successorsMax, err)
	}
	if err := all[successorsMax-1].Ready(); err != nil {
		t.Fatal(err)
	}
}

func TestSuccessorThatTakesTooLongIsForgotten(t *testing.T) {
	name := anyName()
	f := socket(t)
	o := mustOffer(t, name, brief(), func() { t.Error("taken was called") }, f)
	taken := mustTake(t, name)
	forgotten(t, o)
	if err := taken.Ready(); err == nil {
		t.Error("a successor that took too long got a confirmation")
	}
	mustTake(t, name)
}

func TestOtherUsersGetNothing(t *testing.T) {
	name := anyName()
	f := socket(t)
	foreign := usual()
	foreign.uid++
	mustOffer(t, name, foreign, func() { t.Error("taken was called") }, f)
	if taken, err := Receive(t.Context(), name); err == nil {
		t.Errorf("another user's process was given %v", taken.Sockets)
	}
	name = anyName()
	mustOffer(t, name, usual(), func() { t.Error("taken was called") }, f)
	if _, err := take(t.Context(), name, foreign); err == nil || !strings.Contains(err.Error(), "user") {
		t.Errorf("sockets of another user's process were taken: %v", err)
	}
}

// impostor listens under a name and does with a successor what do says.
func impostor(t *testing.T, does func(c *net.UnixConn)) (name string) {
	t.Helper()
	name = anyName()
	ln := testkit.Must(net.ListenUnix(network, address(name)))(t)
	var ended sync.WaitGroup
	ended.Go(func() {
		for {
			c, err := ln.AcceptUnix()
			if err != nil {
				return
			}
			does(c)
			_, _ = c.Read(make([]byte, 1)) // until the successor has gone
			_, _ = c.Read(make([]byte, 1))
			_ = c.Close()
		}
	})
	t.Cleanup(func() { ln.Close(); ended.Wait() })
	return name
}

func TestStuckOldProcessBlocksNobody(t *testing.T) {
	f := socket(t)
	raw, _ := f.SyscallConn()
	name := impostor(t, func(*net.UnixConn) {})
	if _, err := take(t.Context(), name, brief()); err == nil || errors.Is(err, ErrNoOffer) {
		t.Errorf("of a process that says nothing: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Receive(ctx, name); !errors.Is(err, context.Canceled) {
		t.Errorf("after the caller has lost testkit.Patience: %v", err)
	}
	name = impostor(t, func(c *net.UnixConn) { // gives, but does not let go
		_ = raw.Control(func(fd uintptr) { _, _, _ = c.WriteMsgUnix([]byte(saidSockets), rightsOf(int(fd)), nil) })
	})
	taken := testkit.Must(take(t.Context(), name, brief()))(t)
	if err := taken.Ready(); err == nil {
		t.Error("a process that says nothing has let go")
	}
	taken.Close()
}
