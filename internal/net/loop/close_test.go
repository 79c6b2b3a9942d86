package loop

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// pattern is n bytes that differ from place to place.
func pattern(n int) []byte {
	b := make([]byte, n)
	x := uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

// gnet: Close drops what has not been sent.
func TestCloseDrainedSendsEverything(t *testing.T) {
	overBoth(t, func(t *testing.T, x transport) {
		body := pattern(32 << 20)
		g := start(t, Config{Loops: 1})
		closed := make(chan error, 1)
		ln := x.listen(t, g, func(_ time.Time, c *Conn) Handler {
			return &script{
				data: func(_ time.Time, b []byte) int {
					c.Write(body)
					c.CloseDrained()
					return len(b)
				},
				closed: func(_ time.Time, err error) { closed <- err },
			}
		})
		c, _ := x.connect(t, ln)
		_, _ = io.WriteString(c, "go")
		testkit.Eventually(t, "bytes wait unsent", func() bool {
			unsent := make(chan bool, 1)
			g.Loops()[0].Post(func(time.Time) {
				some := false
				g.Loops()[0].Each(func(c *Conn, _ Handler) { some = some || c.Unsent() > 1<<20 })
				unsent <- some
			})
			return <-unsent
		})
		got, err := io.ReadAll(c)
		if err != nil || sha256.Sum256(got) != sha256.Sum256(body) {
			t.Fatalf("read %d of %d bytes, %v", len(got), len(body), err)
		}
		if err := testkit.Receive(t, closed, "Closed"); err != nil {
			t.Fatalf("closed with %v", err)
		}
	})
}

// gnet: no lingering close: unread bytes make the kernel send a reset that
// overtakes the answer.
func TestCloseLingerKeepsTheEarlyAnswer(t *testing.T) {
	overBoth(t, func(t *testing.T, x transport) {
		g := start(t, Config{Loops: 1})
		ln := x.listen(t, g, func(_ time.Time, c *Conn) Handler {
			return &script{data: func(_ time.Time, b []byte) int {
				c.Write([]byte("refused"))
				c.CloseLinger()
				return 0 // never reads the upload
			}}
		})
		for range 20 {
			c, _ := x.connect(t, ln)
			upload := bytes.Repeat([]byte("u"), 256<<10)
			for range 8 {
				if _, err := c.Write(upload); err != nil {
					t.Fatalf("upload broken off: %v", err)
				}
			}
			_ = c.CloseWrite()
			got, err := io.ReadAll(c)
			if err != nil || string(got) != "refused" {
				t.Fatalf("got %q, %v; want the answer without a reset", got, err)
			}
		}
	})
}

func TestLingerEnds(t *testing.T) {
	g := start(t, Config{Loops: 1})
	closed := make(chan error, 1)
	ln := listen(t, g, func(_ time.Time, c *Conn) Handler {
		return &script{
			data:   func(_ time.Time, b []byte) int { c.CloseLinger(); return 0 },
			closed: func(_ time.Time, err error) { closed <- err },
		}
	})
	c := connect(t, ln)
	_, _ = io.WriteString(c, "x")
	// The client stays silent and never closes.
	if err := testkit.Receive(t, closed, "the end of lingering"); err != nil {
		t.Fatalf("closed with %v", err)
	}
}

func TestWriteStallCloses(t *testing.T) {
	overBoth(t, func(t *testing.T, x transport) {
		g := start(t, Config{Loops: 1, WriteStall: 200 * time.Millisecond})
		closed := make(chan error, 1)
		ln := x.listen(t, g, func(_ time.Time, c *Conn) Handler {
			return &script{
				data:   func(_ time.Time, b []byte) int { c.Write(make([]byte, 32<<20)); return len(b) },
				closed: func(_ time.Time, err error) { closed <- err },
			}
		})
		before := descriptors(t) // not before listen: a free address may open one that stays open
		c, tcp := x.connect(t, ln)
		_, _ = io.WriteString(c, "x") // and reads nothing
		testkit.Receive(t, closed, "the stalled connection's end")
		if n := g.Stats().Stalled.Load(); n != 1 {
			t.Fatalf("%d stalled, want 1", n)
		}
		testkit.Eventually(t, "its pump is gone", func() bool { return pumping() == 0 && g.Stats().Open.Load() == 0 })
		_ = tcp.Close()
		testkit.Eventually(t, "the descriptors are back", func() bool { return descriptors(t) <= before })
	})
}

// gnet: reading cannot be paused, what is not consumed is buffered for ever.
func TestBusyHandlerHoldsTheSenderBack(t *testing.T) {
	overBoth(t, func(t *testing.T, x transport) {
		body := pattern(16 << 20)
		g := start(t, Config{Loops: 1, InboundMax: 32 << 10})
		conns, done := make(chan *Conn, 1), make(chan [32]byte, 1)
		busy, most := true, 0 // the loop's own
		ln := x.listen(t, g, func(_ time.Time, c *Conn) Handler {
			conns <- c
			sum := sha256.New()
			s := &streamer{}
			s.data = func(_ time.Time, b []byte) int {
				most = max(most, len(b))
				if busy {
					return 0
				}
				sum.Write(b)
				return len(b)
			}
			s.end = func(time.Time) { done <- [32]byte(sum.Sum(nil)); c.Close() }
			return s
		})
		c, tcp := x.connect(t, ln)
		_ = tcp.SetWriteBuffer(64 << 10)
		sent := make(chan error, 1)
		go func() {
			_, err := c.Write(body)
			_ = c.CloseWrite()
			sent <- err
		}()
		conn := testkit.Receive(t, conns, "the connection")
		testkit.Eventually(t, "reading is paused", func() bool { return g.Stats().Paused.Load() > 0 })
		if len(sent) > 0 {
			t.Fatal("the sender got rid of everything while nobody read it")
		}
		g.Loops()[0].Post(func(time.Time) { busy = false; conn.Pump() })
		if testkit.Receive(t, done, "the end") != sha256.Sum256(body) {
			t.Fatal("what came is not what was sent")
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		if most > 128<<10 {
			t.Errorf("%d bytes waited unread", most)
		}
	})
}

func TestUnreadAnswersStopFeeding(t *testing.T) {
	g := start(t, Config{Loops: 1, OutboundMax: 64 << 10})
	answer := bytes.Repeat([]byte("a"), 32<<10)
	fed := make(chan int, 1<<16)
	ln := listen(t, g, func(_ time.Time, c *Conn) Handler {
		return &script{data: func(_ time.Time, b []byte) int {
			c.Write(answer) // one answer per byte of request
			fed <- c.Unsent()
			if len(b) > 1 {
				c.Pump()
			}
			return 1
		}}
	})
	c := connect(t, ln)
	const requests = 1000
	_, _ = io.WriteString(c, strings.Repeat("r", requests))
	n, err := io.CopyN(io.Discard, c, requests*int64(len(answer)))
	if err != nil {
		t.Fatalf("%d bytes, then %v", n, err)
	}
	for range requests {
		if unsent := testkit.Receive(t, fed, "a request"); unsent > 64<<10+len(answer) {
			t.Fatalf("fed with %d bytes unsent", unsent)
		}
	}
}

// A connection that goes away while it is paused or closing is told once.
func TestPeerResetWhilePaused(t *testing.T) {
	g := start(t, Config{Loops: 1, InboundMax: 1 << 10})
	closed, conns := make(chan error, 2), make(chan *Conn, 1)
	ln := listen(t, g, func(_ time.Time, c *Conn) Handler {
		conns <- c
		return &script{
			data:   func(_ time.Time, b []byte) int { return 0 },
			closed: func(_ time.Time, err error) { closed <- err },
		}
	})
	c := connect(t, ln)
	_, _ = c.Write(make([]byte, 64<<10))
	conn := testkit.Receive(t, conns, "the connection")
	testkit.Eventually(t, "reading is paused", func() bool { return g.Stats().Paused.Load() > 0 })
	_ = c.SetLinger(0)
	_ = c.Close()
	testkit.Eventually(t, "the write finds the reset", func() bool {
		g.Loops()[0].Post(func(time.Time) { conn.Write([]byte("x")) })
		return len(closed) > 0
	})
	if err := <-closed; !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		t.Fatalf("closed with %v", err)
	}
	testkit.Eventually(t, "the count is back at zero", func() bool { return g.Stats().Open.Load() == 0 })
}

// descriptors is how many this process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	entries := testkit.Must(os.ReadDir("/proc/self/fd"))(t)
	return len(entries)
}

