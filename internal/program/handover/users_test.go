package handover

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"weir/internal/test/testkit"
)

// inUserNamespace runs the child of TestMain in a user namespace that maps no user, where every
// user has the same id. It returns the first line that the child writes.
func inUserNamespace(t *testing.T, name string) (said string) {
	t.Helper()
	cmd := testkit.Command(t, nil, name)
	testkit.InUserNamespace(t, cmd)
	in := testkit.Must(cmd.StdinPipe())(t)
	p := testkit.Start(t, cmd)
	said = p.Logged("")
	in.Close() // ends the child
	p.Status()
	return said
}

func TestUnknownUserOffersNothing(t *testing.T) {
	if said := inUserNamespace(t, anyName()); !strings.Contains(said, "65534's, an id that may be any user's") {
		t.Errorf("a process that cannot tell users apart said %q, want why it offers nothing", said)
	}
}

func TestUnknownUserTakesNothing(t *testing.T) {
	name := anyName()
	o := mustOffer(t, name, usual(), func() { t.Error("the sockets were taken") }, socket(t))
	if said := inUserNamespace(t, name); !strings.Contains(said, "65534's") {
		t.Errorf("a process that cannot tell users apart said %q, want why it took nothing", said)
	}
	forgotten(t, o)
}

// Terms with the id of all unknown users are nobody's.
func TestOverflowUser(t *testing.T) {
	tm := usual()
	tm.uid = 65534
	o := &Offered{name: anyName(), taken: func() {}, terms: tm}
	if err := o.begin([]syscall.Conn{socket(t)}); err == nil {
		o.Close()
		t.Error("a process of user 65534 offers its sockets")
	}
}

// Whoever holds a name that is not a proxy of this user is told apart from a proxy that fails.
func TestForeignHoldersOfTheName(t *testing.T) {
	name := anyName()
	full(t, name)
	if _, err := Receive(t.Context(), name); !errors.Is(err, ErrHeldByOther) {
		t.Errorf("held by a socket that accepts nothing: %v, want ErrHeldByOther", err)
	}

	name = anyName()
	mustOffer(t, name, usual(), func() {}, socket(t))
	other := usual()
	other.uid++
	if _, err := take(t.Context(), name, other); !errors.Is(err, ErrHeldByOther) {
		t.Errorf("held by another user: %v, want ErrHeldByOther", err)
	}
}

// full listens under a name with a full queue.
func full(t *testing.T, name string) {
	t.Helper()
	fd := testkit.Must(unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0))(t)
	t.Cleanup(func() { unix.Close(fd) })
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrUnix{Name: "@" + name}), unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		c, err := net.DialUnix(network, nil, address(name))
		if errors.Is(err, unix.EAGAIN) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
	}
	t.Fatal("the queue does not fill")
}
