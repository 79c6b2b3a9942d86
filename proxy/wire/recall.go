package wire

import (
	"math/rand/v2"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"weir/proxy/limit"
	"weir/proxy/rule"
	"weir/proxy/session"
	"weir/proxy/store"
)

// recallDefault is how many refusals one loop remembers.
const recallDefault = 4096

// A recall remembers the last refusals of one loop, so that a client's report
// of a decision id can be explained.
//
// Safe for concurrent use: the loop writes, an own endpoint reads, mu guards.
type recall struct {
	prefix []byte // of this process and loop

	mu   sync.Mutex
	next uint64
	ring []refused
	id   []byte
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
}

// explain turns what was noted into what is told.
func (r *refused) explain(id string) Recalled {
	e := Recalled{ID: id, At: r.at.UTC(), Rule: r.rule, Mode: r.mode, Key: r.parts, Counter: strconv.QuoteToASCII(string(rule.AppendShown(nil, r.key[:r.keyBytes]))),
		Algorithm: r.algorithm, Window: r.window.Seconds(), Cost: r.cost, Client: r.client,
		Limit: r.Limit, Remaining: r.Remaining, ResetAfter: r.ResetAfter.Seconds(), Version: r.version}
	if r.RetryAfter != limit.Never {
		after := r.RetryAfter.Seconds()
		e.RetryAfter = &after
	}
	return e
}

func newRecall(index, size int) *recall {
	if size <= 0 {
		size = recallDefault
	}
	prefix := strconv.AppendUint(nil, uint64(rand.Uint32()), 36)
	prefix = append(prefix, '-')
	prefix = strconv.AppendInt(prefix, int64(index), 36)
	return &recall{prefix: append(prefix, '-'), ring: make([]refused, size)}
}

// note remembers r and returns its id, which is valid until the next call.
func (r *recall) note(now time.Time, refusal *session.Refusal) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	place := &r.ring[r.next%uint64(len(r.ring))]
	place.at, place.Decision = now, refusal.Decision
	place.rule, place.mode, place.parts = refusal.Rule.ID, refusal.Rule.Mode, refusal.Rule.Key
	place.algorithm, place.window = refusal.Limit.Algorithm(), refusal.Limit.Window()
	place.cost, place.client, place.version = refusal.Cost, refusal.Client, refusal.Version
	place.keyBytes = copy(place.key[:], refusal.Key)
	r.id = strconv.AppendUint(append(r.id[:0], r.prefix...), r.next, 36)
	r.next++
	return r.id
}

// find returns the refusal with the given id, if it is this loop's and not yet
// forgotten.
func (r *recall) find(id string) (Recalled, bool) {
	text, ours := strings.CutPrefix(id, string(r.prefix))
	n, err := strconv.ParseUint(text, 36, 64)
	if !ours || err != nil {
		return Recalled{}, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n >= r.next || r.next-n > uint64(len(r.ring)) {
		return Recalled{}, false
	}
	return r.ring[n%uint64(len(r.ring))].explain(id), true
}

// Recall returns the refusal that a client was told about as decision id.
func (f *Front) Recall(id string) (Recalled, bool) {
	for _, s := range f.sides {
		if r, ok := s.recall.find(id); ok {
			return r, true
		}
	}
	return Recalled{}, false
}
