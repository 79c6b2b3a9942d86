package wire

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"weir/proxy/session"
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
	ring []Recalled
	id   []byte
}

// Recalled is a refusal as it was.
type Recalled struct {
	At time.Time
	session.Refusal
}

func newRecall(index, size int) *recall {
	if size <= 0 {
		size = recallDefault
	}
	prefix := strconv.AppendUint(nil, uint64(rand.Uint32()), 36)
	prefix = append(prefix, '-')
	prefix = strconv.AppendInt(prefix, int64(index), 36)
	return &recall{prefix: append(prefix, '-'), ring: make([]Recalled, size)}
}

// note remembers r and returns its id, which is valid until the next call.
func (r *recall) note(now time.Time, refusal *session.Refusal) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ring[r.next%uint64(len(r.ring))] = Recalled{now, *refusal}
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
	return r.ring[n%uint64(len(r.ring))], true
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
