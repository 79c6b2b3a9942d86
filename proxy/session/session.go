package session

import (
	"net/netip"
	"time"

	"weir/internal/http1"
	"weir/proxy/limit"
)

// A state is where the exchange under way is; doc.go draws them.
type state uint8

const (
	stateReading   state = iota // a head, or nothing yet
	stateDeciding               // the limiter was asked
	stateBody                   // the request's body is collected
	stateAcquiring              // waits for a connection to a target
	stateAwaiting               // the request is sent, the answer comes
	stateOwnBody                // the body for an own endpoint is collected
	stateOwn                    // an own endpoint works
	stateClosing                // nothing more is read
)

// String names the state in failures of tests.
func (s state) String() string {
	return [...]string{"reading", "deciding", "body", "acquiring", "awaiting", "own body", "own", "closing"}[s]
}

// A Session is one client connection.
//
// Owned by its loop.
type Session struct {
	// Owner is whoever feeds the session; the session never looks at it.
	Owner any

	env    *Env
	remote netip.Addr
	state  state
	reader http1.Reader
	drain  bool
	fx     Effects

	began    time.Time // the first byte of the request was read
	deadline time.Time
	x        exchange
}

// An exchange is one request with its answer, while it lasts.
type exchange struct {
	outcome   Outcome
	minor     int  // the client's version
	keepAlive bool // the client connection outlives the exchange
	replay    bool // may be sent again: idempotent and without a body
	chunked   bool // the request's body is sent on in chunks
	expects   bool // the client waits for 100 before it sends the body
	collected int64
	limits    verdict

	request []byte // as sent to the target, or to an own endpoint
	reused  bool   // the target's connection has served before
	held    bool   // a target's connection is ours

	answer     http1.Reader
	begun      bool // a byte of the answer has come
	headDone   bool // its head has
	status     int
	rechunk    bool   // its body is sent in chunks of our own
	canReuse   bool   // the target's connection may serve again
	mustClose  bool   // an HTTP/1.0 client learns the body's end by the close
	collecting int64  // bytes of its body
	response   []byte // what of it has been collected in earlier calls
}

// verdict is what the answer says about the limit.
type verdict struct {
	known   bool
	policy  *Policy
	state   limit.Decision
	algo    limit.Algorithm
	closed  bool // refused because the store is away
	allowed bool
}

// Effects is what the owner has to do after a Handle call, in the order of the
// fields. The slices are borrowed until the next Handle call on any session of
// the same Env.
type Effects struct {
	// Client goes to the client.
	Client []byte
	// Upstream goes to the target's connection held.
	Upstream []byte
	// Release says what becomes of the target's connection held.
	Release Release
	// Acquire asks for a connection to a target: HandleAcquired or
	// HandleUnavailable follows.
	Acquire Acquire
	// Own is a request to an own endpoint: HandleOwn follows.
	Own []byte
	// Close ends the client's connection.
	Close Close
}

// A Release says what becomes of a target's connection.
type Release uint8

const (
	ReleaseNone    Release = iota
	ReleaseKeep            // back to the pool
	ReleaseDiscard         // it cannot be used again
)

// An Acquire says which connection to a target is wanted.
type Acquire uint8

const (
	AcquireNone   Acquire = iota
	AcquireAny            // an idle one, or a new one
	AcquireFresh          // a new one: an idle one has just failed
	AcquireOther          // one to another target: this one cannot be reached
	AcquireCancel         // none any more
)

// A Close says how the client's connection ends.
type Close uint8

const (
	CloseNone    Close = iota
	CloseDrained       // after the last byte
	CloseLinger        // likewise, and what the client still sends is discarded
)

// New returns the session of a new connection from remote.
func New(now time.Time, env *Env, remote netip.Addr) *Session {
	s := &Session{env: env, remote: remote, reader: http1.NewRequestReader(&env.Settings.Head)}
	s.deadline = now.Add(env.Settings.IdleTimeout)
	return s
}

// Effects returns what to do and forgets it.
func (s *Session) Effects() Effects {
	fx := s.fx
	if len(s.env.out) > 0 {
		fx.Client = s.env.out
		s.env.out = s.env.out[:0]
	}
	s.fx = Effects{}
	return fx
}

