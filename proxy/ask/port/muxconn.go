package port

import (
	"time"

	"weir/internal/net/loop"
	"weir/proxy/ask/check"
	"weir/proxy/wire/report"
)

// unsentMax is how much may be unsent for an asker while more of its frames are read.
const unsentMax = 512 << 10

// A muxConn applies the effects of the sessions of a connection of HTTP/2. It implements loop.Handler.
//
// Owned by its loop.
type muxConn struct {
	side     *side
	net      *loop.Conn
	mux      *check.Mux
	deadline time.Time // as set
	counted  report.HTTP2Conn
}

func (r *side) acceptHTTP2(now time.Time, lc *loop.Conn, access *Access) *muxConn {
	c := &muxConn{side: r, net: lc, mux: check.NewMux(now, &r.env, lc.Remote().Addr(), lc.Secure(), lc.Verified()),
		counted: report.HTTP2Conn{Counts: &r.port.counts.http2}}
	c.mux.Owner, c.mux.Access = c, access
	lc.SetDuplex(true) // windows must be credited also while the asker does not read
	lc.SetBatch(loop.BatchTurn)
	if r.draining {
		c.mux.HandleDrain(now)
	}
	c.flush()
	return c
}

// Data implements loop.Handler.
func (c *muxConn) Data(now time.Time, b []byte) (n int) {
	if c.net.Unsent() > unsentMax {
		return 0 // Writable continues
	}
	n = c.mux.HandleData(now, b)
	c.flush()
	if c.mux.Full() {
		c.net.Pump()
	}
	return n
}

// Writable continues to read.
func (c *muxConn) Writable(time.Time) {
	c.flush()
	c.net.Pump()
}

// Expired implements loop.Handler.
func (c *muxConn) Expired(now time.Time) {
	c.deadline = time.Time{}
	c.mux.HandleExpired(now)
	c.flush()
}

// Closed implements loop.Handler.
func (c *muxConn) Closed(now time.Time, _ error) {
	c.mux.HandleClosed(now)
	if c.net.Stalled() {
		c.counted.CountAs(report.CloseStall)
	}
	c.side.env.Reset()
}

func (c *muxConn) answered(now time.Time, s *check.Session) {
	c.mux.HandleAnswered(now, s)
	c.flush()
}

func (c *muxConn) drain(now time.Time) {
	c.mux.HandleDrain(now)
	c.flush()
}

// flush applies the effects.
func (c *muxConn) flush() {
	e := &c.side.env
	c.counted.CountGlitches(c.mux.Glitches())
	if !c.net.Full() || c.mux.Ended() { // otherwise Writable is called
		c.mux.Control()
	}
	if len(e.Out) > 0 {
		c.net.Write(e.Out)
	}
	e.Reset()
	if c.mux.Ended() {
		c.counted.CountClosed(c.mux.Err(), c.mux.Announced())
		c.net.CloseLinger()
	} else if d := c.mux.Deadline(); d != c.deadline {
		c.deadline = d
		c.net.SetDeadline(d)
	}
}