// gnet: a socket that was reset on its way into a loop has no address left,
// over which its worker panics, unheard, and leaks the descriptor.
func TestResetWhilePausedLeaksNothing(t *testing.T) {
	g := start(t, Config{Loops: 1, InboundMax: 1 << 10})
	conns, closed := make(chan *Conn, 1), make(chan error, 1)
	busy := true // the loop's own
	ln := listen(t, g, func(_ time.Time, c *Conn) Handler {
		conns <- c
		return &script{
			data: func(_ time.Time, b []byte) int {
				if busy {
					return 0
				}
				return len(b)
			},
			closed: func(_ time.Time, err error) { closed <- err },
		}
	})
	before := descriptors(t)
	for i := range 5 {
		c := connect(t, ln)
		_, _ = c.Write(make([]byte, 64<<10))
		conn := testkit.Receive(t, conns, "the connection")
		testkit.Eventually(t, "reading is paused", func() bool { return g.Stats().Paused.Load() > uint64(i) })
		_ = c.SetLinger(0)
		_ = c.Close()
		g.Loops()[0].Post(func(time.Time) { busy = false; conn.Pump() }) // resumes a dead socket
		testkit.Receive(t, closed, "Closed")
		g.Loops()[0].Post(func(time.Time) { busy = true })
	}
	testkit.Eventually(t, "the descriptors are back", func() bool { return descriptors(t) <= before })
}

