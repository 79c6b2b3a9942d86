package report

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	mathrand "math/rand/v2"
	"slices"
	"sync"
)

// sizeDefault is how many decisions of one kind a loop keeps.
const sizeDefault = 4096

// A decisionID identifies a decision. It is random, so that a client cannot derive the id of
// another client's decision from its own.
type decisionID [12]byte

// A RecentDecisions keeps the latest decisions of one kind (D) of one loop, so that a decision id
// that a client reports can be explained.
//
// Safe for concurrent use: the loop writes, own endpoints read, mu guards.
type RecentDecisions[D any] struct {
	random *mathrand.ChaCha8 // of its loop; seeded once by the system, so that a decision makes no system call

	mu   sync.Mutex
	next int          // index of the oldest
	ids  []decisionID // ids of the decisions in ring, kept separately so that a search reads little memory
	ring []D
	text []byte // of the newest id
}

// NewRecentDecisions returns a memory of the given size; 0: 4,096 decisions.
func NewRecentDecisions[D any](size int) *RecentDecisions[D] {
	if size <= 0 {
		size = sizeDefault
	}
	var seed [32]byte
	_, _ = rand.Read(seed[:]) // never fails
	return &RecentDecisions[D]{random: mathrand.NewChaCha8(seed), ids: make([]decisionID, 0, size), ring: make([]D, size)}
}

// Record stores a decision, which put writes over an older one, and returns its id, valid
// until the next call.
func (r *RecentDecisions[D]) Record(put func(place *D)) []byte {
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

// Find returns the decision with the given id, if it is one of this loop's and not
// overwritten yet.
func (r *RecentDecisions[D]) Find(text string) (d D, ok bool) {
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

// Random returns the source of ids, for other uses on its loop.
func (r *RecentDecisions[D]) Random() *mathrand.ChaCha8 { return r.random }
