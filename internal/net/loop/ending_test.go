package loop

import (
	"errors"
	"io"
	"syscall"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// paused is a connection whose reading is paused: its Handler, a HalfCloser, takes
// nothing. Its end is told to closed.
func paused(t *testing.T, g *Group) (conn *Conn, closed chan error, peer interface {
	io.Closer
	SetLinger(int) error
	CloseWrite() error
}) {
	t.Helper()
	conns := make(chan *Conn, 1)
	closed = make(chan error, 2)
	ln := listen(t, g, func(_ time.Time, c *Conn) Handler {
		conns <- c
		s := &streamer{end: func(time.Time) {}}
		s.data = func(time.Time, []byte) int { return 0 }
		s.closed = func(_ time.Time, err error) { closed <- err }
		return s
	})
	c := connect(t, ln)
	_, _ = c.Write(make([]byte, 64<<10))
	conn = testkit.Receive(t, conns, "the connection")
	testkit.Eventually(t, "reading is paused", func() bool { return g.Stats().Paused.Load() > 0 })
	return conn, closed, c
}

// A wish to end a connection is not lost with the peer: what is paused has
// nobody to notice a reset.
func TestCloseOfPausedConnectionWhosePeerIsGone(t *testing.T) {
	for _, test := range []struct {
		name string
		end  func(*Conn)
	}{
		{"drained", (*Conn).CloseDrained},
		{"lingering", (*Conn).CloseLinger},
		{"drained with bytes unsent", func(c *Conn) { c.Write(make([]byte, 16<<20)); c.CloseDrained() }},
		{"at once", (*Conn).Close},
		{"aborted", (*Conn).Abort},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := start(t, Config{Loops: 1, InboundMax: 1 << 10})
			conn, closed, peer := paused(t, g)
			_ = peer.CloseWrite()
			_ = peer.SetLinger(0)
			_ = peer.Close()
			g.Loops()[0].Post(func(time.Time) { test.end(conn) })
			if err := testkit.Receive(t, closed, "Closed"); err != nil {
				t.Errorf("closed with %v, want nil: it was our wish", err)
			}
			testkit.Eventually(t, "the count is back at zero", func() bool { return g.Stats().Open.Load() == 0 })
		})
	}
}

// An abort is a reset wherever the socket is when it is wished for.
func TestAbortOnTheWayIntoTheLoop(t *testing.T) {
	g := start(t, Config{Loops: 1, InboundMax: 1 << 10})
	conns := make(chan *Conn, 1)
	taken := 0
	ln := listen(t, g, func(_ time.Time, c *Conn) Handler {
		conns <- c
		return &script{data: func(time.Time, []byte) int { return taken }}
	})
	c := connect(t, ln)
	_, _ = c.Write(make([]byte, 2<<10))
	conn := testkit.Receive(t, conns, "the connection")
	testkit.Eventually(t, "reading is paused", func() bool { return g.Stats().Paused.Load() > 0 })
	g.Loops()[0].Post(func(time.Time) {
		taken = len(conn.saved)
		conn.feed(conn.loop.now) // resumes
		conn.Abort()
	})
	if _, err := io.ReadAll(c); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the connection ended with %v, want a reset", err)
	}
}

// A client that has sent its last byte still gets what it has not taken yet.
func TestEndOfThePeerLosesNothingUnsent(t *testing.T) {
	body := pattern(16 << 20)
	g := start(t, Config{Loops: 1})
	closed := make(chan error, 1)
	ln := listen(t, g, func(_ time.Time, c *Conn) Handler {
		return &script{
			data:   func(_ time.Time, b []byte) int { c.Write(body); c.CloseLinger(); return len(b) },
			closed: func(_ time.Time, err error) { closed <- err },
		}
	})
	c := connect(t, ln)
	_, _ = io.WriteString(c, "go")
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil { // the answer is under way
		t.Fatal(err)
	}
	_ = c.CloseWrite()
	got, err := io.ReadAll(c)
	if err != nil || len(got) != len(body)-1 {
		t.Errorf("read %d of %d bytes, %v", len(got), len(body)-1, err)
	}
	if err := testkit.Receive(t, closed, "Closed"); err != nil {
		t.Errorf("closed with %v", err)
	}
}
