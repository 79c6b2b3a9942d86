package loop

import (
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"weir/internal/pump"
)

// A TLS connection is one of the loop like any other, because what the loop
// has is not the TCP socket but one end of a pair of Unix sockets, and a pump
// carries plaintext between its other end and crypto/tls. Pausing, half
// closes, lingering, drains and back-pressure are the pair's, and so need no
// second way of being done.

// Secure reports whether the connection is TLS between its peer and us.
func (c *Conn) Secure() bool { return c.secure != nil }

// Verified reports whether the peer has shown a certificate that our TLS session trusts.
func (c *Conn) Verified() bool { return c.secure != nil && c.secure.Verified() }

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
	l.g.places.ExpectOut()
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

// newPump returns the pump of c, or nil after Stop. The caller has it welcome or greet
// the peer.
func (c *Conn) newPump(nc net.Conn, session func(net.Conn) *tls.Conn) *pump.Pump {
	retry := c.retry
	return c.loop.g.pumps.New(nc, session, func() { c.loop.Post(retry) }, func() {
		if c.accepted {
			c.loop.g.leave(c)
		}
	})
}

// welcome shakes hands with an accepted connection and brings it to its loop.
// It is the pump's goroutine from then on.
func (c *Conn) welcome(p *pump.Pump, by time.Time) {
	g := c.loop.g
	if err := p.Shake(by); err != nil {
		g.stats.handshakeErrors.Add(1)
		p.AnswerPlain(err, g.cfg.Plain, lingerBytesMax, lingerIdleMax)
		p.End()
		return
	}
	if err := c.join(p); err != nil {
		g.stats.refused.Add(1)
		p.End()
		return
	}
	p.Run()
}

// greet shakes hands on a dialled connection and brings it to its loop.
func (c *Conn) greet(p *pump.Pump, addr string, by time.Time) error {
	err := p.Shake(by)
	if err != nil {
		err = &HandshakeError{Addr: addr, Err: err}
	} else {
		err = c.join(p)
	}
	if err != nil {
		p.End()
		return err
	}
	go p.Run()
	return nil
}

// join brings the connection to its loop, with the pump between it and its peer.
func (c *Conn) join(p *pump.Pump) error {
	ours, err := p.Join()
	if err != nil {
		return err
	}
	c.secure = p
	e, err := c.enroll(ours)
	if err != nil {
		return err
	}
	e.await() // a failure is told to the Conn, which then lets go of the pump
	p.Settle()
	return nil
}
