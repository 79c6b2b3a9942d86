package loop

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// A TLS connection is one of the loop like any other, because what the loop
// has is not the TCP socket but one end of a pair of Unix sockets, and a pump
// carries plaintext between its other end and crypto/tls. Pausing, half
// closes, lingering, drains and back-pressure are the pair's, and so need no
// second way of being done.

// Secure reports whether the connection is TLS between its peer and us.
func (c *Conn) Secure() bool { return c.secure != nil }

// A HandshakeError is told of a DialSecure whose connection was made, but not
// its TLS session. Err is of crypto/tls or of the connection: a
// *tls.CertificateVerificationError, with the error of crypto/x509 below it,
// when the certificate is not to be trusted; a net.Error that is a Timeout when
// the time was up; io.ErrUnexpectedEOF when the peer hung up.
type HandshakeError struct {
	Addr string // the address dialled
	Err  error
}

func (e *HandshakeError) Error() string {
	return fmt.Sprintf("tls handshake with %s: %v", e.Addr, e.Err)
}

// Unwrap returns Err.
func (e *HandshakeError) Unwrap() error { return e.Err }

// DialSecure is Dial and a TLS handshake, both within the timeout. cfg is not
// changed; without a ServerName the host of addr is what the certificate must
// be for. The error told is that of the connect or a *HandshakeError.
func (l *Loop) DialSecure(addr string, timeout time.Duration, cfg *tls.Config, dialled DialFunc) {
	l.g.places.expect(&l.g.places.secureOut)
	c := newConn(l)
	c.dialled = dialled
	l.dial(&dial{c: c, addr: addr, timeout: timeout, secure: named(cfg, addr)})
}

// named is cfg with the name that the certificate must be for.
func named(cfg *tls.Config, addr string) *tls.Config {
	if cfg.ServerName != "" || cfg.InsecureSkipVerify {
		return cfg
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return cfg // the connect will say what is wrong with the address
	}
	cfg = cfg.Clone()
	cfg.ServerName = host
	return cfg
}

// A truncated connection ended without a close_notify: what it sent last may
// have been cut off by somebody else.
type truncated struct{}

func (truncated) Error() string { return "the connection ended without a close_notify" }

// Unwrap makes it an unexpected end.
func (truncated) Unwrap() error { return io.ErrUnexpectedEOF }

// A wire is the TCP connection below a tls.Conn. crypto/tls takes an end at the
// border of a record for a proper one; here it is an error (RFC 8446 section
// 6.1: the truncation attack).
type wire struct{ net.Conn }

// Read is net.Conn's, with an end told as truncated.
func (w wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if err == io.EOF {
		err = truncated{}
	}
	return n, err
}

// welcome shakes hands with an accepted connection and brings it to its loop.
// It is the pump's goroutine from then on.
func (p *pump) welcome(by time.Time) {
	if err := p.handshake(by); err != nil {
		p.set.stats.handshakeErrors.Add(1)
		p.answerPlain(err)
		p.end()
		return
	}
	if err := p.join(); err != nil {
		p.set.stats.refused.Add(1)
		p.end()
		return
	}
	go p.outward()
	p.inward()
}

// answerPlain answers a client whose handshake failed because it does not speak
// TLS. As after CloseLinger, what it still sends is discarded for a while.
func (p *pump) answerPlain(err error) {
	var not tls.RecordHeaderError
	if !errors.As(err, &not) || not.Conn == nil { // nil: TLS has been spoken
		return
	}
	answer := p.c.loop.g.cfg.Plain(not.RecordHeader)
	tcp, ok := p.wire.(*net.TCPConn)
	if len(answer) == 0 || !ok {
		return
	}
	_ = tcp.SetDeadline(time.Now().Add(lingerIdleMax))
	_, _ = tcp.Write(answer)
	_ = tcp.CloseWrite()
	_, _ = io.CopyN(io.Discard, tcp, lingerBytesMax)
}

// greet shakes hands on a dialled connection and brings it to its loop.
func (p *pump) greet(addr string, by time.Time) error {
	err := p.handshake(by)
	if err != nil {
		err = &HandshakeError{Addr: addr, Err: err}
	} else {
		err = p.join()
	}
	if err != nil {
		p.end()
		return err
	}
	go p.outward()
	go p.inward()
	return nil
}

// handshake has to be done by the given time; the zero time is never.
func (p *pump) handshake(by time.Time) error {
	_ = p.wire.SetDeadline(by)
	if err := p.tls.Handshake(); err != nil {
		return err
	}
	return p.wire.SetDeadline(time.Time{})
}

// join makes the pair and brings one end of it to the loop.
func (p *pump) join() error {
	pair, err := socketPair()
	if err != nil {
		return fmt.Errorf("open socket pair: %w", err)
	}
	if err := p.attach(pair.theirs.(*net.UnixConn)); err != nil {
		_ = pair.ours.Close()
		return err
	}
	_ = pair.ours.(*net.UnixConn).SetWriteBuffer(pairBytes)
	p.c.secure = p
	e, err := p.c.enroll(pair.ours)
	if err != nil {
		return err
	}
	e.await() // a failure is told to the Conn, which then lets go of the pump
	p.set.settle(p)
	return nil
}
