package testkit

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// Listen returns a listener at a free port of 127.0.0.1, which is closed when the test ends.
func Listen(t testing.TB) net.Listener {
	t.Helper()
	l := Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() })
	return l
}

// Serve calls serve with each connection to addr, one after the other, and closes all when the test
// ends.
func Serve(t testing.TB, serve func(net.Conn)) (addr string) {
	t.Helper()
	l := Listen(t)
	go func() {
		var kept []net.Conn // the garbage collector closes those that nothing refers to
		defer func() {
			for _, c := range kept {
				c.Close()
			}
		}()
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			kept = append(kept, c)
			serve(c)
		}
	}()
	return l.Addr().String()
}

// A Conn is a client connection on which a test writes the bytes of requests.
type Conn struct {
	net.Conn
	In *bufio.Reader // received bytes
	T  testing.TB    // the test or subtest that uses the connection
}

// Dial connects to addr. The connection is closed when the test ends, and has a deadline of
// Timeout.
func Dial(t testing.TB, addr string) *Conn {
	t.Helper()
	return DialFrom(t, "127.0.0.1", addr)
}

// DialFrom is Dial from an address of the loopback network, so that clients can be
// distinguished.
func DialFrom(t testing.TB, ip, addr string) *Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
	c, err := d.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(Timeout)); err != nil {
		t.Fatal(err)
	}
	return NewConn(t, c)
}

// NewConn returns a Conn for an existing connection.
func NewConn(t testing.TB, c net.Conn) *Conn {
	return &Conn{Conn: c, In: bufio.NewReader(c), T: t}
}

// Send writes text.
func (c *Conn) Send(text string) {
	c.T.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.T.Fatal(err)
	}
}

// Answer reads one response to a request with the given method, and its body.
func (c *Conn) Answer(method string) (*http.Response, string) {
	c.T.Helper()
	res, err := http.ReadResponse(c.In, &http.Request{Method: method})
	if err != nil {
		c.T.Fatalf("read answer: %v", err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		c.T.Fatalf("read body of answer: %v", err)
	}
	return res, string(body)
}

// Status reads one response to GET and fails unless it has the status.
func (c *Conn) Status(want int) (*http.Response, string) {
	c.T.Helper()
	res, body := c.Answer("GET")
	if res.StatusCode != want {
		c.T.Errorf("answered %d %q, want %d", res.StatusCode, body, want)
	}
	return res, body
}

// Ask sends a GET request and reads its answer, which must have the status.
func (c *Conn) Ask(request string, want int) string {
	c.T.Helper()
	c.Send(request)
	_, body := c.Status(want)
	return body
}

// Closed fails unless the other side closes the connection without another byte.
func (c *Conn) Closed() {
	c.T.Helper()
	if b, err := c.In.ReadByte(); err != io.EOF {
		c.T.Errorf("the connection is not closed: read %q, %v", b, err)
	}
}

// Reset ends the connection with a TCP reset.
func (c *Conn) Reset() { Reset(c.Conn) }

// Reset ends a TCP connection with a reset.
func Reset(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}
