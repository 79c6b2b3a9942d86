package handover

import (
	"bytes"
	"net"
	"syscall"
	"testing"

	"weir/internal/test/testkit"
)

// The state arrives whole, up to its bound; beyond there is none, and the sockets
// come all the same. It is what the old process says when it is asked.
func TestState(t *testing.T) {
	for _, size := range []int{0, 1, 5 << 20, stateMax, stateMax + 1} {
		name := anyName()
		f := socket(t)
		want := bytes.Repeat([]byte("state"), size/5+1)[:size]
		said := []byte("before")
		o := testkit.Must(Offer(name, []syscall.Conn{f}, func() []byte { return said }, func() {}))(t)
		said = want
		taken := mustTake(t, name)
		if size > stateMax {
			want = nil
		}
		if !bytes.Equal(taken.State, want) || len(taken.Sockets) != 1 {
			t.Errorf("%d bytes of %d arrived, with %d sockets", len(taken.State), size, len(taken.Sockets))
		}
		if err := taken.Ready(); err != nil {
			t.Error(err)
		}
		o.Close()
	}
}

// Processes of before there was a state to be told are taken over from, too.
func TestOlderProcessTellsNoState(t *testing.T) {
	f := socket(t)
	told := make(chan bool, 1)
	name := impostor(t, func(c *net.UnixConn) {
		fds, _ := duplicates([]syscall.Conn{f})
		_, _, _ = c.WriteMsgUnix([]byte(saidSockets), rightsOf(fds...), nil)
		closeAll(fds)
		if said, err := receive(c); err == nil && said == saidReady {
			_, _ = c.Write([]byte(saidYours))
			told <- true
		}
		_ = c.Close()
	})
	before := openDescriptors(t)
	taken := mustTake(t, name)
	if len(taken.State) > 0 || len(taken.Sockets) != 1 {
		t.Errorf("took %d sockets and the state %q", len(taken.Sockets), taken.State)
	}
	if err := taken.Ready(); err != nil {
		t.Error(err)
	}
	testkit.Receive(t, told, "the old process to be told")
	_ = taken.Sockets[0].Close()
	testkit.Eventually(t, "no descriptor is left", func() bool { return openDescriptors(t) <= before })
}