// A close that is drained does not reset the connection over bytes that the
// Handler has not seen because reading was paused.
func TestCloseLingerWhilePaused(t *testing.T) {
	g := start(t, Config{Loops: 1, InboundMax: 1 << 10})
	conns := make(chan *Conn, 1)
	ln := listen(t, g, func(_ time.Time, c *Conn) Handler {
		conns <- c
		return &script{data: func(time.Time, []byte) int { return 0 }}
	})
	c := connect(t, ln)
	sent := make(chan error, 1)
	go func() {
		_, err := c.Write(make([]byte, 4<<20))
		sent <- err
		_ = c.CloseWrite()
	}()
	conn := testkit.Receive(t, conns, "the connection")
	testkit.Eventually(t, "reading is paused", func() bool { return g.Stats().Paused.Load() > 0 })
	g.Loops()[0].Post(func(time.Time) {
		conn.Write([]byte("bye"))
		conn.CloseLinger()
	})
	got, err := io.ReadAll(c)
	if err != nil || string(got) != "bye" {
		t.Fatalf("got %q, %v", got, err)
	}
	if err := testkit.Receive(t, sent, "the upload"); err != nil {
		t.Fatalf("the upload was broken off: %v", err)
	}
}

// A dialled connection's answer is shown while the request is still unsent.
func TestDialledConnectionIsFedWhileItSends(t *testing.T) {
	g := start(t, Config{Loops: 1, OutboundMax: 1 << 10})
	peer := testkit.Listen(t)
	got := make(chan string, 1)
	l := g.Loops()[0]
	l.Post(func(time.Time) {
		l.Dial(peer.Addr().String(), testkit.Timeout, nil, func(_ time.Time, c *Conn, err error) Handler {
			if err != nil {
				t.Error(err)
				return nil
			}
			c.Write(make([]byte, 32<<20)) // more than all buffers hold
			return &script{data: func(_ time.Time, b []byte) int { got <- string(b); return len(b) }}
		})
	})
	c := testkit.Must(peer.Accept())(t)
	defer c.Close()
	_, _ = io.WriteString(c, "early") // without having read a byte
	if s := testkit.Receive(t, got, "the early answer"); s != "early" {
		t.Fatalf("got %q", s)
	}
}
