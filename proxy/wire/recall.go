package wire

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	mathrand "math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"weir/proxy/exchange"
	"weir/proxy/limit"
	"weir/proxy/rule"
	"weir/proxy/store"
)

// recallDefault is how many decisions of one kind a loop remembers.
const recallDefault = 4096

// A decisionID names a decision. It is random, so that nobody can derive the id of
// another client's decision from their own.
type decisionID [12]byte

// A recall remembers the last decisions of one kind (D) of one loop, so that a
// client's report of a decision id can be explained.
//
// Safe for concurrent use: the loop writes, an own endpoint reads, mu guards.
type recall[D any] struct {
	random *mathrand.ChaCha8 // seeded by the system once: a decision makes no system call

	mu   sync.Mutex
	next int          // index of the oldest
	ids  []decisionID // of the decisions in ring; beside them, so that a search reads little memory
	ring []D
	text []byte // of the newest id
}

// refused is a refusal and when it was. Its key is a copy, as far as that is
// kept.
// It holds no rule and no limit, which are parts of whole sets.
type refused struct {
	at        time.Time
	rule      string
	mode      rule.Mode
	parts     []rule.Part
	algorithm limit.Algorithm
	window    time.Duration
	cost      int64
	client    netip.Addr
	version   string
	keyBytes  int
	key       [store.PartBytesMax]byte
	idBytes   int
	id        [exchange.RequestIDMax]byte // of the request
	limit.Decision
}

// Recalled is a refusal as GET /config/decisions/<id> tells it. Times are
// seconds.
type Recalled struct {
	ID         string          `json:"id"`
	At         time.Time       `json:"at"`
	Rule       string          `json:"rule"`
	Mode       rule.Mode       `json:"mode"`
	Key        []rule.Part     `json:"key,omitempty"` // what is counted apart; none: everything together
	Counter    string          `json:"counter"`       // the key's value, shortened; of secret parts a digest
	Algorithm  limit.Algorithm `json:"algorithm"`
	Window     float64         `json:"window,omitempty"`
	Cost       int64           `json:"cost"`
	Client     netip.Addr      `json:"client"`
	Limit      int64           `json:"limit"`
	Remaining  int64           `json:"remaining"`
	RetryAfter *float64        `json:"retryAfter,omitempty"` // none: the limit can never hold the cost
	ResetAfter float64         `json:"resetAfter"`
	Version    string          `json:"configuration"` // which limits and rules were in force
	RequestID  string          `json:"requestId,omitempty"`
}

// explain turns what was noted into what is told.
func (r *refused) explain(id string) Recalled {
	e := Recalled{ID: id, At: r.at.UTC(), Rule: r.rule, Mode: r.mode, Key: r.parts, Counter: strconv.QuoteToASCII(string(rule.AppendShown(nil, r.key[:r.keyBytes]))),
		Algorithm: r.algorithm, Window: r.window.Seconds(), Cost: r.cost, Client: r.client,
		Limit: r.Limit, Remaining: r.Remaining, ResetAfter: r.ResetAfter.Seconds(), Version: r.version, RequestID: string(r.id[:r.idBytes])}
	if r.RetryAfter != limit.Never {
		after := r.RetryAfter.Seconds()
		e.RetryAfter = &after
	}
	return e
}

// newRecall returns a recall of the given size, or of recallDefault.
func newRecall[D any](size int) *recall[D] {
	if size <= 0 {
		size = recallDefault
	}
	var seed [32]byte
	_, _ = rand.Read(seed[:]) // never fails
	return &recall[D]{random: mathrand.NewChaCha8(seed), ids: make([]decisionID, 0, size), ring: make([]D, size)}
}

// note remembers the decision that put writes over an older one, and returns its id,
// which is valid until the next call.
func (r *recall[D]) note(put func(place *D)) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == len(r.ids) && len(r.ids) < len(r.ring) {
		r.ids = r.ids[:len(r.ids)+1]
	}
	id := &r.ids[r.next]
	binary.LittleEndian.PutUint64(id[:8], r.random.Uint64())
	binary.LittleEndian.PutUint32(id[8:], uint32(r.random.Uint64()))
	put(&r.ring[r.next])
	r.next = (r.next + 1) % len(r.ring)
	r.text = hex.AppendEncode(r.text[:0], id[:])
	return r.text
}

// find returns the decision with the given id, if it is this loop's and not yet
// forgotten.
func (r *recall[D]) find(text string) (d D, ok bool) {
	var id decisionID
	if len(text) != hex.EncodedLen(len(id)) {
		return d, false
	}
	if _, err := hex.Decode(id[:], []byte(text)); err != nil {
		return d, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.Index(r.ids, id)
	if i < 0 {
		return d, false
	}
	return r.ring[i], true
}

// refused remembers a refusal and returns its id, which is valid until the next call.
func (s *side) refused(now time.Time, refusal *exchange.Refusal) []byte {
	return s.refusals.note(func(r *refused) {
		r.at, r.Decision = now, refusal.Decision
		r.rule, r.mode, r.parts = refusal.Rule.ID, refusal.Rule.Mode, refusal.Rule.Key
		r.algorithm, r.window = refusal.Limit.Algorithm(), refusal.Limit.Window()
		r.cost, r.client, r.version = refusal.Cost, refusal.Client, refusal.Version
		r.keyBytes = copy(r.key[:], refusal.Key)
		r.idBytes = copy(r.id[:], refusal.Request)
	})
}

// Recall returns the refusal, a [Recalled], or the shedding, a [Shed], that a client
// was told about as decision id.
func (f *Front) Recall(id string) (any, bool) {
	for _, s := range f.sides {
		if r, ok := s.refusals.find(id); ok {
			return r.explain(id), true
		}
		if s.sheds == nil {
			continue
		}
		if d, ok := s.sheds.find(id); ok {
			return d.explain(id, &f.classes), true
		}
	}
	return nil, false
}
