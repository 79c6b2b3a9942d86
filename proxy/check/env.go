package check

import (
	"net/netip"
	"time"

	"weir/internal/cycle"
	"weir/internal/http1"
	"weir/internal/strict"
	"weir/proxy/asks"
	"weir/proxy/decide"
	"weir/proxy/store"
)

// Documents are what a master shows its sidecars.
//
// Immutable after New.
type Documents struct {
	Marks []byte                    // the answer to GET /v1/marks
	Named map[string]store.Document // by name; others are not shown
}

// Marks are texts that are others when something has changed: keys by edits, and documents
// by their names.
type Marks struct {
	Edits     string            `json:"edits"`
	Documents map[string]string `json:"documents"`
}

// An Edit is a change of one key.
type Edit struct {
	Rule string
	Key  []byte
	Add  int64 // 0: it is forgotten

	turn uint32 // of the Session
}

// An API is a part of the decision port, as it is counted.
type API uint8

const (
	Other  API = iota // health, and what is not there
	Remote            // for sidecars
	Check             // for other proxies
	JSON              // for Envoy's rate limit service
	APIs
)

// String is the value of the label api.
func (a API) String() string { return [...]string{"other", "remote", "check", "json"}[a] }

// An Env is what the sessions of one loop have in common: what they need of the rim, the
// effects of the one that was told something last, and memory that only one needs at a
// time.
//
// Owned by its loop.
type Env struct {
	Access *Access
	// Ask has the store decide; done is called later unless it returns true.
	Ask func(now time.Time, ask *store.Ask, ans *store.Answer, done store.Done) bool
	// Release gives a place in a queue back, booked in that mode.
	Release func(now time.Time, c *store.Counter, slot int64, mode store.Mode)
	// Mode is how the store answers now.
	Mode func() store.Mode
	// Documents are as they were read last; nil: they have not been.
	Documents func() *Documents
	// Edit has a key edited, and HandleEdited called, or HandleLate when it takes too long;
	// false: too many wait. The time counts from the first edit of an exchange.
	Edit func(now time.Time, s *Session, e *Edit) bool
	// Policy is what is enforced for described requests.
	Policy func() *decide.Policy
	// RateLimit is what Envoy's rate limit service decides by.
	RateLimit *RateLimit
	// Trusted reports whether an address is that of a trusted proxy.
	Trusted func(netip.Addr) bool
	// PreflightsApart has preflights be counted apart.
	PreflightsApart bool
	// Refused remembers a refusal, which it copies, and names it: the decision id.
	Refused func(now time.Time, r *decide.Refusal) (id []byte)
	// Answers writes refusals.
	Answers decide.Answers
	// Healthy reports whether the port wants requests.
	Healthy func() bool
	// DrainGrace is how long idle connections live when draining.
	DrainGrace time.Duration
	// Answered is told after an exchange has ended that waited.
	Answered func(now time.Time, s *Session)
	// Count counts an answer.
	Count func(api API, status int)

	// Out is to be sent, and then the connection to be closed as Close says.
	Out   []byte
	Close cycle.Close

	head     http1.Head
	question asks.Question
	answer   store.Answer
	pending  []*pending // to use again
	limited  []*limited // likewise
	node     strict.Node

	described described
	matched   decide.Case
	verdict   decide.Verdict
	refusal   decide.Refusal
	shadow    store.Ask
	body      []byte // of the answer under construction
	extra     []byte // its fields
	date      http1.Date
}

// outBytesKept and pendingKept bound the memory that is kept for later.
const (
	outBytesKept = 512 << 10
	pendingKept  = 1024
)

// Reset forgets the effects and keeps the memory. The rim calls it when it has done what
// they say.
func (e *Env) Reset() {
	e.Out, e.Close = e.Out[:0], cycle.CloseNone
	if cap(e.Out) > outBytesKept {
		e.Out = nil
	}
}

// A pending is an ask that waits for the store. It is used again.
//
// Owned by its loop.
type pending struct {
	env     *Env
	session *Session
	turn    uint32 // of the session
	index   int
	done    store.Done // made once
}

// take returns one for an ask of s.
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

// answered is told the store's answer later.
func (p *pending) answered(now time.Time, ans *store.Answer) {
	s, index, stale := p.session, p.index, p.turn != p.session.turn
	p.env.give(p)
	if !stale && s.handleAnswer(now, index, ans) {
		p.env.Answered(now, s)
	}
}
