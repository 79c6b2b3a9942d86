package pump

import (
	"net"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// Progress is what the peer's kernel acknowledges.
func TestMovedIsWhatThePeerTakes(t *testing.T) {
	ln := testkit.Listen(t)
	ours := testkit.Must(net.Dial("tcp", ln.Addr().String()))(t)
	defer ours.Close()
	theirs := testkit.Must(ln.Accept())(t)
	defer theirs.Close()
	p := &Pump{wire: ours}
	if !p.Progressed() {
		t.Error("a peer that owes nothing is said to hold us up")
	}
	// The deadline may have passed before anything is written, and the kernel may send
	// a little more into a buffer that is nearly full, now and then.
	testkit.Eventually(t, "nothing moves", func() bool {
		_ = ours.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		_, _ = ours.Write(make([]byte, 64<<20)) // until nothing goes any more
		moved, again := p.Progressed(), p.Progressed()
		return !moved && !again
	})
	_ = theirs.SetDeadline(time.Now().Add(testkit.Timeout))
	testkit.Eventually(t, "something has moved", func() bool {
		_, _ = theirs.Read(make([]byte, 64<<10))
		return p.Progressed()
	})
}
