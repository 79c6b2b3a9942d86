package exchange

import (
	"net/netip"
	"time"

	"weir/internal/http1"
	"weir/proxy/decide"
	"weir/proxy/refusal"
)

// A Peer is the client of exchanges, as its carrier knows it.
type Peer struct {
	// Owner feeds the exchanges, which never look at it.
	Owner  any
	Remote netip.Addr // the other end of the client's connection
	Secure bool       // the client came by TLS
	// Trusted: the client is a trusted proxy, see [Settings.Trusts].
	Trusted bool
	// Private: the client's exchanges use upstream connections that serve no other
	// client, see noticeLogin.
	Private bool
}

// An Exchange is one request with its answer. When one has ended it is ready for the
// same client's next.
//
// Owned by its loop.
type Exchange struct {
	Peer
	env      *Env
	fx       Effects
	end      End
	endedAt  time.Time
	deadline time.Time
	left     []decide.Counted // asked for a client that left before the store answered
	from     []byte           // the X-Forwarded-For of a client that is not trusted; nil: not made yet

	reader http1.Reader // of the answer

	clientFull bool // the client takes nothing for the moment
	progress
}

// A progress is what an exchange knows while it lasts.
type progress struct {
	request  request
	upstream upstream
	answer   answer

	outcome   Outcome
	client    netip.Addr // that made the request: behind trusted proxies not Remote
	minor     int        // the client's version
	keepAlive bool       // the carrier takes a further request
	expects   bool       // the client waits for 100 before it sends the body
	verdict   decide.Verdict
	asked     []decide.Counted // of an answer that comes later, or of a wait
	keys      []byte           // their memory
	origin    []byte           // of the page that makes the request; nil: none, or refusals do not name it
	theirs    decide.Families  // in which the target's own limits are tighter
	defers    bool             // it may be delivered later, should it be refused
	prefers   bool             // its client has asked for that
	kept      []byte           // the request as it is stored
	gone      bool             // the client has left while it is being stored
	upgrade   string           // the protocols asked for

	length    int64 // of the body as announced; 0: there is none, -1: unknown
	collected int64
	framing   int64     // bytes of chunk lines behind it: tiny chunks take more room than what they hold
	chunked   coding    // of the body as it is sent on
	bodyBy    time.Time // when the next piece of the body is due
	rateBy    time.Time // when rateBytes must have become enough
	rateBytes int64

	forward    []byte         // the request as sent to the target, or to an own endpoint
	wants      refusal.Accept // the form of a refusal, when there is no forward
	hostAt     int            // where the target's Host goes into it; 0: it has one
	replay     replay
	failed     Fault // why the target tried before could not be reached
	targetFull bool  // the upstream connection takes nothing for the moment
	answerBy   time.Time
	// retryAfter is when a 503 may be tried again; zero: soon.
	retryAfter time.Duration

	status   int
	size     int64   // of its body; more than any bound: unknown
	coding   coding  // of its body as the client gets it
	after    Release // what becomes of the upstream connection behind a whole answer
	response []byte  // what of it has been collected in earlier calls
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

// New returns an exchange that waits for a request of a client at remote; secure says
// that it came by TLS.
func New(env *Env, remote netip.Addr, secure bool) Exchange {
	remote = decide.PlainAddr(remote)
	return Exchange{env: env, reader: http1.NewResponseReader(&env.Settings.ResponseHead), Peer: Peer{Remote: remote, Secure: secure, Trusted: env.Settings.trusts(remote)}}
}

// Deadline is when HandleExpired is to be called; the zero time: never.
func (x *Exchange) Deadline() time.Time { return x.deadline }

// Idle reports whether there is no request.
func (x *Exchange) Idle() bool { return x.request == requestNone }

// Refused reports whether the request is answered without its body. The carrier then
// looks whether the body has come already and calls HandleUnread.
func (x *Exchange) Refused() bool { return x.request == requestRefused }

// Reads reports whether bytes of the body, or its end, are wanted.
func (x *Exchange) Reads() bool {
	return x.request == requestCollecting || x.request == requestDeferring || x.uploads() && !x.targetFull
}

// InBody reports whether there is a request and not all of its body has come.
func (x *Exchange) InBody() bool {
	return x.request != requestNone && x.request < requestWhole && x.collected != x.length
}

// Holds reports whether a relayed answer waits until the client takes more.
func (x *Exchange) Holds() bool { return x.clientFull && x.answer == answerRelaying }

// Held reports whether the exchange, or the tunnel that it has become, holds an upstream
// connection.
func (x *Exchange) Held() bool { return x.upstream.held() }

// Full reports which sides take nothing for the moment.
func (x *Exchange) Full() (client, target bool) { return x.clientFull, x.targetFull }

// HandleLast says that the carrier takes no further request. An answer whose head has come
// has announced what it has announced.
func (x *Exchange) HandleLast() {
	if x.answer < answerCollecting {
		x.keepAlive = false
	}
}

// HandleExpired says that the Deadline has passed.
func (x *Exchange) HandleExpired(now time.Time) {
	x.env.Begin()
	switch {
	case x.upstream == upstreamWanted:
		x.acquireLate(now)
	case x.upstream.held() && !x.answerBy.IsZero() && !now.Before(x.answerBy):
		x.answerLate(now)
	case x.request == requestCollecting || x.request == requestStreaming || x.request == requestDeferring:
		x.bodyLate(now)
	}
}

// HandleLeft says that the client has left. What is under way for it is given up.
func (x *Exchange) HandleLeft() {
	x.env.Begin()
	switch x.request {
	case requestAsked:
		x.left, x.asked, x.keys = x.asked, nil, nil
	case requestQueued:
		x.leave(x.asked, x.verdict.Mode)
	case requestStoring:
		x.gone = true // HandleDeferred reports what came of it
		return
	}
	if x.upstream == upstreamWanted {
		x.fx.Acquire = AcquireCancel
	} else {
		x.letGo(ReleaseDiscard)
	}
	if x.answer == answerRelaying {
		x.outcome.Begun = x.status
	}
	if x.answer != answerDone && x.outcome.Decision != Undecided {
		x.report()
	}
	x.over()
}

// EndTunnel ends the tunnel that the exchange has become: how says what becomes of the
// upstream connection, if it is still held. With ReleaseNone it is lost.
func (x *Exchange) EndTunnel(how Release) {
	x.letGo(how)
	x.over()
}

// report has the effects say what became of the request.
func (x *Exchange) report() {
	x.env.outcome = x.outcome
	x.fx.Report = &x.env.outcome
}

// letGo lets go of the upstream connection, if one is held.
func (x *Exchange) letGo(how Release) {
	if x.upstream.held() {
		x.fx.Release = how
		x.upstream.become(upstreamNone)
	}
}

// ends ends the exchange; end says what the carrier does next.
func (x *Exchange) ends(now time.Time, end End) {
	x.answer.become(answerDone)
	x.report()
	x.over()
	x.end, x.endedAt = end, now
}

// over gives the exchange's memory back.
func (x *Exchange) over() {
	x.env.give(x.forward)
	x.env.give(x.response)
	x.env.give(x.origin)
	x.env.give(x.kept)
	x.env.give(x.outcome.RequestID)
	if x.asked != nil {
		x.env.give(x.keys)
		x.env.giveAsked(x.asked)
	}
	x.progress = progress{}
	x.deadline = time.Time{}
}

// String says how far the exchange has come.
func (x *Exchange) String() string {
	return "request " + x.request.String() + ", upstream " + x.upstream.String() + ", answer " + x.answer.String()
}
