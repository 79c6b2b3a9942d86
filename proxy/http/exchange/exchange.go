package exchange

import (
	"net/netip"
	"slices"
	"time"

	"weir/internal/net/http1"
	"weir/proxy/rules/decide"
	"weir/proxy/rules/refusal"
)

// A ClientInfo is the client of exchanges, as its carrier knows it.
type ClientInfo struct {
	// Owner is the carrier; exchanges do not use it.
	Owner  any
	Remote netip.Addr // the other end of the client's connection
	Secure bool       // the client uses TLS
	HTTP2  bool       // the client uses HTTP/2
	// Trusted: the client is a trusted proxy, see [Settings.Trusts].
	Trusted bool
	// Private: the client's exchanges use an upstream connection that serves no other client, and closes
	// with the client's. NTLM and Negotiate authenticate a connection, not a request: a target attributes
	// later requests on it to the same user. So this is set from the first exchange that offers such
	// authentication on. Fields of proxy authentication do not matter, because they are never forwarded.
	Private bool
}

// An Exchange is one request with its answer. After its end it can be used for the next
// request of the same client.
//
// Owned by its loop.
type Exchange struct {
	ClientInfo
	env      *Env
	end      End
	endedAt  time.Time
	deadline time.Time
	left     []decide.ChargedCounter // asked about a client that left before the store's answer
	from     []byte                  // X-Forwarded-For of an untrusted client; nil: not made yet

	clientFull bool    // the client currently accepts no data
	forward    Request // the request for the target or an own endpoint
	kept       Request // the request as it is stored
	progress
}

// A progress is the state of an exchange that is reset at its end.
type progress struct {
	request  request
	upstream upstream
	answer   answer

	outcome Outcome
	client  netip.Addr     // address of the client; behind trusted proxies not Remote
	wants   refusal.Accept // the form of a refusal
	// takesTrailers: the client has said that it takes trailers.
	takesTrailers bool
	callType      string    // Content-Type of an answer to a gRPC call; empty: the request is none
	callBy        time.Time // when the client of the call stops waiting; zero: never
	origin        []byte    // of the requesting page; nil: none, or refusals do not repeat it
	limiting
	body   body
	unread bool // part of the request may be unread

	replay     replay
	refused    uint8       // how often the target has refused the request unprocessed
	failed     FailureKind // why the previous target could not be reached
	targetFull bool        // the upstream connection currently accepts no data
	answerBy   time.Time
	retryAfter time.Duration // of a 503; zero: soon
	received   received

	AnswerHTTP2 bool // the carrier of the target uses HTTP/2
}

// A limiting is what an exchange knows of its limits.
type limiting struct {
	verdict   decide.Verdict
	asked     []decide.ChargedCounter  // what the store was asked, until its answer, the slot and a target are there
	one       [1]decide.ChargedCounter // memory of asked, of the most frequent length
	keys      []byte                   // memory of the keys in asked
	chargedAt int64                    // store.Answer.At of the answer
	theirs    decide.LimitFields       // in which the target's own limits are tighter
	deferral  deferral
	keyed     bool // deferral: it has an Idempotency-Key
	later     int  // deferral: the index of the rule in asked
}

// A body is the progress of the request's body.
type body struct {
	expected  bool  // the client waits for 100 before it sends the body
	length    int64 // as announced; 0: there is no body, -1: unknown
	open      bool  // the rest may come only after a part of the answer, see HandleBodyPause
	longLived bool  // of a call: its messages may pause for StreamTimeout, see mayBeLongLived
	inPieces  bool  // the target was sent a part of it after the head
	collected int64
	last      []byte    // the last piece of a body that is passed on as it arrives, until it may be sent
	trailers  []byte    // for the target
	hops      []byte    // trailers to drop, see http1.Head.AppendHopNames
	by        time.Time // deadline for the next piece
	rateBy    time.Time // deadline for enough rateBytes
	rateBytes int64
}

// A received is what has been received of the target's answer.
type received struct {
	status int
	size   int64       // of its body; larger than any bound: unknown
	after  ConnRelease // of the upstream connection, if the answer is complete
	body   []byte      // collected in earlier calls
	head   []byte      // reason phrase and fields for the client, unless the answer is complete in one call
	fields int         // where the fields begin

	framing http1.Framing // see Response
	length  int64
	hops    []byte // see body
}

// A replay says whether a request may be sent again.
type replay uint8

const (
	replayNever  replay = iota
	replayOnce          // it is idempotent
	replayUnsure        // it has been sent again after its connection was lost: the target may have processed it
)

// New returns an exchange that waits for a request of a client at remote; secure says that
// the client uses TLS.
func New(env *Env, remote netip.Addr, secure bool) Exchange {
	remote = decide.CanonicalAddr(remote)
	if env.fx == nil {
		env.fx = new(Effects)
	}
	return Exchange{env: env, ClientInfo: ClientInfo{Remote: remote, Secure: secure, Trusted: env.Settings.Trusts(remote)}}
}

// Renew makes x, which is zero or has ended, wait for a request of p. It keeps the Owner of x.
func (x *Exchange) Renew(env *Env, p *ClientInfo) {
	owner, from := x.Owner, x.from
	if x.Remote != p.Remote {
		from = from[:0]
	}
	*x = Exchange{} // in place: a value with fields would be copied
	x.env, x.ClientInfo, x.from = env, *p, from
	x.Owner = owner
}

// Deadline returns when HandleExpired must be called; zero means never.
func (x *Exchange) Deadline() time.Time {
	if x.callWaits() && (x.deadline.IsZero() || x.callBy.Before(x.deadline)) {
		return x.callBy
	}
	return x.deadline
}

// Idle reports whether there is no request.
func (x *Exchange) Idle() bool { return x.request == requestNone }

