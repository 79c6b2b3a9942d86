package loop

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/test/testkit"
)

// Dials start from the sources in turn.
func TestSources(t *testing.T) {
	ln := testkit.Listen(t)
	sources := []netip.Addr{netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.3"),
		netip.MustParseAddr("127.0.1.1")}
	g := start(t, Config{Loops: 2, Sources: sources})
	const dials = 9
	told := make(chan error, dials)
	for i := range dials {
		l := g.Loops()[i%2]
		l.Post(func(time.Time) {
			l.Dial(ln.Addr().String(), testkit.Timeout, nil, func(_ time.Time, _ *Conn, err error) Handler {
				told <- err
				return &script{}
			})
		})
	}
	seen := map[netip.Addr]int{}
	for range dials {
		c := testkit.Must(ln.Accept())(t)
		t.Cleanup(func() { c.Close() })
		if err := testkit.Receive(t, told, "the end of a dial"); err != nil {
			t.Fatal(err)
		}
		seen[c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()]++
	}
	for _, s := range sources {
		if seen[s] != dials/len(sources) {
			t.Errorf("%d connections come from %s, want %d: %v", seen[s], s, dials/len(sources), seen)
		}
	}
}

// The port is left to the connect, so that it may serve connections to several
// listeners, and is one of those that the kernel hands out.
func TestSourcePortIsChosenLate(t *testing.T) {
	for listen, from := range map[string]string{"127.0.0.1:0": "127.0.0.9", "[::1]:0": "::1"} {
		t.Run(from, func(t *testing.T) { latePortFrom(t, listen, netip.MustParseAddr(from)) })
	}
}

func latePortFrom(t *testing.T, listen string, from netip.Addr) {
	g := start(t, Config{Loops: 1, Sources: []netip.Addr{from}})
	ln := testkit.Must(net.Listen("tcp", listen))(t)
	t.Cleanup(func() { ln.Close() })
	nc := testkit.Must(g.dialer.reach(net.Dialer{}, ln.Addr().String()))(t)
	t.Cleanup(func() { nc.Close() })
	raw := testkit.Must(nc.(*net.TCPConn).SyscallConn())(t)
	var late int
	var err error
	if e := raw.Control(func(fd uintptr) {
		late, err = unix.GetsockoptInt(int(fd), unix.SOL_IP,
			unix.IP_BIND_ADDRESS_NO_PORT)
	}); e != nil || err != nil {
		t.Fatal(e, err)
	}
	local := nc.LocalAddr().(*net.TCPAddr)
	if late != 1 || local.IP.String() != from.String() || !ephemeral(t, local.Port) {
		t.Errorf("late port %d, from %s", late, local)
	}
}

// ephemeral reports whether the kernel chooses such ports.
func ephemeral(t *testing.T, port int) bool {
	t.Helper()
	text := testkit.Must(os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"))(t)
	ends := strings.Fields(string(text))
	low, err1 := strconv.Atoi(ends[0])
	high, err2 := strconv.Atoi(ends[1])
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	return port >= low && port <= high
}

// A source that cannot be used is passed over; when none can, that is the error.
func TestSourcesPassedOver(t *testing.T) {
	ln := testkit.Listen(t)
	foreign, ours := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("127.0.0.4") // RFC 5737: nobody has it
	for _, c := range []struct {
		sources []netip.Addr
		want    error
	}{{[]netip.Addr{foreign, ours}, nil}, {[]netip.Addr{ours, foreign}, nil},
		{[]netip.Addr{foreign}, syscall.EADDRNOTAVAIL}} {
		g := start(t, Config{Loops: 1, Sources: c.sources})
		told := make(chan error, 1)
		l := g.Loops()[0]
		l.Post(func(time.Time) {
			l.Dial(ln.Addr().String(), testkit.Timeout, nil, func(_ time.Time, _ *Conn, err error) Handler {
				told <- err
				return &script{}
			})
		})
		if err := testkit.Receive(t, told, "the end of the dial"); !errors.Is(err, c.want) {
			t.Errorf("from %v: %v, want %v", c.sources, err, c.want)
		}
	}
}
