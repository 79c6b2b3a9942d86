package drive

import (
	"errors"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/net/loop"
	"weir/loadgen/record"
	"weir/loadgen/session"
)

// idleLong is how long a connection must have been idle for its close to count as the
// target's idle timeout. Then another is opened in its place, and a first request that
// crossed the close is sent again. Targets that close at once are not dialled endlessly,
// nor sent more requests than scheduled.
const idleLong = time.Second

// A conn connects a session to its connection. It is the loop's Handler.
//
// Owned by its loop.
type conn struct {
	sender  *sender
	conn    *loop.Conn
	session session.Session
	index   uint64    // the arrival whose request was sent last
	sent    uint8     // how often it was sent
	place   int       // in sender.idle, or -1
	used    bool      // a request was sent on it
	since   time.Time // when it was opened or became idle last
}

func (c *conn) send(now time.Time, a arrival, request []byte) {
	last := a.sent+1 >= sentMax || !c.used && now.Sub(c.since) < idleLong
	c.index, c.sent, c.used = a.index, a.sent+1, true
	c.session.HandleSent(now, a.due, last)
	c.conn.SetDeadline(c.session.Deadline())
	c.conn.Write(request)
}

func (c *conn) Data(now time.Time, b []byte) int {
	n, e := c.session.HandleData(now, b)
	c.sender.tally.Received += uint64(n)
	c.sender.apply(now, c, e)
	return n
}

func (c *conn) Expired(now time.Time) { c.sender.apply(now, c, c.session.HandleExpired(now)) }

// Closed implements loop.Handler. If the target closed in an orderly way it may have
// answered before; after a reset it has not.
func (c *conn) Closed(now time.Time, err error) {
	s := c.sender
	idle := c.place >= 0
	s.dropIdle(c)
	s.pool.Closed()
	if idle && now.Sub(c.since) >= idleLong {
		s.maybeReplace(now)
	}
	s.apply(now, c, c.session.HandleClosed(now, err == nil || errors.Is(err, io.EOF)))
}

// apply applies the effects of an event on c, then sends what is due.
func (s *sender) apply(now time.Time, c *conn, e session.Effects) {
	if s.over {
		return
	}
	switch {
	case e.Done:
		s.busy--
		s.outcome(c.session.Outcome())
	case e.Again && s.stopped:
		s.busy--
		s.tally.Abandoned++
	case e.Again: // on another connection
		s.busy--
		s.tally.Retried++
		s.again = append(s.again, arrival{c.session.Due(), c.index, c.sent})
	}
	switch {
	case e.Close:
		s.dropIdle(c)
		c.conn.Close()
	case e.Done:
		s.putIdle(now, c)
	}
	s.turn(now)
}

// maybeReplace opens a connection in place of one that the target closed when idle, so that the
// configured number is available to later requests.
func (s *sender) maybeReplace(now time.Time) {
	if _, more := s.lane.Due(); more && !s.over && s.pool.Replace(now) {
		s.dial(1)
	}
}

func (s *sender) putIdle(now time.Time, c *conn) {
	c.since = now
	c.place = len(s.idle)
	s.idle = append(s.idle, c)
}

func (s *sender) takeIdle() *conn {
	if len(s.idle) == 0 {
		return nil
	}
	c := s.idle[len(s.idle)-1]
	s.dropIdle(c)
	return c
}

func (s *sender) dropIdle(c *conn) {
	if c.place < 0 {
		return
	}
	last := s.idle[len(s.idle)-1]
	s.idle[c.place] = last
	last.place = c.place
	s.idle[len(s.idle)-1] = nil
	s.idle = s.idle[:len(s.idle)-1]
	c.place = -1
}

func (s *sender) dial(n int) {
	for range n {
		s.loop.Dial(s.run.addr, s.terms.Timeout, s.run.secure, s.dialled)
	}
}

// dialled handles the end of the dial of a connection to be kept.
func (s *sender) dialled(now time.Time, lc *loop.Conn, err error) loop.Handler {
	if s.over {
		return nil
	}
	if err != nil {
		s.dialFailed(now, err)
		s.maybeWarm()
		s.turn(now)
		return nil
	}
	c := s.opened(now, lc)
	s.putIdle(now, c)
	s.maybeReplace(now) // if many were closed at once, not all could be dialled at once
	s.maybeWarm()
	s.turn(now)
	return c
}

// dialledFor returns what handles the end of the dial, begun at start, of a connection for one
// request.
func (s *sender) dialledFor(start time.Time, a arrival) loop.DialFunc {
	return func(now time.Time, lc *loop.Conn, err error) loop.Handler {
		if s.over {
			return nil
		}
		if err != nil {
			s.busy--
			o := record.Outcome{Due: a.due, Start: start, Reason: reasonOf(err), Done: now}
			s.tally.Unconnect(&o, s.end)
			s.meter.finished(&o)
			s.dialFailed(now, err)
			s.turn(now)
			return nil
		}
		c := s.opened(now, lc)
		c.send(start, a, s.request(a))
		s.turn(now)
		return c
	}
}

func (s *sender) outcome(o *record.Outcome) {
	s.tally.Finish(o, s.end)
	s.meter.finished(o)
}

func (s *sender) opened(now time.Time, lc *loop.Conn) *conn {
	s.pool.Opened()
	s.tally.Opened++
	s.peak = max(s.peak, s.pool.Open())
	return &conn{sender: s, conn: lc, session: session.New(&s.terms), place: -1, since: now}
}

// dialFailed handles requests that wait for a connection after a failed dial. Where
// connections are kept, the one that has waited longest ends; if no connection is left to
// wait for, all of them end.
func (s *sender) dialFailed(now time.Time, err error) {
	s.pool.Failed(now)
	s.tally.DialsFailed++
	reason := reasonOf(err)
	if reason == record.ConnectFailed || reason == record.TLSFailed {
		s.run.fault.Store(err.Error())
	}
	if !s.started {
		return
	}
	n := min(s.waiting(now), 1)
	if s.pool.Lost() {
		n = s.waiting(now)
	} else if !s.terms.KeepAlive {
		n = 0
	}
	for ; n > 0; n-- {
		s.refuse(now, reason)
	}
}

func reasonOf(err error) record.Reason {
	if errors.Is(err, unix.ECONNREFUSED) {
		return record.ConnectRefused
	}
	// Also of ETIMEDOUT, os.ErrDeadlineExceeded and context.DeadlineExceeded.
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return record.ConnectTimeout
	}
	if _, ok := errors.AsType[*loop.HandshakeError](err); ok {
		return record.TLSFailed
	}
	return record.ConnectFailed
}
