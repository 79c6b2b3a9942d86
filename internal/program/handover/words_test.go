package handover

import (
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"weir/internal/test/testkit"
)

func rightsOf(fds ...int) []byte { return unix.UnixRights(fds...) }

func TestNameFollowsThePort(t *testing.T) {
	if Name(8082) == Name(8083) {
		t.Error("two ports have one name")
	}
}

// What a successor is sent is checked, and what it does not keep is closed.
func TestGarbledOffersAreRefused(t *testing.T) {
	ln := socket(t)
	null := testkit.Must(os.Open(os.DevNull))(t)
	defer null.Close()
	fds := testkit.Must(duplicates([]syscall.Conn{ln}))(t)
	defer closeAll(fds)
	listening := fds[0]
	c := testkit.Must(net.Dial("tcp", ln.Addr().String()))(t)
	defer c.Close()
	cf := testkit.Must(c.(*net.TCPConn).File())(t)
	defer cf.Close()
	many := make([]int, socketsMax+1)
	for i := range many {
		many[i] = listening
	}
	for _, g := range []struct {
		name, said string
		fds        []int
		want       string // of the error
	}{
		{"another version", "weir handover 2: sockets", []int{listening}, "it said"},
		{"no sockets", saidSockets, nil, "0 sockets"},
		{"too many sockets", saidSockets, many, "sockets"},
		{"no socket but a file", saidSockets, []int{listening, int(null.Fd())}, "socket 2"},
		{"a connection", saidSockets, []int{int(cf.Fd())}, "socket 1"},
		{"a long word", saidSockets + strings.Repeat("!", 100), []int{listening}, "it said"},
	} {
		name := impostor(t, func(c *net.UnixConn) {
			var rights []byte
			if g.fds != nil {
				rights = rightsOf(g.fds...)
			}
			_, _, _ = c.WriteMsgUnix([]byte(g.said), rights, nil)
		})
		before := openDescriptors(t)
		taken, err := Receive(t.Context(), name)
		if err == nil {
			taken.Close()
			t.Errorf("%s: taken", g.name)
		} else if !strings.Contains(err.Error(), g.want) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: told %q, want it to name %q and say %q", g.name, err, name, g.want)
		}
		testkit.Eventually(t, "what came is closed", func() bool { return openDescriptors(t) <= before })
	}
}