// Deadline is when HandleExpired is to be called; the zero time: never.
func (s *Session) Deadline() time.Time { return s.deadline }

// Idle reports whether the session is between exchanges.
func (s *Session) Idle() bool { return s.state == stateReading && s.began.IsZero() }

// HandleClient is told of unread bytes from the client and returns how many of
// them it is done with. When the session becomes Idle again the rest is to be
// shown once more.
func (s *Session) HandleClient(now time.Time, b []byte) int {
	s.begin()
	return s.read(now, b)
}

// begin begins a Handle call: what another session may have left behind in the
// loop's buffer, when it was cut short by a panic, is not this client's.
func (s *Session) begin() { s.env.out = s.env.out[:0] }

// read reads on in the request.
func (s *Session) read(now time.Time, b []byte) int {
	n := 0
	for s.readsClient() {
		if s.began.IsZero() && n < len(b) {
			s.began = now
			s.deadline = now.Add(s.env.Settings.HeadTimeout)
		}
		ev, err := s.reader.Next(b[n:], &s.env.head)
		if err != nil {
			s.malformed(now, err)
			return len(b)
		}
		n += ev.N
		switch ev.Kind {
		case http1.NeedMore:
			if s.reader.Idle() && s.state == stateReading {
				s.rest(now) // nothing but empty lines
			}
			return n
		case http1.HeadDone:
			n += s.handleHead(now, b[n:])
		case http1.Data:
			s.handleBody(now, ev.Data)
		case http1.End:
			s.handleBodyEnd(now)
		}
	}
	if s.state == stateClosing {
		return len(b)
	}
	return n
}

func (s *Session) readsClient() bool {
	return s.state == stateReading || s.state == stateBody || s.state == stateOwnBody
}

// rest puts the session between two exchanges.
func (s *Session) rest(now time.Time) {
	s.state = stateReading
	s.began = time.Time{}
	s.deadline = now.Add(s.env.Settings.IdleTimeout)
	if s.drain {
		s.deadline = now.Add(s.env.Settings.DrainGrace)
	}
}

// HandleExpired is told that the Deadline has passed.
func (s *Session) HandleExpired(now time.Time) {
	s.begin()
	switch s.state {
	case stateReading:
		if s.began.IsZero() {
			s.close(CloseDrained) // the last answer may still be on its way
			return
		}
		s.fail(now, 408, "the request head did not arrive in time")
	case stateBody, stateOwnBody:
		s.fail(now, 408, "the request body did not arrive in time")
	case stateAcquiring:
		s.fx.Acquire = AcquireCancel
		s.fault(now, FaultTimeout)
	case stateAwaiting:
		s.fault(now, FaultTimeout)
	}
}

// HandleClosed is told that the client is gone. What is under way for it is
// given up.
func (s *Session) HandleClosed(now time.Time) {
	switch s.state {
	case stateAcquiring:
		s.fx.Acquire = AcquireCancel
	case stateAwaiting:
		s.fx.Release = ReleaseDiscard
		s.x.held = false
	}
	if s.state > stateReading && s.state < stateClosing && s.x.outcome.Decision != Undecided {
		s.env.Report(now, &s.x.outcome)
	}
	s.state = stateClosing
	s.over()
}

// Drain has the session end: at once after a short grace when it is idle, so
// that a request on its way is still answered, else with the answer under way.
func (s *Session) Drain(now time.Time) {
	s.drain = true
	if !s.x.headDone { // else the answer has announced what it has announced
		s.x.keepAlive = false
	}
	if s.Idle() {
		s.deadline = now.Add(s.env.Settings.DrainGrace)
	}
}

// over gives the exchange's memory back.
func (s *Session) over() {
	s.env.give(s.x.request)
	s.env.give(s.x.response)
	s.x = exchange{}
}

// close ends the connection; nothing more is read.
func (s *Session) close(how Close) {
	s.state = stateClosing
	s.deadline = time.Time{}
	s.fx.Close = how
}
