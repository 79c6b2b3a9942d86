// Package session is the client's side of one connection of the load
// generator: which exchange is under way on it, and how that one ended.
//
// A Session is a machine without sockets and clock. It is told that a request
// was sent, that bytes came, that the deadline passed, that the connection is
// gone; and answers with what follows from it: the exchange is over with an
// outcome, the request should be sent again elsewhere, the connection should
// be closed.
//
//	      HandleSent        first byte            last byte
//	idle ──────────▶ waiting ──────────▶ reading ──────────▶ idle, or over
//	                    │                   │
//	                    └─── too late, garbage, closed ────▶ over
//
// There is one exchange at a time. Requests are not pipelined: the answers
// would come in turn, and one that is slow would be counted against all behind
// it.
//
// A Pool decides how many connections a loop has.
package session

import (
	"time"

	"weir/internal/http1"
	"weir/loadgen/record"
)

// Terms are what all sessions of a loop have in common.
//
// Owned by its loop: the Head is scratch space for all sessions' readers.
type Terms struct {
	Method    http1.Method
	KeepAlive bool          // the connection is used again after an answer
	Timeout   time.Duration // from sending to the last byte of the answer
	Head      http1.Head
}

// A state is where the exchange of a connection stands.
type state uint8

const (
	stateIdle    state = iota // nothing is asked; a request may be sent
	stateWaiting              // a request was sent, no byte of the answer has come
	stateReading              // a part of the answer has come
	stateOver                 // the connection is of no more use
)

func (s state) String() string {
	return [...]string{"idle", "waiting", "reading", "over"}[s]
}

// Effects are what follows from an event. The zero value: nothing.
type Effects struct {
	// Done: the exchange is over; Outcome says how it ended.
	Done bool
	// Again: the exchange is over without an outcome. The connection had been
	// closed by the target before the request came, so that it is as if it
	// had never been sent; the request Due should be sent again elsewhere.
	Again bool
	// Close: the connection should be closed.
	Close bool
}

// A Session is the state of one connection.
//
// Owned by its loop.
type Session struct {
	terms  *Terms
	reader http1.Reader
	state  state
	last   bool // the request is not sent again
	keep   bool // the answer's head allows another exchange
	out    record.Outcome
}

// New returns the session of a fresh connection.
func New(t *Terms) Session {
	s := Session{terms: t, reader: http1.NewResponseReader(nil)}
	s.reader.ResponseTo(t.Method)
	return s
}

// HandleSent handles the sending of the request due at due; last says that it is
// not to come back with Again: it has often enough, or the connection was just
// opened, so that its end has another cause than idleness. The session must be
// idle.
func (s *Session) HandleSent(now, due time.Time, last bool) {
	if s.state != stateIdle {
		panic("bug: request sent on a connection that is " + s.state.String())
	}
	s.state = stateWaiting
	s.last = last
	s.out = record.Outcome{Due: due, Start: now}
}

// Busy says whether an exchange is under way.
func (s *Session) Busy() bool { return s.state == stateWaiting || s.state == stateReading }

// Due is when the exchange under way, or the last one, was due.
func (s *Session) Due() time.Time { return s.out.Due }

// Deadline is when the exchange under way is given up.
func (s *Session) Deadline() time.Time { return s.out.Start.Add(s.terms.Timeout) }

// Outcome is how the last exchange ended. It is borrowed until the next HandleSent.
func (s *Session) Outcome() *record.Outcome { return &s.out }

// HandleData reads the bytes received, beginning with those not consumed
// before, and returns how many it is done with.
func (s *Session) HandleData(now time.Time, b []byte) (n int, e Effects) {
	if !s.Busy() {
		// A target may say why it closes an idle connection (408). Nobody
		// asked; the connection cannot be trusted any more.
		s.state = stateOver
		return len(b), Effects{Close: true}
	}
	if len(b) > 0 {
		s.state = stateReading
	}
	for {
		ev, err := s.reader.Next(b[n:], &s.terms.Head)
		if err != nil {
			return len(b), s.fail(now, record.BadResponse)
		}
		n += ev.N
		switch ev.Kind {
		case http1.NeedMore:
			return n, Effects{}
		case http1.HeadDone:
			s.out.Status, s.keep = s.terms.Head.Status, s.terms.Head.KeepAlive
		case http1.Upgraded:
			return len(b), s.fail(now, record.BadResponse)
		case http1.End:
			return len(b), s.answered(now, n == len(b))
		}
	}
}

// HandleExpired handles a deadline of the connection that has passed. It
// may be that of an earlier exchange.
func (s *Session) HandleExpired(now time.Time) Effects {
	if !s.Busy() || now.Before(s.Deadline()) {
		return Effects{}
	}
	return s.fail(now, record.Timeout)
}

// crossing is how soon after a request was sent its connection must end so that
// the two can have crossed on their way: a few round trips.
const crossing = 100 * time.Millisecond

// HandleClosed handles the end of the connection: orderly when the peer
// closed it or this side did, otherwise broken.
func (s *Session) HandleClosed(now time.Time, orderly bool) Effects {
	if !s.Busy() {
		s.state = stateOver
		return Effects{}
	}
	if s.state == stateWaiting && !s.last && s.terms.Method.Idempotent() && now.Sub(s.out.Start) < crossing {
		// The target closed an idle connection while the request was on its
		// way (RFC 9112 9.3.1 and 9.5): it may be sent again. A target that
		// takes the request and closes later has failed it.
		s.state = stateOver
		return Effects{Again: true}
	}
	if !orderly {
		return s.fail(now, record.Reset)
	}
	if ev, err := s.reader.EOF(); err == nil && ev.Kind == http1.End {
		return s.answered(now, false)
	}
	return s.fail(now, record.Closed)
}

// answered ends the exchange with the answer's status. exact says that no byte
// followed the answer.
func (s *Session) answered(now time.Time, exact bool) Effects {
	s.out.Done = now
	if s.keep && exact && s.terms.KeepAlive {
		s.state = stateIdle
		return Effects{Done: true}
	}
	s.state = stateOver
	return Effects{Done: true, Close: true}
}

// fail ends the exchange without a complete answer.
func (s *Session) fail(now time.Time, r record.Reason) Effects {
	s.out.Status, s.out.Reason, s.out.Done = 0, r, now
	s.state = stateOver
	return Effects{Done: true, Close: true}
}
