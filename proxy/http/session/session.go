package session

import (
	"math"
	"net/netip"
	"time"

	"weir/internal/net/http1"
	"weir/proxy/http/exchange"
)

// Settings are the settings of all sessions.
//
// Immutable after New.
type Settings struct {
	exchange.Settings

	Head          http1.Limits  // of requests
	HeadTimeout   time.Duration // for a whole head
	IdleTimeout   time.Duration // between exchanges
	TunnelTimeout time.Duration // for the next byte in either direction of a tunnel
	DrainGrace    time.Duration // how long idle connections live when draining
	RequestsMax   int           // requests of one connection; 0: no limit
	AgeMax        time.Duration // of a connection, reduced by up to an eighth; 0: no limit
}

// StoredHeadLimits returns the limits for reading the head of a stored request again: practically none. Its
// size was checked when it was received, perhaps by another proxy with other limits, and it has got
// fields since then. The bound on the options of Connection still applies; the exchange that stores
// a request respects it.
func StoredHeadLimits() http1.Limits {
	return http1.Limits{HeadBytes: math.MaxInt32, Fields: math.MaxUint16}
}

// An Env is what the sessions of one loop share.
//
// Owned by its loop.
type Env struct {
	exchange.Env // New sets its Settings to those in Settings
	Settings     *Settings

	head   http1.Head
	parts  uint64 // number of calls of Part
	client []byte // what is sent to the client, until the next Handle call
}

// A state says what the bytes of a client's connection belong to.
type state uint8

const (
	stateExchanges state = iota // requests, one at a time
	stateTunnel                 // another protocol
	stateClosing                // nothing: they are not read
)

// String names the state.
func (s state) String() string { return [...]string{"exchanges", "tunnel", "closing"}[s] }

// A Session is one client connection.
//
// Owned by its loop.
type Session struct {
	// Exchange is the current exchange, or the next. The owner calls its methods, except those that the
	// session has too, and then MoveEffects.
	Exchange exchange.Exchange

	env    *Env
	state  state
	reader http1.Reader
	minor  int    // minor version of the current request
	coding coding // of the body of its response
	last   bool   // no request follows the current one
	paused bool   // it is not decided yet whether the rest of the request is read
	drain  bool
	spent  bool // the connection has reached RequestsMax or AgeMax
	left   bool // there are unread bytes to read later
	unread int  // bytes that the last HandleClient has not consumed

	// Effects of the session itself, in other states than stateExchanges.
	endUpstream, endClient bool
	closing                Close
	down, up               []byte // of a tunnel; borrowed

	began    time.Time // when the first byte of the request was read
	deadline time.Time // between exchanges
	idleBy   time.Time // when an idle connection is closed
	endBy    time.Time // the first request from then on is the last; zero: never
	requests int       // so far

	clientEnded bool // the client has half closed
	targetEnded bool // likewise the target of a tunnel
}

// New returns the session of a new connection from remote; secure says that it uses TLS.
func New(now time.Time, env *Env, remote netip.Addr, secure bool) *Session {
	env.Env.Settings = &env.Settings.Settings
	s := &Session{Exchange: exchange.New(&env.Env, remote, secure), env: env,
		reader: http1.NewRequestReader(&env.Settings.Head)}
	s.deadline = now.Add(env.Settings.IdleTimeout)
	s.idleBy = s.deadline
	s.endBy = env.EndOf(now)
	return s
}

// Deadline returns when HandleExpired must be called; zero means never.
func (s *Session) Deadline() time.Time {
	if s.state == stateExchanges && !s.Exchange.Idle() {
		return s.Exchange.Deadline()
	}
	return s.deadline
}

// idle reports whether the session is between exchanges.
func (s *Session) idle() bool {
	return s.state == stateExchanges && s.Exchange.Idle() && s.began.IsZero()
}

// HandleClient handles unread bytes from the client and returns how many it has consumed. It
// stops at the end of an exchange; Effects.Read says when to pass the rest again.
func (s *Session) HandleClient(now time.Time, b []byte) (n int) {
	s.env.Begin()
	if s.state == stateTunnel {
		n = s.tunnelUp(now, b)
	} else {
		n = s.read(now, b)
	}
	ended := s.Exchange.Ended()
	if ended {
		s.settle()
	}
	if s.state == stateClosing {
		n = len(b)
	}
	s.unread = len(b) - n
	s.left = s.unread > 0 && (ended || !s.reads())
	return n
}

