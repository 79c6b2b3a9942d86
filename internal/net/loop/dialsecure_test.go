package loop

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

func TestDialSecure(t *testing.T) {
	g := start(t, Config{Loops: 1})
	addr, accept := securePeer(t)
	got := make(chan string, 1)
	dialSecure(g, addr, testkit.Timeout, trust().client, func(_ time.Time, c *Conn, err error) Handler {
		if err != nil {
			t.Error(err)
			return nil
		}
		if !c.Secure() || c.Remote().String() != addr {
			t.Errorf("connected to %s, secure %v; want %s", c.Remote(), c.Secure(), addr)
		}
		c.Write([]byte("hello"))
		return &script{data: func(_ time.Time, b []byte) int { got <- string(b); return len(b) }}
	})
	c, _ := accept()
	b := make([]byte, 5)
	if _, err := io.ReadFull(c, b); err != nil || string(b) != "hello" {
		t.Fatalf("the peer read %q, %v", b, err)
	}
	_, _ = io.WriteString(c, "answer")
	if s := testkit.Receive(t, got, "the answer"); s != "answer" {
		t.Fatalf("got %q", s)
	}
}

// dialErrors is the error of a Dial with TLS for each kind of peer.
var dialErrors = []struct {
	name  string
	cfg   func() *tls.Config
	peer  func(c net.Conn) // nil: nobody listens
	shook bool             // it came to a handshake
	is    func(err error) bool
}{
	{name: "nobody listens", is: func(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }},
	{name: "unknown authority",
		cfg:  func() *tls.Config { return &tls.Config{ServerName: "localhost", RootCAs: x509.NewCertPool()} },
		peer: shake, shook: true, is: func(err error) bool {
			var verify *tls.CertificateVerificationError
			var unknown x509.UnknownAuthorityError
			return errors.As(err, &verify) && errors.As(err, &unknown)
		}},
	// asks for 127.0.0.1
	{name: "another name", cfg: func() *tls.Config { return &tls.Config{RootCAs: trust().client.RootCAs} },
		peer: shake, shook: true, is: func(err error) bool {
			var host x509.HostnameError
			return errors.As(err, &host) && host.Host == "127.0.0.1"
		}},
	{name: "no TLS", peer: func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") },
		shook: true, is: func(err error) bool {
			var record tls.RecordHeaderError
			return errors.As(err, &record)
		}},
	{name: "hangs up", peer: func(c net.Conn) { _, _ = c.Read(make([]byte, 1<<10)); _ = c.(*net.TCPConn).CloseWrite() },
		shook: true, is: func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }},
	{name: "says nothing", peer: func(net.Conn) {}, shook: true, is: func(err error) bool {
		var timeout net.Error
		return errors.As(err, &timeout) && timeout.Timeout()
	}},
}

func shake(c net.Conn) { _ = tls.Server(c, trust().server).Handshake() }

func TestDialSecureErrorsAreDistinguishable(t *testing.T) {
	g := start(t, Config{Loops: 1})
	for _, d := range dialErrors {
		ln := testkit.Listen(t)
		timeout, addr := testkit.Timeout, ln.Addr().String()
		switch d.name {
		case "says nothing":
			timeout = 2 * time.Second // which the connect must not need
		case "nobody listens":
			addr = testkit.FreeAddr(t)
		}
		cfg := trust().client
		if d.cfg != nil {
			cfg = d.cfg()
		}
		told := make(chan error, 1)
		dialSecure(g, addr, timeout, cfg, func(_ time.Time, _ *Conn, err error) Handler {
			told <- err
			return nil
		})
		if d.peer != nil {
			c := testkit.Must(ln.Accept())(t)
			d.peer(c)
			defer c.Close()
		}
		defer ln.Close()
		err := testkit.Receive(t, told, d.name)
		var handshake *HandshakeError
		if shook := errors.As(err, &handshake); err == nil || shook != d.shook || !d.is(err) {
			t.Errorf("%s: told %v (%T), a handshake error: %v, want %v", d.name, err, err, shook, d.shook)
		}
	}
	testkit.Eventually(t, "no pump is left", func() bool { return pumping() == 0 })
}

// A peer that answers and goes away under what is written to it has still
// answered.
func TestAnswerSurvivesBrokenSecureWrite(t *testing.T) {
	g := start(t, Config{Loops: 1})
	addr, accept := securePeer(t)
	got, closed, conns := make(chan string, 1), make(chan error, 1), make(chan *Conn, 1)
	dialSecure(g, addr, testkit.Timeout, trust().client, hearing(t, conns, got, closed))
	c, tcp := accept()
	conn := testkit.Receive(t, conns, "the connection")
	block := make(chan struct{})
	g.Loops()[0].Post(func(time.Time) { // the loop sees all of it at once
		<-block
		for range 4 {
			conn.Write(make([]byte, 64<<10))
		}
	})
	_, _ = io.WriteString(c, "no")
	_ = tcp.SetLinger(0)
	_ = tcp.Close()
	close(block)
	if s := testkit.Receive(t, got, "the answer"); s != "no" {
		t.Fatalf("got %q", s)
	}
	if err := testkit.Receive(t, closed, "Closed"); err == nil || err == io.EOF {
		t.Errorf("closed with %v, want what went wrong", err)
	}
}
