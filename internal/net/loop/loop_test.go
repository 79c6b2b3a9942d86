package loop

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// script is a Handler made of functions; those left out do nothing.
type script struct {
	data    func(now time.Time, b []byte) int
	expired func(now time.Time)
	closed  func(now time.Time, err error)
}

func (s *script) Data(now time.Time, b []byte) int {
	if s.data == nil {
		return len(b)
	}
	return s.data(now, b)
}

func (s *script) Expired(now time.Time) {
	if s.expired != nil {
		s.expired(now)
	}
}

func (s *script) Closed(now time.Time, err error) {
	if s.closed != nil {
		s.closed(now, err)
	}
}

func start(t *testing.T, cfg Config) *Group {
	t.Helper()
	g := testkit.Must(Start(cfg))(t)
	t.Cleanup(g.Stop)
	return g
}

func listen(t *testing.T, g *Group, accept AcceptFunc) *Listener {
	t.Helper()
	ln := g.Serve(testkit.Must(net.Listen("tcp", testkit.FreeAddr(t)))(t), nil, accept)
	t.Cleanup(ln.Close)
	return ln
}

func connect(t *testing.T, ln *Listener) *net.TCPConn {
	t.Helper()
	return testkit.Dial(t, ln.Addr().String()).Conn.(*net.TCPConn)
}

// A transport is how clients come to a Listener.
type transport struct {
	listen  func(t *testing.T, g *Group, accept AcceptFunc) *Listener
	connect func(t *testing.T, ln *Listener) (client, *net.TCPConn)
}

// A client is the other side of a connection.
type client interface {
	net.Conn
	CloseWrite() error
}

// overBoth runs a test of what holds without TLS and with it.
func overBoth(t *testing.T, test func(t *testing.T, x transport)) {
	t.Run("plain", func(t *testing.T) {
		test(t, transport{listen, func(t *testing.T, ln *Listener) (client, *net.TCPConn) {
			c := connect(t, ln)
			return c, c
		}})
	})
	t.Run("TLS", func(t *testing.T) {
		test(t, transport{serveSecure,
			func(t *testing.T, ln *Listener) (client, *net.TCPConn) { return connectSecure(t, ln) }})
	})
}

// echo answers every byte with itself.
func echo(_ time.Time, c *Conn) Handler {
	return &script{data: func(_ time.Time, b []byte) int {
		c.Write(b)
		return len(b)
	}}
}

func mustEcho(t *testing.T, c net.Conn, msg string) {
	t.Helper()
	if _, err := io.WriteString(c, msg); err != nil {
		t.Fatalf("write %q: %v", msg, err)
	}
	got := make([]byte, len(msg))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != msg {
		t.Fatalf("echo of %q: got %q, %v", msg, got, err)
	}
}

func TestEcho(t *testing.T) {
	g := start(t, Config{Loops: 2})
	ln := listen(t, g, echo)
	for range 8 {
		c := connect(t, ln)
		mustEcho(t, c, "hello")
		mustEcho(t, c, "again")
	}
}