// read continues to read the request.
func (s *Session) read(now time.Time, b []byte) int {
	n := 0
	if s.Exchange.Refused() {
		n = s.skipRefused(now, b)
	}
	for s.reads() {
		if s.reader.End() {
			s.Exchange.HandleBodyEnd(now)
			continue
		}
		if s.began.IsZero() && n < len(b) {
			s.began = now
		}
		ev, err := s.reader.Next(b[n:], &s.env.head)
		if err != nil {
			s.Exchange.HandleBadRequest(now, s.began, err)
			return n
		}
		n += int(ev.N)
		switch ev.Kind {
		case http1.NeedMore:
			switch {
			case !s.Exchange.Idle():
			case s.reader.Idle():
				s.began, s.deadline = time.Time{}, s.idleBy // only empty lines
			default:
				s.deadline = s.began.Add(s.env.Settings.HeadTimeout)
			}
			return n
		case http1.HeadDone:
			s.begin(now, &s.env.head)
			if s.Exchange.Refused() {
				n += s.skipRefused(now, b[n:])
			}
		case http1.Data:
			s.Exchange.HandleBody(now, ev.Data)
		case http1.End:
			if ev.Trailer {
				s.Exchange.HandleTrailers(ev.Data)
			}
			s.Exchange.HandleBodyEnd(now)
		}
	}
	return n
}

// begin begins the exchange of a request.
func (s *Session) begin(now time.Time, h *http1.Head) {
	s.spend(now)
	s.minor, s.last, s.coding = h.Minor, !h.KeepAlive || s.spent || s.drain, codingPlain
	s.Exchange.HandleHead(now, h, s.began)
	s.paused = !s.reads()
}

// readOn continues with a request after a pause: it may be complete, or refused. The body of a refused
// one may be among the bytes that the client has sent meanwhile: then they are read first.
func (s *Session) readOn(now time.Time) {
	switch {
	case s.state != stateExchanges:
	case s.Exchange.Refused() && s.unread > 0:
		s.left = true
	case s.Exchange.Refused() || s.Exchange.Reads():
		s.paused = false
		s.read(now, nil)
	}
}

// reads reports whether the session reads bytes from the client now.
func (s *Session) reads() bool {
	if s.state == stateExchanges {
		return s.Exchange.Reads() || !s.Exchange.Ended() && (s.Exchange.Refused() || s.Exchange.Idle())
	}
	_, targetFull := s.Exchange.Full()
	return s.state == stateTunnel && !targetFull && !s.clientEnded
}

// skipRefused answers a refused request. If b, the bytes received, contains its whole body,
// the connection continues after it; otherwise it closes with the body unread. It returns
// the number of bytes of the body.
func (s *Session) skipRefused(now time.Time, b []byte) (n int) {
	whole := false
	for !whole {
		ev, err := s.reader.Next(b[n:], &s.env.head)
		if err != nil {
			break
		}
		n += int(ev.N)
		if ev.Kind == http1.NeedMore {
			break
		}
		whole = ev.Kind == http1.End
	}
	s.Exchange.HandleUnread(now, whole)
	return n
}

// HandleExpired is called when the Deadline has passed.
func (s *Session) HandleExpired(now time.Time) {
	s.env.Begin()
	switch {
	case s.state == stateTunnel:
		s.env.Begin()
		s.endTunnel(exchange.ReleaseDrained, CloseDrained)
	case s.state == stateClosing:
	case s.idle():
		s.close(CloseDrained) // the last answer may not be sent completely
	case s.Exchange.Idle():
		s.env.Begin()
		s.Exchange.HandleBadRequest(now, s.began, errHeadLate)
	default:
		s.Exchange.HandleExpired(now)
	}
}

// errHeadLate is the error of a request whose head takes too long.
var errHeadLate = &http1.Error{Status: 408, Reason: "the request head did not arrive in time"}

// Began returns when the first byte of the current request was read or, between requests, when
// the last answer was written.
func (s *Session) Began() time.Time {
	if s.began.IsZero() {
		return s.idleBy.Add(-s.env.Settings.IdleTimeout)
	}
	return s.began
}

