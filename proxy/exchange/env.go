package exchange

import (
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"time"

	"weir/internal/http1"
	"weir/proxy/callback"
	"weir/proxy/claims"
	"weir/proxy/decide"
	"weir/proxy/limit"
	"weir/proxy/refusal"
	"weir/proxy/store"
)

// Settings are the bounds and times of all exchanges.
//
// Immutable after New.
type Settings struct {
	ResponseHead http1.Limits

	BodyBytesMax   int64 // request bodies, 0: any
	OwnBytesMax    int64 // bodies of requests to own endpoints
	BufferBytesMax int64 // of a body that is collected, in either direction; larger ones are streamed
	BodyRateMin    int64 // bytes of a request's body per second, over rateSpan; 0: any

	BodyTimeout    time.Duration // for the next piece of a request's body
	ConnectTimeout time.Duration // until a connection to a target is there
	WaitTimeout    time.Duration // for a connection to a target while all of them are taken
	TargetTimeout  time.Duration // from sending a request to the head of its answer, and between two pieces of an answer that is collected
	StreamTimeout  time.Duration // for the next piece of a streamed answer, or byte of a tunnel of which one side has ended

	// PreserveHost: the target sees the client's Host, not its own. A request
	// older than HTTP/1.1 may have none, and the target's is sent.
	PreserveHost bool
	// Underscores: fields of requests with underscores in their names are
	// forwarded.
	Underscores bool
	// Upgrades are the protocols that a client may switch to, in lower case.
	Upgrades []string
	// Pseudonym is the proxy's own name in Via, or in CDN-Loop. A request that
	// has it comes back in a circle.
	Pseudonym string
	// Via: requests and answers carry Via. Else requests carry CDN-Loop, which
	// no target takes for a reason not to compress.
	Via bool
	// OwnElsewhere: the proxy's own endpoints have a port of their own, and
	// their paths are the target's here.
	OwnElsewhere bool
	// HealthHere: those of health are answered here all the same.
	HealthHere bool
	// NoTargets: nothing is forwarded, and nothing is asked of the limiter.
	NoTargets bool
	// TrustedProxies are the clients whose claims about the origin of requests
	// are believed, and Claims the names of such fields; nil: the usual ones.
	TrustedProxies []netip.Prefix
	Claims         *claims.Set
	// Style is how refusals look, and which rate limit fields answers carry.
	Style decide.Style
	// CORS: pages of other origins may read refusals.
	CORS bool
	// DeferPath is what the paths begin with at which clients see what became of requests
	// that are delivered later; empty: there are none. DeferBodyMax is the largest body of one.
	DeferPath    string
	DeferBodyMax int64
	Callbacks    *callback.Hosts // that may be told what became of one; nil: none
	// RequestID: every request has an id, which target and client get.
	RequestID bool
	// PreflightsApart: preflights have counters of their own, as large as those of other
	// requests.
	PreflightsApart bool
}

// An Env is what the exchanges of one loop share: settings, ways to ask and to
// report, and memory that is used again and again.
//
// Owned by its loop.
type Env struct {
	Settings *Settings
	// Policy is the policy in force now.
	Policy func() *decide.Policy
	// Pages are the templates of refusals in force; nil: refusals are JSON.
	Pages *atomic.Pointer[refusal.Pages]
	// Ask has the store decide. It returns true when ans holds the answer
	// already; otherwise HandleAnswer follows.
	Ask func(now time.Time, x *Exchange, ask *store.Ask, ans *store.Answer) bool
	// Defer has a refused request stored: HandleDeferred follows, not from within the call.
	// nil: none are.
	Defer func(now time.Time, x *Exchange, k *Kept)
	// Delivery: the requests are those that were stored. They are refused rather than stored
	// again, and leave a part of the limit to others. Added are field lines that the next
	// one gets.
	Delivery bool
	Added    []byte
	// Refused remembers a refusal, which it copies, and names it: the decision id.
	Refused func(now time.Time, r *decide.Refusal) (id []byte)
	// Overloaded says that requests are to be shed; nil: never.
	Overloaded *atomic.Bool
	// Random is what request ids are made of. It is there with Settings.RequestID.
	Random *rand.ChaCha8

	response http1.Head
	noticed  Noticed
	answer   store.Answer
	refusal  decide.Refusal
	shed     []byte // names the decision while it is answered
	asked    []decide.Counted
	matched  decide.Case
	decided  decide.Decided
	leave    Leave
	outcome  Outcome
	spares   [][]decide.Counted
	out      []byte   // for the client, until the effects are done
	up       []byte   // for the target, likewise
	free     [][]byte // buffers of exchanges that are over
	reader   decide.Reader
	answers  decide.Answers
	date     http1.Date
}

// An Outcome is what became of one request.
type Outcome struct {
	Method    http1.Method
	Decision  Decision
	Algorithm limit.Algorithm // that decided; only with a decision
	Rule      string
	Status    int       // answered; 0 when the client left before
	Begun     int       // of an answer whose head the client had got when it left; 0: none
	Relayed   bool      // the answer is the target's, as far as it came
	Began     time.Time // the first byte was read
	Sent      time.Time // written to the target, or begun to be; zero when it was not
	Complete  time.Time // the last of it was; zero while the client has not sent it all
	Answered  time.Time // the head of the target's answer was there; zero when it was not
	Fault     Fault     // why the target did not answer
	Retried   bool
	OddFields int    // of the request, that were dropped for their names
	Trailers  int    // trailer sections of request and answer, that were dropped
	Own       bool   // for an own endpoint
	Bytes     int64  // of the answer's body, as far as it came
	RequestID []byte // nil: it has none; borrowed, like the next two
	ID        []byte // of the decision, when the answer has one
	Key       []byte // that refused it; nil: all share one, or it was not refused
	Postponed bool   // it was to be delivered later; rejected: it is not
	Spent     bool   // the connection ends: it has had its requests or its time; HTTP/1.1 sets it
}

// A Decision is the limiter's, as far as one was made.
type Decision uint8

const (
	Undecided Decision = iota // own endpoints, malformed requests
	Forwarded
	Rejected
	Exempt   // no limit applies
	Deferred // it is delivered later
)

// buffersKept bounds the free buffers of a loop, bufferKeptMax the size of one
// that is kept: one large body must not stay in memory for ever.
const (
	buffersKept   = 256
	bufferKeptMax = 16 << 10
)

// Begin begins a call of a carrier: what was left in the loop's buffers by a call that a
// panic has cut short belongs to another exchange.
func (e *Env) Begin() {
	e.out = e.out[:0]
	e.up = e.up[:0]
}

// take returns an empty buffer.
func (e *Env) take() []byte {
	n := len(e.free)
	if n == 0 {
		return make([]byte, 0, 1024)
	}
	b := e.free[n-1]
	e.free = e.free[:n-1]
	return b
}

// give takes a buffer back that nobody uses any more.
func (e *Env) give(b []byte) {
	if cap(b) == 0 || cap(b) > bufferKeptMax || len(e.free) >= buffersKept {
		return
	}
	e.free = append(e.free, b[:0])
}

// takeAsked and giveAsked keep lists of what was asked to be used again.
func (e *Env) takeAsked() []decide.Counted {
	n := len(e.spares)
	if n == 0 {
		return make([]decide.Counted, 0, store.CountersMax)
	}
	a := e.spares[n-1]
	e.spares = e.spares[:n-1]
	return a
}

func (e *Env) giveAsked(a []decide.Counted) {
	if len(e.spares) < buffersKept {
		clear(a)
		e.spares = append(e.spares, a[:0])
	}
}
