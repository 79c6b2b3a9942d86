package session

import (
	"net/netip"
	"time"

	"weir/internal/http1"
	"weir/proxy/limit"
	"weir/proxy/rule"
	"weir/proxy/store"
)

// A state is where the exchange under way is; doc.go draws them.
type state uint8

const (
	stateReading   state = iota // a head, or nothing yet
	stateDeciding               // the limiter was asked
	stateQueued                 // it may pass, when its slot has come
	stateBody                   // the request's body is collected
	stateAcquiring              // waits for a connection to a target
	stateAwaiting               // the request is sent or streams, the answer comes
	stateTunnel                 // the bytes are another protocol's
	stateOwnBody                // the body for an own endpoint is collected
	stateOwn                    // an own endpoint works
	stateClosing                // nothing more is read
)

// String names the state in failures of tests.
func (s state) String() string {
	return [...]string{"reading", "deciding", "queued", "body", "acquiring", "awaiting", "tunnel", "own body", "own", "closing"}[s]
}

// A Session is one client connection.
//
// Owned by its loop.
type Session struct {
	// Owner is whoever feeds the session; the session never looks at it.
	Owner any

	env    *Env
	remote netip.Addr
	secure bool // the client came by TLS
	state  state
	reader http1.Reader
	drain  bool
	// private: the target's connection that an exchange uses stays this
	// client's, see noticeLogin.
	private bool
	// The client, or the target, takes nothing for the moment.
	clientFull, targetFull bool
	fx                     Effects

	gone     []Counted // asked for a client that left before the answer came
	began    time.Time // the first byte of the request was read
	deadline time.Time
	idleBy   time.Time // when a client that asks nothing is closed
	endBy    time.Time // the first request from then on is the last; zero: never
	requests int       // so far
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
	framing   int64 // bytes of chunk lines behind it: tiny chunks take more room than what they hold
	limits    verdict
	asked     []Counted                       // of an answer that comes later, or of a wait
	keys      []byte                          // their memory
	preflight bool                            // a preflight that is counted apart
	origin    []byte                          // of the page that makes the request; nil: none, or refusals do not tell
	mode      store.Mode                      // of the answer, while waiting
	theirs    struct{ legacy, standard bool } // the target's own limits are tighter
	upgrade   string                          // the protocols asked for

	large     bool      // the body is announced to be larger than what is collected
	streaming bool      // the request is sent before its body is complete
	uploading bool      // and the rest of the body is on its way
	bodyBy    time.Time // when the next piece of the body is due
	rateBy    time.Time // when rateBytes must have become enough
	rateBytes int64

	request  []byte // as sent to the target, or to an own endpoint
	hostAt   int    // where the target's Host goes into it; 0: it has one
	reused   bool   // the target's connection has served before
	held     bool   // a target's connection is ours
	failed   Fault  // why the target tried before could not be reached
	replayed bool   // the request was sent once more
	answerBy time.Time
	// retryAfter is when a 503 may be tried again; zero: soon.
	retryAfter time.Duration

	answer    http1.Reader
	begun     bool // a byte of the answer has come
	headDone  bool // its head has
	status    int
	unbounded bool   // its length is not known, or beyond what is collected
	relaying  bool   // it is passed on as it comes: its head is gone
	rechunk   bool   // its body is sent in chunks of our own
	canReuse  bool   // the target's connection may serve again
	mustClose bool   // an HTTP/1.0 client learns the body's end by the close
	response  []byte // what of it has been collected in earlier calls

	clientEnded bool // sends no more
	targetEnded bool // of a tunnel: likewise
}

// verdict is what the answer says about the limit.
type verdict struct {
	policy  *Policy
	by      *Counted // the tightest, while it is decided
	rule    *rule.Rule
	limit   *limit.Limit
	state   limit.Decision
	known   bool
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
	// EndUpstream and EndClient pass on that a tunnel's other side sends no
	// more: a half close behind the last byte.
	EndUpstream, EndClient bool
	// Acquire asks for a connection to a target: HandleAcquired,
	// HandleUnavailable or HandleExhausted follows.
	Acquire Acquire
	// Wake asks for HandleWake at that time, precisely; zero: no.
	Wake time.Time
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
	ReleasePrivate         // it waits for the client's next request, and ends with the client
	ReleaseDiscard         // it cannot be used again
	ReleaseEnd             // likewise, but what was written to it is still sent
)

// An Acquire says which connection to a target is wanted.
type Acquire uint8

const (
	AcquireNone   Acquire = iota
	AcquireAny            // the private one, else an idle one, or a new one
	AcquireFresh          // a new one: an idle one has just failed
	AcquireOther          // one to a target that was not tried: those cannot be reached
	AcquireCancel         // none any more
)

// A Close says how the client's connection ends.
type Close uint8

const (
	CloseNone    Close = iota
	CloseDrained       // after the last byte
	CloseLinger        // likewise, and what the client still sends is discarded
	CloseAbort         // at once and visibly: what was announced will not come
)

// New returns the session of a new connection from remote; secure says that it
// came by TLS.
func New(now time.Time, env *Env, remote netip.Addr, secure bool) *Session {
	s := &Session{env: env, remote: plain(remote), secure: secure, reader: http1.NewRequestReader(&env.Settings.Head)}
	s.deadline = now.Add(env.Settings.IdleTimeout)
	s.idleBy = s.deadline
	s.endBy = env.endOf(now)
	return s
}

