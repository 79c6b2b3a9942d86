package loop

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/internal/net/loop/pump"
	"weir/internal/test/testkit"
)

// trust is a server's certificate for "localhost", signed by itself, and a
// client that trusts it. Made once, as keys cost time.
var trust = sync.OnceValue(func() (t struct{ server, client *tls.Config }) {
	pair := testkit.SelfSigned(time.Now().Add(time.Hour), "localhost")
	t.server = &tls.Config{Certificates: []tls.Certificate{pair}}
	t.client = testkit.Trust(pair, "localhost")
	return t
})

func serveSecure(t *testing.T, g *Group, accept AcceptFunc) *Listener {
	t.Helper()
	ln := testkit.Listen(t)
	l := g.Serve(ln, trust().server, accept)
	t.Cleanup(l.Close)
	return l
}

// connectSecure returns the client's session and the TCP connection below it.
func connectSecure(t *testing.T, ln *Listener) (*tls.Conn, *net.TCPConn) {
	t.Helper()
	tcp := connect(t, ln)
	c := tls.Client(tcp, trust().client)
	if err := c.Handshake(); err != nil {
		t.Fatalf("handshake: %v", err)
	}
	return c, tcp
}

// securePeer accepts one TLS connection of ours.
func securePeer(t *testing.T) (addr string, accept func() (*tls.Conn, *net.TCPConn)) {
	t.Helper()
	ln := testkit.Listen(t)
	return ln.Addr().String(), func() (*tls.Conn, *net.TCPConn) {
		tcp := testkit.Must(ln.Accept())(t)
		t.Cleanup(func() { tcp.Close() })
		_ = tcp.SetDeadline(time.Now().Add(testkit.Timeout))
		c := tls.Server(tcp, trust().server)
		if err := c.Handshake(); err != nil {
			t.Fatalf("the peer's handshake: %v", err)
		}
		return c, tcp.(*net.TCPConn)
	}
}

func dialSecure(g *Group, addr string, timeout time.Duration, cfg *tls.Config, dialled DialFunc) {
	l := g.Loops()[0]
	l.Post(func(time.Time) { l.Dial(addr, timeout, cfg, dialled) })
}

func TestSecureConnectionIsOneOfTheLoop(t *testing.T) {
	g := start(t, Config{Loops: 2})
	conns := make(chan *Conn, 8)
	ln := serveSecure(t, g, func(now time.Time, c *Conn) Handler {
		conns <- c
		return echo(now, c)
	})
	for range 4 {
		c, tcp := connectSecure(t, ln)
		mustEcho(t, c, "hello")
		mustEcho(t, c, string(pattern(300<<10)))
		mustEcho(t, c, "again")
		conn := testkit.Receive(t, conns, "the connection")
		if got, want := conn.Remote().String(), tcp.LocalAddr().String(); got != want {
			t.Errorf("the peer is said to be %s, is %s", got, want)
		}
		if !conn.Secure() {
			t.Error("a TLS connection is said not to be secure")
		}
	}
}

func TestPlainConnectionIsNotSecure(t *testing.T) {
	g := start(t, Config{Loops: 1})
	conns := make(chan *Conn, 1)
	ln := listen(t, g, func(now time.Time, c *Conn) Handler { conns <- c; return echo(now, c) })
	connect(t, ln)
	if testkit.Receive(t, conns, "the connection").Secure() {
		t.Error("a plain connection is said to be secure")
	}
}

func TestSilentHandshakeHasAPlace(t *testing.T) {
	g := start(t, Config{Loops: 1, ConnectionsMax: 1})
	ln := serveSecure(t, g, echo)
	silent := connect(t, ln)
	testkit.Eventually(t, "the silent one counts", func() bool { return g.Stats().Open.Load() == 1 })
	second := connect(t, ln)
	if _, err := second.Read(make([]byte, 1)); err == nil {
		t.Fatal("a second connection was let in while the first shook hands")
	}
	_ = silent.Close()
	testkit.Eventually(t, "the place is given back", func() bool { return g.Stats().Open.Load() == 0 })
	s := g.Stats()
	if s.HandshakeErrors.Load() != 1 || s.Refused.Load() != 1 || s.Accepted.Load() != 1 {
		t.Errorf("counted %+v, want 1 failed handshake, 1 refused, 1 accepted", s)
	}
	c, _ := connectSecure(t, ln)
	mustEcho(t, c, "the next one")
}

