package exchange

import (
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"time"

	"weir/internal/net/http1"
	"weir/proxy/deferred/callback"
	"weir/proxy/limit"
	"weir/proxy/rules/decide"
	"weir/proxy/rules/keys"
	"weir/proxy/rules/pattern"
	"weir/proxy/rules/refusal"
	"weir/proxy/store"
)

// Settings are the settings of all exchanges.
//
// Immutable after New.
type Settings struct {
	ResponseHead http1.Limits

	BodyBytesMax   int64 // request bodies; 0: no limit
	OwnBytesMax    int64 // bodies of requests to own endpoints
	BufferBytesMax int64 // bodies that are collected, in either direction; larger ones are streamed
	BodyRateMin    int64 // bytes of a request's body per second, over rateSpan; 0: no limit

	BodyTimeout    time.Duration // for the next piece of a request's body
	ConnectTimeout time.Duration // for connecting to a target
	WaitTimeout    time.Duration // for a connection to a target while all are in use
	// from sending a request to the head of its answer, and between two pieces of an answer that is collected
	TargetTimeout time.Duration
	StreamTimeout time.Duration // for the next piece of a streamed answer, or the next byte of a half-closed tunnel

	// DropTrailers says that no trailers are passed on.
	DropTrailers bool
	// PreserveHost forwards the client's Host. A request without one, as allowed before
	// HTTP/1.1, gets that of the target.
	PreserveHost bool
	// Underscores forwards request fields with underscores in their names.
	Underscores bool
	// Upgrades are the protocols that a client may switch to, in lower case.
	Upgrades []string
	// Pseudonym is the proxy's name in Via, or in CDN-Loop. A request with that name has
	// passed this proxy before.
	Pseudonym string
	// Via adds Via to requests and answers. Otherwise requests get CDN-Loop; many targets
	// do not compress the answers to requests with Via.
	Via bool
	// OwnPaths are the paths of the own endpoints that are answered here, except those of deferred
	// requests; nil: none.
	OwnPaths *pattern.Paths
	// NoTargets says that nothing is forwarded, and the limiter is not asked.
	NoTargets bool
	// TrustedProxies are the peers whose claims about the origin of requests are
	// believed, and Claims the names of such fields; nil: the usual ones.
	TrustedProxies   []netip.Prefix
	ForwardingFields *keys.ForwardingFields
	// Style determines the form of refusals, and the rate limit fields of answers.
	Style decide.RefusalStyle
	// CORS lets pages of other origins read refusals.
	CORS bool
	// DeferPath is the prefix of the status URLs of deferred requests; empty: there are
	// none. DeferBodyMax bounds the body of one.
	DeferPath    string
	DeferBodyMax int64
	Callbacks    *callback.Hosts // hosts that may be called back; nil: none
	// RequestID gives every request an id, which is sent to target and client.
	RequestID bool
	// PreflightsApart gives preflights separate counters, as large as those of other
	// requests.
	PreflightsApart bool
}

