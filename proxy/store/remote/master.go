package remote

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/net/http1"
	"weir/proxy/store/asks"
)

const (
	// idleMax bounds the idle connections to one master, and idleTimeout how long one is kept,
	// which is less than the master keeps it.
	idleMax     = 256
	idleTimeout = 60 * time.Second
	// bytesKept bounds the memory that an idle connection keeps.
	bytesKept = 64 << 10
)

// A master has the connections on which one master is asked to decide. A question is one write;
// one goroutine writes it and reads the answer.
//
// Safe for concurrent use: mu guards idle, the rest is immutable.
type master struct {
	url, addr string
	secure    *tls.Config // nil: no TLS
	head      []byte      // of each request, up to the value of Content-Length
	dial      func(ctx context.Context, network, addr string) (net.Conn, error)

	mu   sync.Mutex
	idle []*conn // the last is the one used last
}

// newMaster returns a master without connections. base must be valid.
func newMaster(base, token string, secure *tls.Config) *master {
	u, _ := url.Parse(base)
	m := &master{url: base, addr: u.Host, dial: new(net.Dialer).DialContext}
	port := "80"
	if u.Scheme == "https" {
		port, m.secure = "443", secure.Clone()
		m.secure.ServerName = u.Hostname()
	}
	if u.Port() == "" {
		m.addr = net.JoinHostPort(u.Hostname(), port)
	}
	m.head = append(m.head, "POST /v1/decide HTTP/1.1\r\n"...)
	m.head = http1.AppendField(m.head, "Host", u.Host)
	m.head = http1.AppendField(m.head, "User-Agent", agent)
	m.head = http1.AppendField(m.head, "Content-Type", asks.ContentType)
	if token != "" {
		m.head = http1.AppendField(m.head, "Authorization", "Bearer "+token)
	}
	m.head = append(m.head, "Content-Length: "...)
	return m
}

// appendRequest appends the request that asks a question.
func (m *master) appendRequest(dst, question []byte) []byte {
	dst = strconv.AppendInt(append(dst, m.head...), int64(len(question)), 10)
	return append(append(dst, "\r\n\r\n"...), question...)
}

// A connectError says that no connection was made, so that nothing was sent.
type connectError struct{ err error }

func (e *connectError) Error() string { return e.err.Error() }
func (e *connectError) Unwrap() error { return e.err }

// A conn is one connection to a master.
//
// Owned by the goroutine that has taken it.
type conn struct {
	net.Conn
	raw       syscall.RawConn // of the socket; nil: unknown
	interrupt func()          // ends reads and writes
	used      time.Time

	look    func(fd uintptr) // poll as a function value, made once
	socket  [1]unix.PollFd
	waiting int
	looked  error

	answer
	question, out, in []byte
}

// take returns an idle connection, or makes one before the time until.
func (m *master) take(ctx context.Context, now, until time.Time) (*conn, error) {
	for {
		m.mu.Lock()
		n := len(m.idle)
		if n == 0 {
			m.mu.Unlock()
			return m.connect(ctx, until)
		}
		c := m.idle[n-1]
		m.idle[n-1], m.idle = nil, m.idle[:n-1]
		m.mu.Unlock()
		if now.Sub(c.used) < idleTimeout && c.quiet() {
			return c, nil
		}
		c.Close()
	}
}

// connect makes a connection. The error is a *connectError.
func (m *master) connect(ctx context.Context, until time.Time) (*conn, error) {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	socket, err := m.dial(ctx, "tcp", m.addr)
	if err != nil {
		return nil, &connectError{err}
	}
	c := &conn{Conn: socket, answer: newAnswer()}
	c.look = c.poll
	c.interrupt = func() { _ = c.SetDeadline(time.Unix(1, 0)) }
	if s, ok := socket.(*net.TCPConn); ok {
		c.raw, _ = s.SyscallConn() // fails only if the socket is closed
	}
	if m.secure != nil {
		secured := tls.Client(socket, m.secure)
		if err := secured.HandshakeContext(ctx); err != nil {
			socket.Close()
			return nil, &connectError{fmt.Errorf("handshake with %s: %w", m.url, err)}
		}
		c.Conn = secured
	}
	return c, nil
}