func TestSilentHandshakeEnds(t *testing.T) {
	g := start(t, Config{Loops: 1, HandshakeTimeout: 50 * time.Millisecond})
	silent := connect(t, serveSecure(t, g, echo))
	if _, err := silent.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the silent connection read %v, want its end", err)
	}
	testkit.Eventually(t, "the place is given back", func() bool { return g.Stats().Open.Load() == 0 })
	if n := g.Stats().HandshakeErrors.Load(); n != 1 {
		t.Errorf("%d handshakes failed, want 1", n)
	}
}

func TestGarbledHandshakeIsCounted(t *testing.T) {
	g := start(t, Config{Loops: 1})
	ln := serveSecure(t, g, echo)
	c := connect(t, ln)
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	_, _ = io.Copy(io.Discard, c)
	testkit.Eventually(t, "it is counted", func() bool { return g.Stats().HandshakeErrors.Load() == 1 })
	testkit.Eventually(t, "the place is given back", func() bool { return g.Stats().Open.Load() == 0 })
}

// CloseWrite of ours is a close_notify; the peer may go on.
func TestCloseWriteIsACloseNotify(t *testing.T) {
	g := start(t, Config{Loops: 1})
	got := make(chan string, 1)
	ln := serveSecure(t, g, func(_ time.Time, c *Conn) Handler {
		c.Write([]byte("all I have to say"))
		c.CloseWrite()
		return &script{data: func(_ time.Time, b []byte) int { got <- string(b); return len(b) }}
	})
	c, tcp := connectSecure(t, ln)
	if b, err := io.ReadAll(c); err != nil || string(b) != "all I have to say" {
		t.Fatalf("read %q, %v", b, err)
	}
	if _, err := io.WriteString(c, "and yet"); err != nil {
		t.Fatal(err)
	}
	if s := testkit.Receive(t, got, "the peer's word"); s != "and yet" {
		t.Fatalf("got %q", s)
	}
	_ = tcp.Close()
}

// Our close is a close_notify and then the end of the TCP connection.
func TestOwnCloseOfSecureIsProper(t *testing.T) {
	g := start(t, Config{Loops: 1})
	closed := make(chan error, 1)
	ln := serveSecure(t, g, func(_ time.Time, c *Conn) Handler {
		return &script{
			data:   func(_ time.Time, b []byte) int { c.Write(b); c.CloseDrained(); return len(b) },
			closed: func(_ time.Time, err error) { closed <- err },
		}
	})
	tcp := connect(t, ln)
	c := tls.Client(pump.CloseNotifyConn{Conn: tcp}, trust().client) // tells a bare end apart
	_, _ = io.WriteString(c, "last")
	if b, err := io.ReadAll(c); err != nil || string(b) != "last" {
		t.Fatalf("read %q, %v; want the answer and a close_notify", b, err)
	}
	if n, err := tcp.Read(make([]byte, 1)); err != io.EOF {
		t.Fatalf("after the close_notify %d bytes, %v; want the end", n, err)
	}
	if err := testkit.Receive(t, closed, "Closed"); err != nil {
		t.Fatalf("closed with %v, want nil", err)
	}
}

