package loop

import (
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"weir/internal/net/loop/pump"
)

// For the loop a TLS connection is like any other: its socket is one end of a pair of Unix
// sockets, and a pump copies plaintext between the other end and crypto/tls. So pausing, half
// closes, lingering, drains and back-pressure need no second implementation.

// Secure reports whether the connection uses TLS.
func (c *Conn) Secure() bool { return c.secure != nil }

// Protocol returns the protocol that was negotiated by ALPN (RFC 7301), or "" without TLS or agreement.
func (c *Conn) Protocol() string {
	if c.secure == nil {
		return ""
	}
	return c.secure.Protocol()
}

// Verified reports whether the peer has presented a certificate that the TLS session trusts.
func (c *Conn) Verified() bool { return c.secure != nil && c.secure.Verified() }

// A HandshakeError is the error of a Dial whose connection was made, but not its TLS session.
// Err is that of crypto/tls or of the connection: a *tls.CertificateVerificationError, which wraps
// an error of crypto/x509, if the certificate is not trusted; a net.Error with Timeout at the
// deadline; io.ErrUnexpectedEOF if the peer closed the connection.
type HandshakeError struct {
	Addr string // the dialled address
	Err  error
}

func (e *HandshakeError) Error() string {
	return fmt.Sprintf("tls handshake with %s: %v", e.Addr, e.Err)
}

// Unwrap returns Err.
func (e *HandshakeError) Unwrap() error { return e.Err }

// named returns cfg with the name that the certificate must match.
func named(cfg *tls.Config, addr string) *tls.Config {
	if cfg.ServerName != "" || cfg.InsecureSkipVerify {
		return cfg
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return cfg // the connect will report the error
	}
	cfg = cfg.Clone()
	cfg.ServerName = host
	return cfg
}

// newPump returns the pump of c, or nil after Stop. The caller then calls welcome or greet.
func (c *Conn) newPump(nc net.Conn, session func(net.Conn) *tls.Conn) *pump.Pump {
	retry := c.retry
	return c.loop.g.pumps.New(nc, session, func() { c.loop.Post(retry) }, func() {
		if c.accepted {
			c.loop.g.leave(c)
		}
	})
}

// welcome performs the handshake of an accepted connection and brings it to its loop. Its
// goroutine then runs the pump.
func (c *Conn) welcome(p *pump.Pump, by time.Time) {
	g := c.loop.g
	if err := p.Handshake(by); err != nil {
		g.stats.HandshakeErrors.Add(1)
		p.AnswerPlain(err, g.cfg.Plain, lingerBytesMax, lingerIdleMax)
		p.End()
		return
	}
	if err := c.join(p); err != nil {
		g.stats.Refused.Add(1)
		p.End()
		return
	}
	p.Run()
}

// greet performs the handshake of a dialled connection and brings it to its loop.
func (c *Conn) greet(p *pump.Pump, addr string, by time.Time) error {
	err := p.Handshake(by)
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

// join brings the connection to its loop, with the pump between the loop and the peer.
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
	e.await() // after a failure the Conn closes its end
	p.Settle()
	return nil
}