// An Env is what the exchanges of one loop share: settings, functions to ask and to report,
// and memory that is reused.
//
// Owned by its loop.
type Env struct {
	Settings *Settings
	// Policy returns the policy in force.
	Policy func() *decide.Policy
	// Pages are the templates of refusals in force; nil: refusals are JSON.
	Pages *atomic.Pointer[refusal.Pages]
	// Ask asks the store to decide. If it returns true, ans holds the answer; otherwise
	// HandleDecision follows.
	Ask func(now time.Time, x *Exchange, ask *store.Ask, ans *store.Answer) bool
	// Defers says that refused requests may be stored, see Effects.Store, and others looked up, see
	// Effects.LookUp.
	Defers bool
	// Delivery says that the requests are stored ones. They are not stored again, and leave
	// a part of the limit to live requests. Added are field lines to add to the next request.
	Delivery bool
	Added    []byte
	// Refused copies and remembers a refusal, and returns its decision id.
	Refused func(now time.Time, r *decide.Refusal) (id []byte)
	// Sheds says that HandleShed may be called.
	Sheds bool
	// Overloaded says that new requests of a client must be shed; nil: never.
	Overloaded func(client netip.Addr) bool
	// Random is the source of request ids; set with Settings.RequestID.
	Random *rand.ChaCha8

	received  ReceivedRequest
	forwarded decide.ForwardedInfo // of the request whose head is being handled
	answer    store.Answer
	refusal   decide.Refusal
	shed      []byte // id of the decision to shed the request, while that is answered
	asked     []decide.ChargedCounter
	matched   decide.Evaluation
	decided   decide.CounterResults
	refund    Refund
	kept      DeferredRequest
	outcome   Outcome
	rest      AbandonedExchange
	spares    [][]decide.ChargedCounter
	free      [][]byte // buffers of exchanges that have ended

	fx    *Effects // of the last call, until MoveEffects; made with the first exchange
	begun bool     // there may be some
	// What they point to:
	final     Response
	fields    []byte // of responses
	down, up  pieces // of the response's and of the request's body
	reader    decide.ResponseOptions
	responder decide.Responder
	date      http1.Date
	now, due  time.Time // see answerBy
}

// An Outcome is the outcome of one request.
type Outcome struct {
	Method    http1.Method
	Decision  Decision
	Algorithm limit.Algorithm // that decided; only with a decision
	Rule      string
	Status    int         // of the answer; 0: the client disconnected before it
	Begun     int         // status of an answer whose head was sent before the client disconnected; 0: none
	Relayed   bool        // the answer is the target's, at least in part
	Began     time.Time   // when the first byte was read
	Sent      time.Time   // when sending to the target began; zero: it did not
	Complete  time.Time   // when all of it had been sent; zero: the client has not sent all
	Answered  time.Time   // when the head of the target's answer had arrived; zero: it has not
	Fault     FailureKind // why the target did not answer
	Garbled   error       // what was wrong with its answer; nil: unknown, or nothing
	Looped    bool        // the request has passed this proxy before
	Retried   bool
	OddFields int    // request fields dropped for their names
	Trailers  int    // trailer sections of request and answer that were dropped, at least in part
	Own       bool   // it was for an own endpoint
	Bytes     int64  // received of the answer's body
	RequestID []byte // nil: it has none; borrowed, like the next two
	ID        []byte // id of the decision, if the answer has one
	Key       []byte // key that refused it; nil: that of all requests, or it was not refused
	Postponed bool   // it was to be delivered later; if Rejected, it could not be stored
	Spent     bool   // the connection has reached its number of requests or its age; set for HTTP/1.1
}

// A Decision is what the limiter has decided about a request.
type Decision uint8

const (
	Undecided Decision = iota // there is none: own endpoints, malformed requests
	Forwarded
	Rejected
	Exempt   // no limit applies
	Deferred // it will be delivered later
)

// buffersKept bounds the free buffers of a loop, and bufferKeptMax the size of each, so that
// the memory of large bodies is freed.
const (
	buffersKept   = 256
	bufferKeptMax = 16 << 10
)

// Begin begins a call of a carrier. It drops what a call that panicked may have left of another
// exchange.
func (e *Env) Begin() {
	if e.begun {
		*e.fx = Effects{}
	}
	e.begun, e.fields = true, e.fields[:0]
}

// takeFree takes a free buffer, or makes one for n elements.
func takeFree[T any](free *[][]T, n int) []T {
	last := len(*free) - 1
	if last < 0 {
		return make([]T, 0, n)
	}
	b := (*free)[last]
	*free = (*free)[:last]
	return b
}

// take returns an empty buffer.
func (e *Env) take() []byte { return takeFree(&e.free, 1024) }

// give returns a buffer that is no longer used.
func (e *Env) give(b []byte) {
	if cap(b) > 0 && cap(b) <= bufferKeptMax && len(e.free) < buffersKept {
		e.free = append(e.free, b[:0])
	}
}
