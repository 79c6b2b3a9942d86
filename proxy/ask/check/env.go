package check

import (
	"net/netip"
	"time"

	"weir/internal/data/strict"
	"weir/internal/net/cycle"
	"weir/internal/net/http1"
	"weir/internal/net/http2"
	"weir/proxy/rules/decide"
	"weir/proxy/store"
	"weir/proxy/store/asks"
)

// Documents are the configuration that a master provides to its sidecars.
//
// Immutable after New.
type Documents struct {
	Marks []byte                    // asks.Fingerprints in JSON
	Named map[string]store.Document // by name; others are not available
}

// An Edit is a change of one key.
type Edit struct {
	Rule      string
	Key       []byte
	Add       int64 // 0: it is forgotten
	PerSecond bool  // the limit is one per second of Envoy's rate limit service
	Sidecar   bool  // a sidecar asks, which does not say whether the limit is per second
	// Until is when its exchange is answered without it.
	Until time.Time
	From  netip.Addr // the asker

	turn uint32 // turn of the Session
}

// An API is a part of the decision port, for counting.
type API uint8

const (
	OtherAPI API = iota // health, and unknown paths
	Sidecar             // for sidecars
	Check               // for other proxies
	JSON                // for Envoy's rate limit service
	GRPC                // likewise, and for health checks: counted by code, not by status
)

// String returns the value of the label api.
func (a API) String() string { return [...]string{"other", "remote", "check", "json", "grpc"}[a] }

// A Protocol is what an asker uses.
type Protocol uint8

const (
	HTTP1 Protocol = iota
	H2             // HTTP/2 over TLS
	H2C            // HTTP/2 without TLS
	Protocols
)

// String returns the value of the label protocol.
func (p Protocol) String() string { return [...]string{"http1", "h2", "h2c"}[p] }

// An Env is what the sessions of one loop share: callbacks to the rim, the effects of the
// session called last, and memory that only one session needs at a time.
//
// Owned by its loop.
type Env struct {
	Access *AccessPolicy
	// Head bounds the heads of requests; nil means the defaults.
	Head *http1.Limits
	// Ask asks the store. It returns true if it has answered; otherwise done is called
	// later.
	Ask func(now time.Time, ask *store.Ask, ans *store.Answer, done store.Done) bool
	// Refund gives back what a request was charged in the given mode; see [store.Lane].
	Refund func(now time.Time, c *store.Counter, instant int64, mode store.Mode)
	// Mode returns how the store currently answers.
	Mode func() store.Mode
	// Documents returns the documents last read, or nil before that.
	Documents func() *Documents
	// Edit starts an edit of a key. Later HandleEdited is called. It returns false if too
	// many edits wait, of all askers or of this one.
	Edit func(now time.Time, s *Session, e *Edit) bool
	// EditTimeout is how long an exchange with edits waits, counted from its first one.
	EditTimeout time.Duration
	// Policy returns the policy for described requests.
	Policy func() *decide.Policy
	// RateLimitService has what Envoy's rate limit service needs for decisions.
	RateLimit *RateLimitService
	// Trusted reports whether an address is that of a trusted proxy.
	Trusted func(netip.Addr) bool
	// AdmitUndescribed says that requests that cannot be described are admitted.
	AdmitUndescribed bool
	// Undescribed notes such a request, and why it is one.
	Undescribed func(now time.Time, reason string)
	// HoldMax bounds how long the answer to a described request is held until its slots are due, in
	// whole microseconds.
	HoldMax time.Duration
	// PreflightsApart says that preflights are counted separately.
	PreflightsApart bool
	// Refused remembers a refusal, which it copies, and returns its decision id.
	Refused func(now time.Time, r *decide.Refusal) (id []byte)
	// Answers writes refusals.
	Answers decide.Responder
	// Healthy reports whether the port accepts requests.
	Healthy func() bool
	// DrainGrace is how long idle connections stay open when draining.
	DrainGrace time.Duration
	// Answered is called after an exchange that waited has ended.
	Answered func(now time.Time, s *Session)
	// Count counts an answer, by its status, or with GRPC by its GRPCCode.
	Count func(api API, status int, p Protocol)

	// HTTP2 bounds connections of HTTP/2.
	HTTP2 http2.Limits
	// EndOf returns when a connection of HTTP/2 accepted now reaches its maximum age; zero means never. Its streams
	// may continue for AgeGrace then.
	EndOf    func(now time.Time) time.Time
	AgeGrace time.Duration
	// Cut counts a stream that is ended because the asker makes no room for the answer.
	Cut func()

	// Out is to be sent, and then the connection closed as Close says.
	Out   []byte
	Close cycle.Close

	head     http1.Head
	question asks.Batch
	answer   store.Answer
	pending  []*pending // for reuse
	limited  []*limited // for reuse
	streams  []*Session // for reuse
	heads    http2.Head
	node     strict.Node

	described described
	matched   decide.Evaluation
	verdict   decide.Verdict
	refusal   decide.Refusal
	shadow    store.Ask
	body      []byte // of the answer under construction
	extra     []byte // its fields, until it is written
	fields    []byte // those of one of HTTP/2
	date      http1.Date
}

// outBytesKept and pendingKept bound the memory that is kept for reuse.
const (
	outBytesKept = 512 << 10
	pendingKept  = 1024
)

// Reset clears the effects and keeps the memory. The rim calls it after applying them.
func (e *Env) Reset() {
	e.Out, e.Close = e.Out[:0], cycle.CloseNone
	if cap(e.Out) > outBytesKept {
		e.Out = nil
	}
}

// A pending is an ask that waits for the store. It is reused.
//
// Owned by its loop.
type pending struct {
	env     *Env
	session *Session
	turn    uint32 // of the session
	index   int
	done    store.Done // made once
}

// take returns a pending for an ask of s.
func (e *Env) take(s *Session, index int) *pending {
	var p *pending
	if n := len(e.pending); n > 0 {
		p, e.pending = e.pending[n-1], e.pending[:n-1]
	} else {
		p = &pending{env: e}
		p.done = p.answered
	}
	p.session, p.turn, p.index = s, s.turn, index
	return p
}

func (e *Env) give(p *pending) {
	p.session = nil
	if len(e.pending) < pendingKept {
		e.pending = append(e.pending, p)
	}
}

// answered receives the store's later answer.
func (p *pending) answered(now time.Time, ans *store.Answer) {
	s, index, stale := p.session, p.index, p.turn != p.session.turn
	p.env.give(p)
	switch {
	case stale:
		s.answeredStale()
	case s.handleAnswer(now, index, ans):
		p.env.Answered(now, s)
	}
}