// HandleShortage ends the session because the proxy is short of memory, if it has not ended. The
// client has read all earlier answers. A request whose answer has not begun is answered; what
// cannot be answered is reset.
func (s *Session) HandleShortage(now time.Time) {
	s.env.Begin()
	switch {
	case s.state == stateClosing:
	case s.idle():
		s.close(CloseDrained)
	case s.state == stateExchanges && s.Exchange.Idle():
		s.Exchange.HandleBadRequest(now, s.began, errShortage)
	case s.state == stateTunnel || !s.Exchange.HandleShortage(now):
		s.HandleClosed(now)
		s.closing = CloseAbort
	}
}

// errShortage is the error of a request whose head is not complete when memory is short.
var errShortage = &http1.Error{Status: 408, Reason: exchange.ShortOfMemory + ", and the request head had not arrived"}

// HandleClosed handles the disconnect of the client.
func (s *Session) HandleClosed(time.Time) {
	if s.state == stateTunnel && s.clientEnded {
		s.env.Begin()
		s.Exchange.EndTunnel(exchange.ReleaseDrained) // what it sent before its end is still forwarded
	} else {
		s.Exchange.HandleClientClosed()
	}
	s.state = stateClosing
	s.deadline = time.Time{}
}

// HandleDrain ends the session: if it is idle after DrainGrace, so that a request already on
// its way is still answered, otherwise with the current answer.
func (s *Session) HandleDrain(now time.Time) {
	s.drain = true
	if s.idle() {
		s.deadline = now.Add(s.env.Settings.DrainGrace)
		s.idleBy = s.deadline
	}
}

// settle handles the end of an exchange. If the connection closes after a complete response, bytes that
// the client has sent meanwhile must not cause a reset, which may destroy the response (RFC 9112 section
// 9.6). A body that ends with the close is cut by a reset, which is all that shows it.
func (s *Session) settle() {
	if r := s.Exchange.Response(); r != nil {
		s.frame(r)
	}
	switch how, now := s.Exchange.End(); {
	case how == exchange.EndTunnel:
		s.beginTunnel(now)
	case how == exchange.EndAnswered && !s.last && !s.clientEnded:
		s.await(now)
	case how == exchange.EndAnswered:
		s.close(CloseLinger)
	case s.coding == codingClose:
		s.close(CloseAbort)
	default:
		s.close(CloseDrained)
	}
}

// await waits for the next request.
func (s *Session) await(now time.Time) {
	s.began = time.Time{}
	s.deadline = now.Add(s.env.Settings.IdleTimeout)
	if s.drain {
		s.deadline = now.Add(s.env.Settings.DrainGrace)
	}
	s.idleBy = s.deadline
}

// close closes the connection; nothing more is read.
func (s *Session) close(how Close) {
	s.state = stateClosing
	s.deadline = time.Time{}
	s.closing = how
}

// A connection ends after a number of requests or at an age, so that clients are distributed
// over proxies that were started later, and resources of a connection are freed. It ends
// between two exchanges: the answer to the last request announces the close.

// ageSpread is the largest part by which a connection's maximum age is reduced, so that
// clients that connected at the same time do not reconnect at the same time.
const ageSpread = 1.0 / 8

// spend counts a request, and determines whether it is the last of its connection.
func (s *Session) spend(now time.Time) {
	s.requests++
	most := s.env.Settings.RequestsMax
	s.spent = most > 0 && s.requests >= most || !s.endBy.IsZero() && !now.Before(s.endBy)
}

// EndOf returns when a connection accepted now reaches its maximum age; zero means never. The
// reductions of successive connections are spread evenly.
func (e *Env) EndOf(now time.Time) time.Time {
	age := e.Settings.AgeMax
	if age <= 0 {
		return time.Time{}
	}
	return now.Add(age - e.Part(time.Duration(ageSpread*float64(age))))
}

// Part returns a part of d for one of many connections. Those of successive calls are spread evenly, like the
// fractional parts of the multiples of an irrational number (Weyl, 1916).
func (e *Env) Part(d time.Duration) time.Duration {
	e.parts++
	_, part := math.Modf(float64(e.parts) * math.Phi)
	return time.Duration(part * float64(d))
}
