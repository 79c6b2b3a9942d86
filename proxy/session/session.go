package session

import (
	"net/netip"
	"time"

	"weir/internal/http1"
	"weir/proxy/decide"
	"weir/proxy/refusal"
)

// A state is what the bytes of a client's connection are.
type state uint8

const (
	stateExchanges state = iota // requests, one at a time
	stateTunnel                 // another protocol's
	stateClosing                // nothing more is read
)

// String names the state.
func (s state) String() string { return [...]string{"exchanges", "tunnel", "closing"}[s] }

// A Session is one client connection.
//
// Owned by its loop.
type Session struct {
	// Owner is whoever feeds the session; the session never looks at it.
	Owner any

	env    *Env
	remote netip.Addr
	secure bool // the client came by TLS
	// believed: the client is a trusted proxy.
	believed bool
	state    state
	reader   http1.Reader
	drain    bool
	// private: the target's connection that an exchange uses stays this
	// client's, see noticeLogin.
	private bool
	// The client, or the target, takes nothing for the moment.
	clientFull, targetFull bool
	left                   bool // bytes of the client may be unread that it would read later
	fx                     Effects

	gone     []decide.Counted // asked for a client that left before the store answered
	began    time.Time        // the first byte of the request was read
	deadline time.Time
	idleBy   time.Time // when a client that asks nothing is closed
	endBy    time.Time // the first request from then on is the last; zero: never
	requests int       // so far
	x        exchange

	clientEnded bool // sends no more
	targetEnded bool // of a tunnel: likewise
}

// An exchange is one request with its answer, while it lasts.
type exchange struct {
	request request
	link    link
	answer  answer

	outcome   Outcome
	minor     int  // the client's version
	keepAlive bool // the client connection outlives the exchange
	own       bool // the request is for an own endpoint
	expects   bool // the client waits for 100 before it sends the body
	verdict   decide.Verdict
	asked     []decide.Counted // of an answer that comes later, or of a wait
	keys      []byte           // their memory
	origin    []byte           // of the page that makes the request; nil: none, or refusals do not tell
	theirs    decide.Families  // in which the target's own limits are tighter
	upgrade   string           // the protocols asked for

	length    int64 // of the body as announced; -1: unknown
	collected int64
	framing   int64     // bytes of chunk lines behind it: tiny chunks take more room than what they hold
	chunked   coding    // of the body as it is sent on
	bodyBy    time.Time // when the next piece of the body is due
	rateBy    time.Time // when rateBytes must have become enough
	rateBytes int64

	forward  []byte         // the request as sent to the target, or to an own endpoint
	wants    refusal.Accept // the form of a refusal, when forward is gone
	hostAt   int            // where the target's Host goes into it; 0: it has one
	replay   replay
	failed   Fault // why the target tried before could not be reached
	answerBy time.Time
	// retryAfter is when a 503 may be tried again; zero: soon.
	retryAfter time.Duration

	reader   http1.Reader // of the answer
	status   int
	size     int64  // of its body; more than any bound: unknown
	coding   coding // of its body as the client gets it
	canReuse bool   // the target's connection may serve again
	response []byte // what of it has been collected in earlier calls
}

// A coding is how a body is sent on.
type coding uint8

const (
	codingPlain  coding = iota // as it comes, its length is announced
	codingChunks               // in chunks of our own
	codingClose                // as it comes, and the close is its end
)

// A replay says whether a request may be sent once more.
type replay uint8

const (
	replayNever replay = iota
	replayOnce         // it is idempotent and has no body
	replayDone         // it was
)

// New returns the session of a new connection from remote; secure says that it
// came by TLS.
func New(now time.Time, env *Env, remote netip.Addr, secure bool) *Session {
	s := &Session{env: env, remote: plain(remote), secure: secure, reader: http1.NewRequestReader(&env.Settings.Head)}
	s.believed = env.Settings.trusts(s.remote)
	s.deadline = now.Add(env.Settings.IdleTimeout)
	s.idleBy = s.deadline
	s.endBy = env.endOf(now)
	return s
}

