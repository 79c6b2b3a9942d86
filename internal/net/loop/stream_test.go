package loop

import (
	"bytes"
	"crypto/sha256"
	"io"
	"net"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// streamer is a script that hears of ends and of relief.
type streamer struct {
	script
	end      func(now time.Time) // when nothing is left unread
	writable func(now time.Time)
}

func (s *streamer) End(now time.Time, unread int) {
	if unread == 0 {
		s.end(now)
	}
}

func (s *streamer) Writable(now time.Time) {
	if s.writable != nil {
		s.writable(now)
	}
}

// gnet: the end of what the peer sends closes the connection.
func TestHalfCloseKeepsTheOtherDirection(t *testing.T) {
	overBoth(t, func(t *testing.T, x transport) {
		body := pattern(16 << 20)
		g := start(t, Config{Loops: 1})
		closed := make(chan error, 1)
		ln := x.listen(t, g, func(_ time.Time, c *Conn) Handler {
			var got []byte
			s := &streamer{}
			s.data = func(_ time.Time, b []byte) int { got = append(got, b...); return len(b) }
			s.end = func(time.Time) {
				c.Write(got)
				c.Write(body)
				c.CloseWrite()
				c.CloseDrained()
			}
			s.closed = func(_ time.Time, err error) { closed <- err }
			return s
		})
		c, _ := x.connect(t, ln)
		_, _ = io.WriteString(c, "question")
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(c)
		if err != nil || !bytes.HasPrefix(got, []byte("question")) || sha256.Sum256(got[8:]) != sha256.Sum256(body) {
			t.Fatalf("read %d bytes, %v; want the question and %d more", len(got), err, len(body))
		}
		if err := testkit.Receive(t, closed, "Closed"); err != nil {
			t.Fatalf("closed with %v", err)
		}
	})
}

// gnet: what is unread when the peer ends is lost.
func TestEndComesAfterUnreadBytes(t *testing.T) {
	body := pattern(3 << 20)
	g := start(t, Config{Loops: 1, InboundMax: 64 << 10})
	conns, ended := make(chan *Conn, 1), make(chan [32]byte, 2)
	open := false // the loop's own
	ln := listen(t, g, func(_ time.Time, c *Conn) Handler {
		conns <- c
		sum := sha256.New()
		s := &streamer{}
		s.data = func(_ time.Time, b []byte) int {
			if !open {
				return 0
			}
			sum.Write(b)
			return len(b)
		}
		s.end = func(time.Time) { ended <- [32]byte(sum.Sum(nil)); c.Close() }
		return s
	})
	c := connect(t, ln)
	go func() {
		_, _ = c.Write(body)
		_ = c.Close()
	}()
	conn := testkit.Receive(t, conns, "the connection")
	testkit.Eventually(t, "reading is paused", func() bool { return g.Stats().Paused.Load() > 0 })
	g.Loops()[0].Post(func(time.Time) { open = true; conn.Pump() })
	if testkit.Receive(t, ended, "the end") != sha256.Sum256(body) {
		t.Fatal("bytes were lost before the end")
	}
	testkit.Eventually(t, "the connection is gone", func() bool { return g.Stats().Open.Load() == 0 })
	if len(ended) > 0 {
		t.Fatal("the end was told twice")
	}
}

// Two connections joined, each fed only while the other takes what comes: a
// fast sender is held to the pace of a slow reader, in bounded memory, in both
// directions at once.
func TestStreamsHoldBothSidesBack(t *testing.T) {
	const bound = 64 << 10
	g := start(t, Config{Loops: 1, InboundMax: bound, OutboundMax: bound})
	far := testkit.Listen(t)
	most := make(chan int, 1)
	most <- 0
	ln := listen(t, g, func(_ time.Time, near *Conn) Handler {
		a, b := &streamer{}, &streamer{}
		var other *Conn
		join := func(s *streamer, from, to **Conn) {
			s.data = func(_ time.Time, p []byte) int {
				if *to == nil || (*to).Full() {
					return 0
				}
				(*to).Write(p)
				m := <-most
				most <- max(m, (*to).Unsent())
				return len(p)
			}
			s.end = func(time.Time) { (*to).CloseWrite() }
			s.writable = func(time.Time) { (*to).Pump() } // told of from: the other side goes on
		}
		join(a, &near, &other)
		join(b, &other, &near)
		near.SetDuplex(true)
		near.Loop().Dial(far.Addr().String(), testkit.Timeout, nil, func(_ time.Time, c *Conn, err error) Handler {
			if err != nil {
				t.Error(err)
				return nil
			}
			other = c
			near.Pump()
			return b
		})
		return a
	})
	c := connect(t, ln)
	fc := testkit.Must(far.Accept())(t)
	defer fc.Close()
	there, back := pattern(24<<20), pattern(20<<20)
	go send(c, there)
	go send(fc.(*net.TCPConn), back)
	testkit.Eventually(t, "both directions are held back", func() bool { return g.Stats().Paused.Load() >= 2 })
	got := make(chan []byte, 1)
	go func() { b, _ := io.ReadAll(fc); got <- b }()
	here, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(here, back) {
		t.Errorf("read %d bytes, %v; want %d", len(here), err, len(back))
	}
	if b := testkit.Receive(t, got, "the other direction"); !bytes.Equal(b, there) {
		t.Errorf("the far side read %d bytes, want %d", len(b), len(there))
	}
	// What is written at once is what was read at once, at most twice the bound.
	if m := <-most; m > 4*bound {
		t.Errorf("%d bytes were held unsent", m)
	}
}

func send(c *net.TCPConn, b []byte) {
	_, _ = c.Write(b)
	_ = c.CloseWrite()
}

// A peer that answers and goes away under what is written to it has still
// answered.
func TestAnswerSurvivesBrokenWrite(t *testing.T) {
	g := start(t, Config{Loops: 1})
	peer := testkit.Listen(t)
	got, closed, conns := make(chan string, 1), make(chan error, 1), make(chan *Conn, 1)
	l := g.Loops()[0]
	l.Post(func(time.Time) {
		l.Dial(peer.Addr().String(), testkit.Timeout, nil, hearing(t, conns, got, closed))
	})
	c := testkit.Must(peer.Accept())(t)
	conn := testkit.Receive(t, conns, "the connection")
	block := make(chan struct{})
	l.Post(func(time.Time) { // the loop sees all of it at once
		<-block
		for range 4 {
			conn.Write(make([]byte, 64<<10))
		}
	})
	_, _ = io.WriteString(c, "no")
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
	close(block)
	if s := testkit.Receive(t, got, "the answer"); s != "no" {
		t.Fatalf("got %q", s)
	}
	testkit.Receive(t, closed, "Closed")
}

// hearing tells of a connection that was dialled, of what comes on it and of its end.
func hearing(t *testing.T, conns chan<- *Conn, got chan<- string, closed chan<- error) DialFunc {
	return func(_ time.Time, c *Conn, err error) Handler {
		if err != nil {
			t.Error(err)
			return nil
		}
		conns <- c
		return &script{
			data:   func(_ time.Time, b []byte) int { got <- string(b); return len(b) },
			closed: func(_ time.Time, err error) { closed <- err },
		}
	}
}
