package port

import (
	"time"

	"weir/internal/net/loop"
	"weir/proxy/ask/check"
	"weir/proxy/wire/report"
)

// unsentMax is how much may be unsent for an asker while more of its frames are read.
const unsentMax = 512 << 10

// A http2Conn applies the effects of the sessions of a connection of HTTP/2. It implements loop.Handler.
//
// Owned by its loop.
type http2Conn struct {
	side     *side
	net      *loop.Conn
	conn     *check.HTTP2Conn
	deadline time.Time // as set
	counted  report.HTTP2ConnCounts
}

func (r *side) acceptHTTP2(now time.Time, lc *loop.Conn, access *AccessPolicy) *http2Conn {
	c := &http2Conn{side: r, net: lc,
		conn:    check.NewHTTP2Conn(now, &r.env, lc.Remote().Addr(), lc.Secure(), lc.Verified()),
		counted: report.HTTP2ConnCounts{Counts: &r.port.counts.http2}}
	c.conn.Owner, c.conn.Access = c, access
	lc.SetDuplex(true) // windows must be credited also while the asker does not read
	lc.SetBatch(loop.BatchTurn)
	if r.draining {
		c.conn.HandleDrain(now)
	}
	c.flush()
	return c
}

// Data implements loop.Handler.
func (c *http2Conn) Data(now time.Time, b []byte) (n int) {
	if c.net.Unsent() > unsentMax {
		return 0 // Writable continues
	}
	n = c.conn.HandleData(now, b)
	c.flush()
	if c.conn.Full() {
		c.net.Pump()
	}
	return n
}

// Writable continues to read.
func (c *http2Conn) Writable(time.Time) {
	c.flush()
	c.net.Pump()
}

// Expired implements loop.Handler.
func (c *http2Conn) Expired(now time.Time) {
	c.deadline = time.Time{}
	c.conn.HandleExpired(now)
	c.flush()
}

// Closed implements loop.Handler.
func (c *http2Conn) Closed(now time.Time, _ error) {
	c.conn.HandleClosed(now)
	if c.net.Stalled() {
		c.counted.CountAs(report.CloseStalled)
	}
	c.side.env.Reset()
}

func (c *http2Conn) answered(now time.Time, s *check.Session) {
	c.conn.HandleAnswered(now, s)
	c.flush()
}

func (c *http2Conn) drain(now time.Time) {
	c.conn.HandleDrain(now)
	c.flush()
}

// flush applies the effects.
func (c *http2Conn) flush() {
	e := &c.side.env
	c.counted.CountGlitches(c.conn.Glitches())
	if !c.net.Full() || c.conn.Ended() { // otherwise Writable is called
		c.conn.Control()
	}
	if len(e.Out) > 0 {
		c.net.Write(e.Out)
	}
	e.Reset()
	if c.conn.Ended() {
		c.counted.CountClosed(c.conn.Err(), c.conn.Announced())
		c.net.CloseLinger()
	} else if d := c.conn.Deadline(); d != c.deadline {
		c.deadline = d
		c.net.SetDeadline(d)
	}
}