// Deadline is when HandleExpired is to be called; the zero time: never.
func (s *Session) Deadline() time.Time { return s.deadline }

// idle reports whether the session is between exchanges.
func (s *Session) idle() bool {
	return s.state == stateExchanges && s.x.request == requestNone && s.began.IsZero()
}

// HandleClient is told of unread bytes from the client and returns how many of
// them it is done with. It goes no further than the end of one exchange;
// Effects.Read says when the rest is to be shown once more.
func (s *Session) HandleClient(now time.Time, b []byte) (n int) {
	s.begin()
	if s.state == stateTunnel {
		n = s.tunnelUp(now, b)
	} else {
		n = s.read(now, b)
	}
	s.left = !s.reads() || s.fx.Report != nil && n < len(b)
	return n
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
	for s.reads() && s.fx.Report == nil {
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
			if s.reader.Idle() && s.x.request == requestNone {
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

// reads reports whether the session wants bytes from the client.
func (s *Session) reads() bool {
	switch s.state {
	case stateTunnel:
		return !s.targetFull && !s.clientEnded
	case stateClosing:
		return false
	}
	switch s.x.request {
	case requestNone, requestCollecting:
		return true
	case requestStreaming:
		return s.x.link.held() && !s.targetFull
	}
	return false
}

// holds reports whether the target's bytes wait until the client takes more.
func (s *Session) holds() bool {
	return s.clientFull && (s.x.answer == answerRelaying || s.state == stateTunnel)
}

// rest puts the session between two exchanges.
func (s *Session) rest(now time.Time) {
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
	switch {
	case s.state == stateTunnel:
		s.endTunnel(CloseDrained)
	case s.state == stateClosing:
	case s.idle():
		s.close(CloseDrained) // the last answer may still be on its way
	case s.x.request == requestNone:
		s.fail(now, 408, "the request head did not arrive in time")
	case s.x.link == linkWanted:
		s.acquireLate(now)
	case s.x.link.held() && !s.x.answerBy.IsZero() && !now.Before(s.x.answerBy):
		s.answerLate(now)
	case s.x.request == requestCollecting || s.x.request == requestStreaming:
		s.bodyLate(now)
	}
}

// HandleClosed is told that the client is gone. What is under way for it is
// given up.
func (s *Session) HandleClosed(now time.Time) {
	s.begin()
	switch s.x.request {
	case requestAsked:
		s.gone, s.x.asked, s.x.keys = s.x.asked, nil, nil
	case requestQueued:
		s.leave(s.x.asked, s.x.verdict.Mode)
	}
	switch {
	case s.x.link == linkWanted:
		s.fx.Acquire = AcquireCancel
	case s.state == stateTunnel && s.clientEnded:
		s.letGo(ReleaseEnd) // what it had sent before it ended still goes
	default:
		s.letGo(ReleaseDiscard)
	}
	if s.x.answer == answerRelaying {
		s.x.outcome.Begun = s.x.status
	}
	if s.state == stateExchanges && s.x.outcome.Decision != Undecided {
		s.report()
	}
	s.state = stateClosing
	s.deadline = time.Time{}
	s.over()
}

// HandleDrain has the session end: at once after a short grace when it is idle, so
// that a request on its way is still answered, else with the answer under way.
func (s *Session) HandleDrain(now time.Time) {
	s.drain = true
	if s.x.answer < answerCollecting { // else the answer has announced what it has announced
		s.x.keepAlive = false
	}
	if s.idle() {
		s.deadline = now.Add(s.env.Settings.DrainGrace)
		s.idleBy = s.deadline
	}
}

// report has it told what became of the request.
func (s *Session) report() {
	s.env.outcome = s.x.outcome
	s.fx.Report = &s.env.outcome
}

// letGo lets go of the target's connection, if one is held.
func (s *Session) letGo(how Release) {
	if s.x.link.held() {
		s.fx.Release = how
		s.x.link.become(linkNone)
	}
}

// over gives the exchange's memory back.
func (s *Session) over() {
	s.env.give(s.x.forward)
	s.env.give(s.x.response)
	s.env.give(s.x.origin)
	s.env.give(s.x.outcome.RequestID)
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
