// Package session is the client side of one connection of the load generator: its current exchange
// and the outcome of that. With HTTP/2 there are several at a time, see HTTP2.
//
// A Session is a state machine without sockets and clock. Its Handle methods report that a request
// was sent, that bytes arrived, that the deadline passed or that the connection was closed. They
// return whether the exchange has ended with an outcome, whether the request should be sent again
// on another connection, and whether the connection should be closed.
//
//	      HandleSent        first byte            last byte
//	idle ──────────▶ waiting ──────────▶ reading ──────────▶ idle, or over
//	                    │                   │
//	                    └── timeout, invalid, closed ───────▶ over
//
// There is one exchange at a time. Requests are not pipelined, because answers are sent in order,
// and a slow one would delay those of later requests.
//
// A Pool decides how many connections a loop has.
package session

import (
	"time"

	"weir/internal/net/http1"
	"weir/internal/net/http2"
	"weir/loadgen/record"
)

// LoopSettings are shared by all sessions of a loop.
//
// Owned by its loop: all sessions parse heads into Head.
type LoopSettings struct {
	Method    http1.Method
	KeepAlive bool          // the connection is reused after an answer
	Timeout   time.Duration // from sending to the last byte of the answer
	Head      http2.Head

	// With HTTP/2:
	Scheme  string      // of the requests
	Streams int         // in progress on a connection, at most
	GRPC    bool        // requests are unary calls of gRPC
	Ended   []*Exchange // since the last Recycle

	spare []*Exchange
}

// exchange returns a new Exchange.
func (s *LoopSettings) exchange() *Exchange {
	n := len(s.spare)
	if n == 0 {
		return &Exchange{}
	}
	x := s.spare[n-1]
	s.spare = s.spare[:n-1]
	*x = Exchange{kept: x.kept[:0]}
	return x
}

// sparesMax bounds the exchanges that are kept for use again, bodyBytesKept the memory of each for a body.
const (
	sparesMax     = 1024
	bodyBytesKept = 16 << 10
)

// Recycle empties Ended, whose exchanges must not be used any more.
func (s *LoopSettings) Recycle() {
	for i, x := range s.Ended {
		if cap(x.kept) > bodyBytesKept {
			x.kept = nil
		}
		if len(s.spare) < sparesMax {
			s.spare = append(s.spare, x)
		}
		s.Ended[i] = nil
	}
	s.Ended = s.Ended[:0]
}

// mayRepeat reports whether a request that was sent at start may not have been processed if the connection
// ends now.
func (s *LoopSettings) mayRepeat(now, start time.Time) bool {
	return s.Method.Idempotent() && now.Sub(start) < crossing
}

// A state is the state of a connection's exchange.
type state uint8

const (
	stateIdle    state = iota // a request may be sent
	stateWaiting              // a request was sent; no byte of the answer has arrived
	stateReading              // a part of the answer has arrived
	stateOver                 // the connection cannot be used again
)

func (s state) String() string {
	return [...]string{"idle", "waiting", "reading", "over"}[s]
}

// Effects are the effects of an event. The zero value has none.
type Effects struct {
	Done bool // the exchange has ended with Outcome
	// Again: the exchange has ended without an outcome, because the target closed the connection
	// before the request arrived. The request Due should be sent again on another connection.
	Again bool
	Close bool // the connection should be closed
}

// A Session is the state of one connection.
//
// Owned by its loop.
type Session struct {
	settings *LoopSettings
	reader   http1.Reader
	state    state
	last     bool // the request is not sent again
	keep     bool // the answer's head allows another exchange
	out      record.Outcome
}

// New returns the session of a new connection.
func New(t *LoopSettings) Session {
	s := Session{settings: t, reader: http1.NewResponseReader(nil)}
	s.reader.ResponseTo(t.Method)
	return s
}

// HandleSent handles the sending of the request due at due. last rules out Again: the request was
// repeated often enough, or the connection is new, so that it is not closed for idleness. The
// session must be idle.
func (s *Session) HandleSent(now, due time.Time, last bool) {
	if s.state != stateIdle {
		panic("bug: request sent on a connection that is " + s.state.String())
	}
	s.state = stateWaiting
	s.last = last
	s.out = record.Outcome{Due: due, Start: now}
}

// Busy reports whether an exchange is in progress.
func (s *Session) Busy() bool { return s.state == stateWaiting || s.state == stateReading }

// Due returns when the current or last exchange was due.
func (s *Session) Due() time.Time { return s.out.Due }

// Deadline returns when the current exchange times out.
func (s *Session) Deadline() time.Time { return s.out.Start.Add(s.settings.Timeout) }

// Outcome returns the outcome of the last exchange. It is valid until the next HandleSent.
func (s *Session) Outcome() *record.Outcome { return &s.out }

// HandleData processes b, the bytes received and not yet read, and returns how many it has read.
func (s *Session) HandleData(now time.Time, b []byte) (n int, e Effects) {
	if !s.Busy() {
		// A target may send a reason before it closes an idle connection (408). An unsolicited
		// answer makes the connection unusable.
		s.state = stateOver
		return len(b), Effects{Close: true}
	}
	if len(b) > 0 {
		s.state = stateReading
	}
	for {
		ev, err := s.reader.Next(b[n:], &s.settings.Head.Head)
		if err != nil {
			return len(b), s.fail(now, record.BadResponse)
		}
		n += int(ev.N)
		switch ev.Kind {
		case http1.NeedMore:
			return n, Effects{}
		case http1.HeadDone:
			s.keep = s.settings.Head.KeepAlive
			answeredBy(&s.out, &s.settings.Head.Head)
		case http1.Upgraded:
			return len(b), s.fail(now, record.BadResponse)
		case http1.End:
			return len(b), s.answered(now, n == len(b))
		}
	}
}

// answeredBy records the head of an answer.
func answeredBy(o *record.Outcome, h *http1.Head) {
	o.Status = h.Status
	o.Gate = o.Status == 503 && byGate(h)
}

// byGate reports whether a gate of Weir gave the answer. Its body says so too, unless a template
// replaces it.
func byGate(h *http1.Head) bool {
	reason, _ := h.Field(gateField)
	return string(reason) == "gate"
}

// gateField is the field of a 503 that names its reason.
const gateField = "X-Weir-Reason"

// HandleExpired handles a passed deadline, which may be that of an earlier exchange.
func (s *Session) HandleExpired(now time.Time) Effects {
	if !s.Busy() || now.Before(s.Deadline()) {
		return Effects{}
	}
	return s.fail(now, record.Timeout)
}

// crossing bounds the time from sending a request to the end of the connection in which the target
// may have closed it before the request arrived: a few round trips.
const crossing = 100 * time.Millisecond

// HandleClosed handles the end of the connection: orderly if either side closed it, otherwise
// broken.
func (s *Session) HandleClosed(now time.Time, orderly bool) Effects {
	if !s.Busy() {
		s.state = stateOver
		return Effects{}
	}
	if s.state == stateWaiting && !s.last && s.settings.mayRepeat(now, s.out.Start) {
		// The target closed an idle connection before the request arrived (RFC 9112 sections
		// 9.3.1 and 9.5): it may be sent again. If the target closes later, the request has
		// failed.
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

// answered ends the exchange with the answer's status; exact says that no bytes follow the answer.
func (s *Session) answered(now time.Time, exact bool) Effects {
	s.out.Done = now
	if s.keep && exact && s.settings.KeepAlive {
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