// Whoever is on the way can end the TCP connection, but not send a close_notify.
func TestTruncationIsNoEnd(t *testing.T) {
	for _, ender := range []bool{false, true} {
		g := start(t, Config{Loops: 1})
		addr, accept := securePeer(t)
		got, closed, ends := make(chan string, 4), make(chan error, 1), make(chan bool, 1)
		dialSecure(g, addr, testkit.Timeout, trust().client, func(_ time.Time, c *Conn, err error) Handler {
			if err != nil {
				t.Error(err)
				return nil
			}
			s := &streamer{}
			s.data = func(_ time.Time, b []byte) int { got <- string(b); return len(b) }
			s.end = func(time.Time) { ends <- true }
			s.closed = func(_ time.Time, err error) { closed <- err }
			if !ender {
				return &s.script
			}
			return s
		})
		c, tcp := accept()
		_, _ = io.WriteString(c, "half of it") // a whole record
		_ = tcp.Close()
		if s := testkit.Receive(t, got, "what was sent"); s != "half of it" {
			t.Errorf("got %q", s)
		}
		if err := testkit.Receive(t, closed, "Closed"); err != io.ErrUnexpectedEOF {
			t.Errorf("a HalfCloser %v: closed with %v, want an unexpected EOF", ender, err)
		}
		if len(ends) > 0 {
			t.Errorf("a HalfCloser %v: a truncated connection was told to have ended", ender)
		}
	}
}

func TestTruncatedRequestIsNoEnd(t *testing.T) {
	g := start(t, Config{Loops: 1})
	closed := make(chan error, 1)
	ln := serveSecure(t, g, func(time.Time, *Conn) Handler {
		return &script{closed: func(_ time.Time, err error) { closed <- err }}
	})
	c, tcp := connectSecure(t, ln)
	_, _ = io.WriteString(c, "half of it")
	_ = tcp.CloseWrite()
	if err := testkit.Receive(t, closed, "Closed"); err != io.ErrUnexpectedEOF {
		t.Errorf("closed with %v, want an unexpected EOF", err)
	}
}

func TestSecureResetIsTold(t *testing.T) {
	g := start(t, Config{Loops: 1})
	closed := make(chan error, 1)
	ln := serveSecure(t, g, func(_ time.Time, c *Conn) Handler {
		return &script{closed: func(_ time.Time, err error) { closed <- err }}
	})
	_, tcp := connectSecure(t, ln)
	_ = tcp.SetLinger(0)
	_ = tcp.Close()
	if err := testkit.Receive(t, closed, "Closed"); !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("closed with %v, want a reset", err)
	}
	testkit.Eventually(t, "the count is back at zero", func() bool { return g.Stats().Open.Load() == 0 })
}

// A dead peer is found by writing even while reading is paused.
func TestWriteToDeadSecurePeerCloses(t *testing.T) {
	g := start(t, Config{Loops: 1, InboundMax: 1 << 10})
	closed, conns := make(chan error, 2), make(chan *Conn, 1)
	ln := serveSecure(t, g, func(_ time.Time, c *Conn) Handler {
		conns <- c
		return &script{
			data:   func(time.Time, []byte) int { return 0 },
			closed: func(_ time.Time, err error) { closed <- err },
		}
	})
	c, tcp := connectSecure(t, ln)
	_, _ = c.Write(make([]byte, 16<<10))
	conn := testkit.Receive(t, conns, "the connection")
	testkit.Eventually(t, "reading is paused", func() bool { return g.Stats().Paused.Load() > 0 })
	_ = tcp.SetLinger(0)
	_ = tcp.Close()
	testkit.Eventually(t, "the write finds the peer dead", func() bool {
		g.Loops()[0].Post(func(time.Time) { conn.Write([]byte("x")) })
		return len(closed) > 0
	})
	if err := <-closed; err == nil || err == io.EOF {
		t.Fatalf("closed with %v, want what went wrong", err)
	}
	testkit.Eventually(t, "the count is back at zero", func() bool { return g.Stats().Open.Load() == 0 })
}

func TestAbortOfSecureIsAReset(t *testing.T) {
	g := start(t, Config{Loops: 1})
	ln := serveSecure(t, g, func(_ time.Time, c *Conn) Handler {
		return &script{data: func(_ time.Time, b []byte) int { c.Abort(); return len(b) }}
	})
	c, tcp := connectSecure(t, ln)
	_, _ = io.WriteString(c, "x")
	if _, err := tcp.Read(make([]byte, 4<<10)); err == nil {
		_, err = io.Copy(io.Discard, tcp) // behind session tickets
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Fatalf("read %v, want a reset", err)
		}
	} else if !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("read %v, want a reset", err)
	}
	testkit.Eventually(t, "the count is back at zero", func() bool { return g.Stats().Open.Load() == 0 })
}