// gnet: leftover bytes raise no event; Peek(0) and Discard(0) mean "all".
func TestUnreadBytesComeAgain(t *testing.T) {
	g := start(t, Config{Loops: 1})
	seen := make(chan string, 16)
	ln := listen(t, g, func(_ time.Time, c *Conn) Handler {
		return &script{data: func(_ time.Time, b []byte) int {
			seen <- string(b)
			if len(b) < 4 {
				return 0 // nothing done with: all of it must come again
			}
			if len(b) > 4 {
				c.Pump()
			}
			return 4
		}}
	})
	c := connect(t, ln)
	_, _ = io.WriteString(c, "ab")
	if got := testkit.Receive(t, seen, "the first bytes"); got != "ab" {
		t.Fatalf("got %q", got)
	}
	_, _ = io.WriteString(c, "cdEFGHij")
	for _, want := range []string{"abcdEFGHij", "EFGHij", "ij"} {
		if got := testkit.Receive(t, seen, want); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
}

// gnet: a write error calls OnClose from inside Write.
// What has arrived while the loop was busy is there when it is fetched, in order with what
// was unread before and what comes later.
func TestFetch(t *testing.T) {
	g := start(t, Config{Loops: 1})
	accepted := make(chan *Conn, 1)
	var got []byte
	all := make(chan string, 1)
	ln := listen(t, g, func(_ time.Time, c *Conn) Handler {
		accepted <- c
		return &script{data: func(_ time.Time, b []byte) int {
			n := len(b) - len(b)%2 // pairs
			if got = append(got, b[:n]...); len(got) == 8 {
				all <- string(got)
			}
			return n
		}}
	})
	peer := connect(t, ln)
	write := func(text string) {
		if _, err := io.WriteString(peer, text); err != nil {
			t.Error(err)
		}
	}
	write("a")
	c := testkit.Receive(t, accepted, "the connection")
	testkit.Eventually(t, "the first byte is unread", func() bool {
		unread := make(chan int)
		c.Loop().Post(func(time.Time) { unread <- c.unread() })
		return <-unread == 1
	})
	done := make(chan struct{})
	c.Loop().Post(func(time.Time) {
		defer close(done)
		c.Fetch() // there is nothing
		write("bcde")
		testkit.Eventually(t, "it is fetched in this turn", func() bool {
			c.Fetch()
			return len(got) == 4
		})
	})
	<-done
	write("fgh")
	if text := testkit.Receive(t, all, "the rest"); text != "abcdefgh" {
		t.Errorf("%q", text)
	}
}

func TestClosedNeverFromInsideWrite(t *testing.T) {
	g := start(t, Config{Loops: 1})
	var mu sync.Mutex
	calls, inside, fromInside := 0, false, false
	done := make(chan struct{})
	conns := make(chan *Conn, 1)
	ln := listen(t, g, func(_ time.Time, c *Conn) Handler {
		conns <- c
		return &script{closed: func(time.Time, error) {
			mu.Lock()
			calls++
			fromInside = fromInside || inside
			mu.Unlock()
			close(done)
		}}
	})
	peer := connect(t, ln)
	c := testkit.Receive(t, conns, "the connection")
	_ = peer.SetLinger(0)
	g.Loops()[0].Post(func(time.Time) {
		// The peer's reset arrives while this turn keeps the loop busy, so
		// that the write is what finds the connection broken.
		_ = peer.Close()
		mu.Lock()
		inside = true
		mu.Unlock()
		for range 100 {
			c.Write([]byte("into the void"))
		}
		mu.Lock()
		inside = false
		mu.Unlock()
	})
	testkit.Receive(t, done, "Closed")
	mu.Lock()
	defer mu.Unlock()
	if calls != 1 || fromInside {
		t.Fatalf("Closed called %d times, from inside Write: %v", calls, fromInside)
	}
}

// gnet: a panic in a callback ends the process.
func TestPanicClosesOneConnection(t *testing.T) {
	said := make(chan any, 1)
	g := start(t, Config{Loops: 1, Panicked: func(v any, _ []byte) { said <- v }})
	ln := listen(t, g, func(now time.Time, c *Conn) Handler {
		h := echo(now, c).(*script)
		data := h.data
		h.data = func(now time.Time, b []byte) int {
			if string(b) == "boom" {
				panic("as asked")
			}
			return data(now, b)
		}
		return h
	})
	good, bad := connect(t, ln), connect(t, ln)
	mustEcho(t, good, "before")
	_, _ = io.WriteString(bad, "boom")
	if n, err := bad.Read(make([]byte, 1)); err == nil {
		t.Fatalf("the connection that panicked lives: read %d bytes", n)
	}
	if v := testkit.Receive(t, said, "the report"); v != "as asked" {
		t.Fatalf("reported %v", v)
	}
	mustEcho(t, good, "after")
	if n := g.Stats().Panics.Load(); n != 1 {
		t.Fatalf("%d panics counted, want 1", n)
	}
}

func TestPostKeepsOrderAndMayComeFromAnywhere(t *testing.T) {
	g := start(t, Config{Loops: 1})
	l := g.Loops()[0]
	const posters, each = 4, 1000
	next := make([]int, posters)
	var wg sync.WaitGroup
	wg.Add(posters * each)
	for p := range posters {
		go func() {
			for i := range each {
				l.Post(func(time.Time) {
					if next[p] != i { // next is the loop's own
						t.Errorf("poster %d: call %d came when %d was expected", p, i, next[p])
					}
					next[p] = i + 1
					wg.Done()
				})
			}
		}()
	}
	wg.Wait()
}

// gnet: half a close (read returns 0) closes the connection.
func TestPeerCloseIsEOF(t *testing.T) {
	overBoth(t, func(t *testing.T, x transport) {
		g := start(t, Config{Loops: 1})
		cause := make(chan error, 1)
		ln := x.listen(t, g, func(time.Time, *Conn) Handler {
			return &script{closed: func(_ time.Time, err error) { cause <- err }}
		})
		c, _ := x.connect(t, ln)
		_ = c.Close()
		if err := testkit.Receive(t, cause, "Closed"); err != io.EOF {
			t.Fatalf("closed with %v, want EOF", err)
		}
		testkit.Eventually(t, "the count is back at zero", func() bool { return g.Stats().Open.Load() == 0 })
	})
}

func TestOwnCloseIsNil(t *testing.T) {
	g := start(t, Config{Loops: 1})
	cause := make(chan error, 1)
	ln := listen(t, g, func(_ time.Time, c *Conn) Handler {
		return &script{
			data:   func(_ time.Time, b []byte) int { c.Close(); c.Write(b); c.Close(); return len(b) },
			closed: func(_ time.Time, err error) { cause <- err },
		}
	})
	_, _ = io.WriteString(connect(t, ln), "x")
	if err := testkit.Receive(t, cause, "Closed"); err != nil {
		t.Fatalf("closed with %v, want nil", err)
	}
}

func TestStopTellsEveryHandlerOnce(t *testing.T) {
	g := start(t, Config{Loops: 2})
	var mu sync.Mutex
	told := map[*Conn]int{}
	opened := make(chan struct{}, 20)
	ln := listen(t, g, func(_ time.Time, c *Conn) Handler {
		opened <- struct{}{}
		return &script{closed: func(time.Time, error) {
			mu.Lock()
			told[c]++
			mu.Unlock()
		}}
	})
	for range 20 {
		connect(t, ln)
	}
	for range 20 {
		testkit.Receive(t, opened, "connections")
	}
	ln.Close()
	g.Stop()
	mu.Lock()
	defer mu.Unlock()
	if len(told) != 20 {
		t.Fatalf("%d Handlers told, want 20", len(told))
	}
	for _, n := range told {
		if n != 1 {
			t.Fatalf("a Handler was told %d times", n)
		}
	}
}

// gnet: no way to stop accepting while connections live on.
func TestListenerCloseLeavesConnections(t *testing.T) {
	g := start(t, Config{Loops: 1})
	ln := listen(t, g, echo)
	c := connect(t, ln)
	mustEcho(t, c, "before")
	addr := ln.Addr().String()
	ln.Close()
	mustEcho(t, c, "after")
	if c2, err := net.Dial("tcp", addr); err == nil {
		c2.Close()
		t.Fatal("a closed listener accepted")
	}
}

// gnet: SO_REUSEADDR is off by default.
func TestPortCanBeTakenAgainAtOnce(t *testing.T) {
	g := start(t, Config{Loops: 1})
	ln := listen(t, g, func(_ time.Time, c *Conn) Handler {
		return &script{data: func(_ time.Time, b []byte) int { c.Close(); return len(b) }}
	})
	c := connect(t, ln)
	_, _ = io.WriteString(c, "x")
	_, _ = c.Read(make([]byte, 1)) // our side closed first: TIME_WAIT here
	addr := ln.Addr().String()
	ln.Close()
	again, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatalf("listen again: %v", err)
	}
	g.Serve(again, nil, echo).Close()
}