// Effects returns what to do and forgets it.
func (s *Session) Effects() Effects {
	fx := s.fx
	if len(s.env.out) > 0 {
		fx.Client = s.env.out
		s.env.out = s.env.out[:0]
	}
	if len(s.env.up) > 0 {
		fx.Upstream = s.env.up
		s.env.up = s.env.up[:0]
	}
	s.fx = Effects{}
	return fx
}

// Deadline is when HandleExpired is to be called; the zero time: never.
func (s *Session) Deadline() time.Time { return s.deadline }

// Idle reports whether the session is between exchanges.
func (s *Session) Idle() bool { return s.state == stateReading && s.began.IsZero() }

// HandleClient is told of unread bytes from the client and returns how many of
// them it is done with. When the session Reads again the rest is to be shown
// once more.
func (s *Session) HandleClient(now time.Time, b []byte) int {
	s.begin()
	if s.state == stateTunnel {
		return s.tunnelUp(now, b)
	}
	return s.read(now, b)
}

// begin begins a Handle call: what another session may have left behind in the
// loop's buffers, when it was cut short by a panic, is not this one's.
func (s *Session) begin() {
	s.env.out = s.env.out[:0]
	s.env.up = s.env.up[:0]
}

// read reads on in the request.
func (s *Session) read(now time.Time, b []byte) int {
	n := 0
	for s.Reads() {
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
				s.began, s.deadline = time.Time{}, s.idleBy // nothing but empty lines
			}
			return n
		case http1.HeadDone:
			n += s.handleHead(now, b[n:])
		case http1.Data:
			s.handleBody(now, ev.Data)
		case http1.End:
			s.endMessage(&ev)
			s.handleBodyEnd(now)
		}
	}
	if s.state == stateClosing {
		return len(b)
	}
	return n
}

// Reads reports whether the session wants bytes from the client: unread ones
// are to be shown to it.
func (s *Session) Reads() bool {
	switch s.state {
	case stateReading, stateBody, stateOwnBody:
		return true
	case stateAwaiting:
		return s.x.uploading && !s.targetFull
	case stateTunnel:
		return !s.targetFull && !s.x.clientEnded
	}
	return false
}

// Duplex reports whether both directions go on at the same time: the client is
// to be read however much of its answer is unsent.
func (s *Session) Duplex() bool { return s.state == stateTunnel || s.x.uploading }

// Holds reports whether the target's bytes wait until the client takes more.
func (s *Session) Holds() bool { return s.clientFull && (s.x.relaying || s.state == stateTunnel) }

// Tunnels reports whether the end of what the target sends leaves the other
// direction open: HandleUpstreamEnd is to be called.
func (s *Session) Tunnels() bool { return s.state == stateTunnel }

// rest puts the session between two exchanges.
func (s *Session) rest(now time.Time) {
	s.state = stateReading
	s.began = time.Time{}
	s.deadline = now.Add(s.env.Settings.IdleTimeout)
	if s.drain {
		s.deadline = now.Add(s.env.Settings.DrainGrace)
	}
	s.idleBy = s.deadline
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
		s.bodyLate(now)
	case stateAcquiring:
		s.acquireLate(now)
	case stateAwaiting:
		if by := s.x.answerBy; !by.IsZero() && !now.Before(by) {
			why := FaultTimeout
			if s.x.unbounded && !s.x.relaying { // it is collected for want of a place
				why = FaultStreams
			}
			s.fault(now, why)
		} else if s.x.uploading {
			s.bodyLate(now)
		}
	case stateTunnel:
		s.endTunnel(CloseDrained)
	}
}

// HandleClosed is told that the client is gone. What is under way for it is
// given up.
func (s *Session) HandleClosed(now time.Time) {
	s.begin()
	switch s.state {
	case stateDeciding:
		if s.gone = s.x.asked; s.gone == nil {
			s.gone = []Counted{s.x.limits.policy.counted(s.x.preflight)}
		}
		s.x.asked, s.x.keys = nil, nil
	case stateQueued:
		leaveQueues(now, s.env, s.x.asked, s.x.mode)
	case stateAcquiring:
		s.fx.Acquire = AcquireCancel
	case stateAwaiting, stateTunnel:
		ended := s.state == stateTunnel && s.x.clientEnded && s.x.held
		s.letGo()
		if ended {
			s.fx.Release = ReleaseEnd // what it had sent before it ended still goes
		}
	}
	if s.state > stateReading && s.state < stateClosing && s.state != stateTunnel && s.x.outcome.Decision != Undecided {
		s.env.Report(now, s, &s.x.outcome)
	}
	s.state = stateClosing
	s.deadline = time.Time{}
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
		s.idleBy = s.deadline
	}
}

// letGo discards the target's connection, if one is held.
func (s *Session) letGo() {
	if s.x.held {
		s.fx.Release = ReleaseDiscard
		s.x.held = false
	}
}

// over gives the exchange's memory back.
func (s *Session) over() {
	s.env.give(s.x.request)
	s.env.give(s.x.response)
	s.env.give(s.x.origin)
	if s.x.asked != nil {
		s.env.give(s.x.keys)
		s.env.giveAsked(s.x.asked)
	}
	s.x = exchange{}
	s.targetFull = false
}

// close ends the connection; nothing more is read.
func (s *Session) close(how Close) {
	s.state = stateClosing
	s.deadline = time.Time{}
	s.fx.Close = how
}
