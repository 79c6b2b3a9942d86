package drive

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"weir/internal/net/loop"
	"weir/loadgen/plan"
	"weir/loadgen/session"
)

// An http2Conn connects the session of a connection of HTTP/2 to its connection. It is the loop's Handler. The
// connection is open when the target has sent its settings.
//
// The frames of all requests that are sent in one turn of the loop are written together, at its end.
//
// Owned by its loop.
type http2Conn struct {
	senderConn
	session *session.HTTP2
	fault   error // why it was given up before
	armed   bool  // a deadline is set
	queued  bool  // in sender.unsent
	leaving bool  // gets no more requests, and has given up its place in the pool
}

var (
	errNoHTTP2 = errors.New("the target does not speak HTTP/2")
	errEnded   = errors.New("the connection ended with the target's first frames")
	errNoALPN  = errors.New("the target does not offer HTTP/2 over TLS (ALPN h2)")
)

// greet starts HTTP/2 on a new connection. It is open when the target has sent its settings: until then it is not
// known whether the target speaks HTTP/2, and how many streams it allows.
func (s *sender) greet(now time.Time, lc *loop.Conn) loop.Handler {
	if s.run.plan.Protocol == plan.H2 && lc.Protocol() != "h2" {
		s.notOpened(now, errNoALPN)
		return nil
	}
	c := &http2Conn{senderConn: senderConn{sender: s, conn: lc, place: -1}, session: session.NewHTTP2(now, &s.settings)}
	lc.SetDeadline(now.Add(s.settings.Timeout))
	c.write()
	return c
}

func (c *http2Conn) send(now time.Time, a arrival, request []byte) {
	if c.session.InFlight() == 0 {
		c.crosses = now.Sub(c.since) >= idleLong
	}
	c.requests++
	x := c.session.HandleSent(now, a.due, request, a.sent+1 >= sentMax, c.crosses)
	x.Index, x.Sent = a.index, a.sent+1
	c.update(now)
	c.queue()
}

// queue has the frames of the session written at the end of the turn.
func (c *http2Conn) queue() {
	if !c.queued {
		c.queued = true
		c.sender.unsent = append(c.sender.unsent, c)
	}
}

// flush writes what was sent in this turn.
func (s *sender) flush() {
	for i, c := range s.unsent {
		c.queued = false
		c.write()
		s.unsent[i] = nil
	}
	s.unsent = s.unsent[:0]
}

func (c *http2Conn) write() {
	if !c.conn.Full() || c.session.Over() { // otherwise Writable is called
		c.session.AppendControl()
	}
	if len(c.session.Out) > 0 {
		c.conn.Write(c.session.Out)
		c.session.Out = c.session.Out[:0]
	}
}

// Writable implements loop.WriteHandler.
func (c *http2Conn) Writable(time.Time) { c.write() }

func (c *http2Conn) Data(now time.Time, b []byte) int {
	n := c.session.HandleData(now, b)
	c.sender.tally.Received += uint64(n)
	c.crosses = false
	c.apply(now)
	return n
}

func (c *http2Conn) Expired(now time.Time) {
	c.armed = false
	if c.opened.IsZero() {
		c.fault = os.ErrDeadlineExceeded
		c.conn.Close()
		return
	}
	c.session.HandleExpired(now)
	c.apply(now)
}

// Closed implements loop.Handler.
func (c *http2Conn) Closed(now time.Time, err error) {
	s := c.sender
	if s.over {
		return
	}
	if c.opened.IsZero() {
		s.notOpened(now, fmt.Errorf("start HTTP/2: %w", cmp.Or(c.fault, err, errNoHTTP2)))
		return
	}
	idle := c.session.InFlight() == 0
	s.dropIdle(c)
	if c.leaving {
		s.pool.Left()
	} else {
		s.pool.Closed()
		c.leaving = true
	}
	if idle && now.Sub(c.since) >= idleLong {
		s.maybeReplace(now)
	}
	if c.crosses && err != nil { // otherwise we have closed it
		s.closeLongIdle(now)
	}
	c.session.HandleClosed(now, err == nil || errors.Is(err, io.EOF))
	c.apply(now)
}

// apply applies the effects of an event, then sends what is due.
func (c *http2Conn) apply(now time.Time) {
	s := c.sender
	if s.over {
		return
	}
	switch {
	case !c.opened.IsZero():
		c.update(now)
	case c.session.Over() && c.session.Ready():
		c.fault = errEnded
	case c.session.Over():
		c.fault = errNoHTTP2
	case c.session.Ready():
		c.opened, c.since = now, now
		c.conn.SetDeadline(time.Time{})
		s.countOpened()
		c.update(now)
		s.welcome(now)
	}
	if c.session.Over() {
		c.write()
		c.conn.Close()
	}
	c.queue()
	s.turn(now)
}

// update handles the exchanges that have ended, and whether another can be sent.
func (c *http2Conn) update(now time.Time) {
	s := c.sender
	for _, x := range s.settings.Ended {
		s.ended(&x.Outcome, x.Again, x.Index, x.Sent)
	}
	if len(s.settings.Ended) > 0 && c.session.InFlight() == 0 {
		c.since = now
	}
	s.settings.Recycle()
	if c.session.Spent() && !c.leaving {
		c.leaving = s.pool.Leaving()
	}
	switch free := c.session.Free(); {
	case free && c.place < 0:
		s.putIdle(c)
	case !free:
		s.dropIdle(c)
	}
	if d := c.session.Deadline(); !c.armed && !d.IsZero() {
		c.armed = true // if it passes too early, the next one is set then
		c.conn.SetDeadline(d)
	}
}