// quiet reports whether the master has neither closed an idle connection nor sent anything
// without a question. If the master closes it in the microseconds between this check and the
// write, the question is lost and the master counts as unavailable.
func (c *conn) quiet() bool {
	if c.raw == nil {
		return true
	}
	return c.raw.Control(c.look) == nil && c.waiting == 0 && c.looked == nil
}

// poll checks whether there is something to read: bytes, an end, or an error. It does not read,
// because the deadline of the last exchange may have passed.
func (c *conn) poll(fd uintptr) {
	c.socket[0] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	c.waiting, c.looked = unix.Poll(c.socket[:], 0)
}

// give keeps a connection for the next question.
func (m *master) give(now time.Time, c *conn) {
	c.used = now
	c.question, c.out, c.in, c.body = kept(c.question), kept(c.out), kept(c.in), kept(c.body)
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.idle) >= idleMax {
		c.Close()
		return
	}
	m.idle = append(m.idle, c)
	if first := m.idle[0]; now.Sub(first.used) >= idleTimeout {
		first.Close()
		m.idle = append(m.idle[:0], m.idle[1:]...)
	}
}

// kept returns b, or nil if it is too large to be kept.
func kept(b []byte) []byte {
	if cap(b) > bytesKept {
		return nil
	}
	return b
}

func (m *master) closeIdle() {
	m.mu.Lock()
	idle := m.idle
	m.idle = nil
	m.mu.Unlock()
	for _, c := range idle {
		c.Close()
	}
}

// exchange sends the connection's question and returns the answer, which is valid until the
// connection is used again. ok reports whether the connection may be used again.
func (c *conn) exchange(ctx context.Context, m *master, until time.Time) (status int, body []byte, ok bool, err error) {
	if err := c.SetDeadline(until); err != nil {
		return 0, nil, false, err
	}
	stop := func() bool { return true }
	if ctx.Done() != nil {
		stop = context.AfterFunc(ctx, c.interrupt)
	}
	c.out = m.appendRequest(c.out[:0], c.question)
	if _, err = c.Write(c.out); err == nil {
		ok, err = c.read()
	}
	ok = stop() && ok
	switch cause := ctx.Err(); {
	case err != nil && cause != nil:
		err = cause
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = context.DeadlineExceeded
	}
	return c.head.Status, c.body, ok, err
}

// read reads an answer, and reports whether another may follow.
func (c *conn) read() (ok bool, err error) {
	c.in, c.body = slices.Grow(c.in[:0], 4<<10), c.body[:0]
	for {
		n, complete, err := c.answer.read(c.in)
		if complete || err != nil {
			return complete && c.head.KeepAlive && n == len(c.in), err
		}
		c.in = slices.Grow(append(c.in[:0], c.in[n:]...), 1)
		n, err = c.Read(c.in[len(c.in):cap(c.in)])
		c.in = c.in[:len(c.in)+n]
		switch {
		case n > 0 || err == nil:
		case c.answer.ends(): // with its connection
			return false, nil
		default:
			return false, err
		}
	}
}

// An answer is what a master has answered so far on a connection.
type answer struct {
	reader http1.Reader
	head   http1.Head
	body   []byte
}

func newAnswer() answer { return answer{reader: http1.NewResponseReader(nil)} }

// read adds b, of which it reads n bytes, and reports whether the answer is complete.
func (a *answer) read(b []byte) (n int, complete bool, err error) {
	for {
		event, err := a.reader.Next(b[n:], &a.head)
		n += event.N
		switch {
		case err != nil || event.Kind == http1.NeedMore:
			return n, false, err
		case event.Kind == http1.Upgraded:
			return n, false, errUpgraded
		case event.Kind == http1.End:
			return n, true, nil
		case event.Kind == http1.Data:
			if a.body = append(a.body, event.Data...); len(a.body) > answerBytesMax {
				return n, false, errLarge
			}
		}
	}
}

// ends reports whether the end of the connection completes the answer.
func (a *answer) ends() bool {
	event, err := a.reader.EOF()
	return err == nil && event.Kind == http1.End
}

var (
	errLarge    = errors.New("the answer is too large")
	errUpgraded = errors.New("the answer switches protocols")
)
