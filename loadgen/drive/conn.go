package drive

import (
	"errors"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/net/loop"
	"weir/loadgen/plan"
	"weir/loadgen/record"
	"weir/loadgen/session"
)

// idleLong is how long a connection must have been idle for its close to count as the
// target's idle timeout. Then another is opened in its place, and a first request that
// crossed the close is sent again. Targets that close at once are not dialled endlessly,
// nor sent more requests than scheduled.
const idleLong = time.Second

// A senderConn is a connection of a sender.
//
// Owned by its loop.
type senderConn struct {
	sender   *sender
	conn     *loop.Conn
	place    int       // in sender.idle, or -1
	opened   time.Time // zero: it is not yet
	since    time.Time // when it was opened or became idle last
	crosses  bool      // it was idle for long when the request was sent, and nothing was received since
	closing  bool      // by closeLongIdle
	requests int       // that were sent on it
}

func (c *senderConn) base() *senderConn { return c }

// A carrier sends requests on its connection, while that is in sender.idle.
type carrier interface {
	base() *senderConn
	send(now time.Time, a arrival, request []byte)
}

// A conn connects a session to its connection. It is the loop's Handler.
//
// Owned by its loop.
type conn struct {
	senderConn
	session session.Session
	index   uint64 // the arrival whose request was sent last
	sent    uint8  // how often it was sent
}

func (c *conn) send(now time.Time, a arrival, request []byte) {
	c.sender.dropIdle(c)
	c.crosses = now.Sub(c.since) >= idleLong
	last := a.sent+1 >= sentMax || c.requests == 0 && now.Sub(c.since) < idleLong
	c.index, c.sent = a.index, a.sent+1
	c.requests++
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
	idle := c.place >= 0 || c.closing
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
	if e.Done || e.Again {
		s.ended(c.session.Outcome(), e.Again, c.index, c.sent)
	}
	switch {
	case e.Again && c.crosses:
		s.closeLongIdle(now)
	case e.Close:
		s.dropIdle(c)
		c.conn.Close()
	case e.Done:
		c.since = now
		s.putIdle(c)
	}
	s.turn(now)
}

// ended handles the end of a request that has been sent sent times. If again is true, it has no outcome and
// should be sent again.
func (s *sender) ended(o *record.Outcome, again bool, index uint64, sent uint8) {
	s.busy--
	switch {
	case !again:
		s.outcome(o)
	case s.stopped:
		s.tally.Abandoned++
	default: // on another connection, or another stream
		s.tally.Retried++
		s.again = append(s.again, arrival{o.Due, index, sent})
	}
}

// maybeReplace opens a connection in place of one that the target closed when idle, so that the
// configured number is available to later requests.
func (s *sender) maybeReplace(now time.Time) {
	if _, more := s.schedule.Due(); more && !s.over && s.pool.Replace(now) {
		s.dial(1)
	}
}

// closeLongIdle closes the connections that have been idle for long, after the target has closed one that was: it may
// be about to close all, and a request is not sent on one after the other.
func (s *sender) closeLongIdle(now time.Time) {
	for i := len(s.idle) - 1; i >= 0; i-- {
		c := s.idle[i]
		if h, ok := c.(*http2Conn); ok && h.session.InFlight() > 0 {
			continue
		}
		if now.Sub(c.base().since) >= idleLong {
			s.dropIdle(c)
			c.base().closing = true
			c.base().conn.Close()
		}
	}
}

// putIdle adds a carrier on which a request can be sent.
func (s *sender) putIdle(c carrier) {
	c.base().place = len(s.idle)
	s.idle = append(s.idle, c)
}

// nextIdle returns the carrier for the next request, or nil. Of connections of HTTP/1.1 it is the one used last,
// so that few are in use. Those of HTTP/2 are used in turn, so that all share the load.
func (s *sender) nextIdle() carrier {
	n := len(s.idle)
	switch {
	case n == 0:
		return nil
	case s.run.plan.Protocol == plan.HTTP1:
		return s.idle[n-1]
	}
	s.turns++
	return s.idle[s.turns%n]
}

func (s *sender) dropIdle(c carrier) {
	l := c.base()
	if l.place < 0 {
		return
	}
	last := s.idle[len(s.idle)-1]
	s.idle[l.place] = last
	last.base().place = l.place
	s.idle[len(s.idle)-1] = nil
	s.idle = s.idle[:len(s.idle)-1]
	l.place = -1
}

func (s *sender) dial(n int) {
	for range n {
		s.loop.Dial(s.run.addr, s.settings.Timeout, s.run.secure, s.dialled)
	}
}

// dialled handles the end of the dial of a connection to be kept.
func (s *sender) dialled(now time.Time, lc *loop.Conn, err error) loop.Handler {
	if s.over {
		return nil
	}
	if err != nil {
		s.notOpened(now, err)
		return nil
	}
	if s.run.plan.Protocol != plan.HTTP1 {
		return s.greet(now, lc)
	}
	c := s.opened(now, lc)
	s.putIdle(c)
	s.welcome(now)
	return c
}

// welcome goes on after a connection that is to be kept was opened.
func (s *sender) welcome(now time.Time) {
	s.maybeReplace(now) // if many were closed at once, not all could be dialled at once
	s.maybeWarm()
	s.turn(now)
}

// notOpened handles that a connection that was to be kept could not be opened.
func (s *sender) notOpened(now time.Time, err error) {
	s.dialFailed(now, err)
	s.maybeWarm()
	s.turn(now)
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
	if o.Reason == record.HeadTooLarge {
		s.tally.Unconnect(o, s.end)
	} else {
		s.tally.Finish(o, s.end)
	}
	s.meter.finished(o)
}

func (s *sender) opened(now time.Time, lc *loop.Conn) *conn {
	s.countOpened()
	return &conn{senderConn: senderConn{sender: s, conn: lc, place: -1, opened: now, since: now},
		session: session.New(&s.settings)}
}

func (s *sender) countOpened() {
	s.pool.Opened()
	s.tally.Opened++
	s.peak = max(s.peak, s.pool.Open())
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
	} else if !s.settings.KeepAlive {
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
