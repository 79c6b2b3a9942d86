package handover

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/test/testkit"
)

const waiting = 100

// queue connects clients that are not accepted.
func queue(t *testing.T, addr string) []net.Conn {
	t.Helper()
	var clients []net.Conn
	for range waiting {
		c := testkit.Must(net.Dial("tcp", addr))(t)
		t.Cleanup(func() { c.Close() })
		clients = append(clients, c)
	}
	return clients
}

// resets counts the clients that have been reset.
func resets(clients []net.Conn) (n int) {
	for _, c := range clients {
		_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
		if _, err := c.Read(make([]byte, 1)); errors.Is(err, syscall.ECONNRESET) {
			n++
		}
	}
	return n
}

// Why this package does not use SO_REUSEPORT.
func TestReusePortResetsTheQueueOfTheClosed(t *testing.T) {
	if b, _ := os.ReadFile("/proc/sys/net/ipv4/tcp_migrate_req"); strings.TrimSpace(string(b)) == "1" {
		t.Skip("this machine moves the queue (tcp_migrate_req), few others do")
	}
	reuse := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
	}}
	old := testkit.Must(reuse.Listen(context.Background(), "tcp", "127.0.0.1:0"))(t)
	next := testkit.Must(reuse.Listen(context.Background(), "tcp", old.Addr().String()))(t)
	defer next.Close()
	clients := queue(t, old.Addr().String())
	_ = old.Close()
	if n := resets(clients); n == 0 {
		t.Errorf("none of %d waiting clients was reset: is SO_REUSEPORT better than doc.go says?", waiting)
	}
}

func TestPassedSocketKeepsItsQueue(t *testing.T) {
	name := anyName()
	ln := socket(t)
	mustOffer(t, name, usual(), func() {}, ln)
	clients := queue(t, ln.Addr().String())
	taken := mustTake(t, name)
	if err := taken.Ready(); err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
	if n := resets(clients); n > 0 {
		t.Errorf("%d of %d waiting clients were reset", n, waiting)
	}
	for range waiting {
		c := testkit.Must(taken.Sockets[0].Accept())(t)
		_ = c.Close()
	}
}