// Refused reports whether the request is answered without reading its body. The carrier
// then checks whether the body has already been received, and calls HandleUnread.
func (x *Exchange) Refused() bool { return x.request == requestRefused }

// Reads reports whether bytes of the body, or its end, are wanted.
func (x *Exchange) Reads() bool {
	return x.request == requestCollecting || x.request == requestDeferring || x.uploads() && !x.targetFull
}

// InBody reports whether there is a request of which part of the body is missing.
func (x *Exchange) InBody() bool {
	return x.request != requestNone && x.request < requestWhole && x.body.collected != x.body.length
}

// Holds reports whether a relayed answer waits until the client accepts more.
func (x *Exchange) Holds() bool { return x.clientFull && x.answer == answerRelaying }

// Relays reports whether an answer is passed on as it arrives.
func (x *Exchange) Relays() bool { return x.answer == answerRelaying }

// Held reports whether there is an upstream connection, Unsent whether a request, or the last piece of
// one, waits to be sent.
func (x *Exchange) Held() bool { return x.upstream.held() }
func (x *Exchange) Unsent() bool {
	return x.request == requestWithheld || !x.Idle() && !x.Held() && x.request != requestStreaming
}

// Upgrades reports whether the request asks for another protocol, to which the target may switch.
func (x *Exchange) Upgrades() bool { return x.forward.Upgrade != "" }

// Full reports which sides currently accept no data.
func (x *Exchange) Full() (client, target bool) { return x.clientFull, x.targetFull }

// HandleExpired is called when the Deadline has passed. It reports whether the client is at fault, who has not sent the
// rest of the request in time.
func (x *Exchange) HandleExpired(now time.Time) (fault bool) {
	x.env.Begin()
	switch {
	case x.callWaits() && x.callOver(now):
		x.callLate(now)
	case x.upstream == upstreamWanted:
		x.acquireLate(now)
	case x.body.open && x.answer == answerRelaying && !x.body.by.IsZero() && !now.Before(x.body.by):
		x.bodyLate(now) // neither side says anything, which is not the target's fault
	case x.upstream.held() && !x.answerBy.IsZero() && !now.Before(x.answerBy):
		x.answerLate(now)
	case x.request == requestCollecting || x.request == requestStreaming || x.request == requestDeferring:
		return x.bodyLate(now)
	}
	return false
}

// HandleClientClosed handles the disconnect of the client.
func (x *Exchange) HandleClientClosed() {
	x.env.Begin()
	switch x.request {
	case requestAsked:
		x.left, x.asked, x.keys = slices.Clone(x.asked), nil, nil
	case requestQueued:
		x.refund(x.asked, x.verdict.Mode, 0)
	case requestStoring:
		x.request.become(requestLeft)
		fallthrough
	case requestLeft:
		return // HandleDeferred reports the outcome
	}
	if x.upstream == upstreamWanted {
		x.env.fx.Acquire = AcquireCancel
	} else {
		x.releaseUpstream(x.abandon())
	}
	if x.answer == answerRelaying {
		x.outcome.Begun = x.received.status
	}
	if x.answer != answerDone && x.outcome.Decision != Undecided {
		x.report()
	}
	x.reset()
}

// abandon returns what to do with the upstream connection of an exchange whose client has
// disconnected. The target goes on working on a request that is complete, or on the messages of a call. It
// cannot execute other requests of which a part is missing, and a stream ends with its client.
func (x *Exchange) abandon() ConnRelease {
	a := &x.received
	collects := x.answer <= answerHead || x.answer == answerCollecting && a.size <= x.env.Settings.BufferBytesMax
	works := x.request == requestWhole ||
		x.interacts() && (x.request == requestStreaming || x.request == requestWithheld)
	if !works || !x.upstream.held() || !collects {
		return ReleaseDiscard
	}
	x.env.rest = AbandonedExchange{Method: x.outcome.Method, Client: x.client, Sent: x.outcome.Complete, By: x.answerBy,
		Status: a.status, Reusable: !x.Private && (a.status == 0 || a.after == ReleaseKeep),
		SizeMax: x.env.Settings.BufferBytesMax}
	x.env.fx.Abandoned = &x.env.rest
	return ReleaseAbandon
}

// EndTunnel ends the tunnel of the exchange; how says what to do with the upstream
// connection, if it is still held. ReleaseNone means that it is lost.
func (x *Exchange) EndTunnel(how ConnRelease) {
	x.releaseUpstream(how)
	x.reset()
}

// report adds the outcome of the request to the effects.
func (x *Exchange) report() {
	x.env.outcome = x.outcome
	x.env.fx.Report = &x.env.outcome
}

// releaseUpstream releases the upstream connection, if one is held.
func (x *Exchange) releaseUpstream(how ConnRelease) {
	if x.upstream.held() {
		x.env.fx.Release = how
		x.upstream.become(upstreamNone)
	}
}

// endAs ends the exchange; end says how.
func (x *Exchange) endAs(now time.Time, end End) {
	x.answer.become(answerDone)
	x.report()
	x.reset()
	x.end, x.endedAt = end, now
}

// reset resets the exchange and returns its memory.
func (x *Exchange) reset() {
	x.forward.drop(x.env)
	x.kept.drop(x.env)
	x.env.give(x.body.last)
	x.env.give(x.body.trailers)
	x.env.give(x.received.head)
	x.env.give(x.received.body)
	x.env.give(x.origin)
	x.env.give(x.outcome.RequestID)
	x.dropAsked()
	x.progress = progress{}
	x.deadline = time.Time{}
}

// String returns the states of the exchange.
func (x *Exchange) String() string {
	return "request " + x.request.String() + ", upstream " + x.upstream.String() + ", answer " + x.answer.String()
}
