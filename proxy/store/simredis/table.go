package simredis

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"weir/proxy/limit"
	"weir/proxy/store"
)

const (
	keysMaxDefault = 10_000_000
	stripesDefault = 256
	stripesMax     = 1 << 16
)

// A Config sizes a table. Zero fields mean the defaults.
type Config struct {
	// KeysMax bounds the number of keys; 10,000,000. A key takes less than 100 bytes if its
	// name is short, and more with sliding_log.
	KeysMax int
	// Stripes is the number of separately locked parts, a power of two; 256.
	Stripes int
}

// A Table keeps the states of keys.
//
// Safe for concurrent use: each stripe has a lock; several are locked in ascending order, that
// of the overflow buckets last.
type Table struct {
	seed     maphash.Seed
	keysMax  int64
	shift    uint // shift of a hash to the number of its stripe
	stripes  []stripe
	overflow stripe // one bucket per rule, beyond keysMax
	keyless  atomic.Pointer[keyless]

	keys       atomic.Int64 // in stripes
	buckets    atomic.Int64 // in overflow
	overflowed atomic.Uint64

	cycle struct { // of Expire
		sync.Mutex
		next int // stripe; len(stripes) means overflow
	}
}

// keyless is the name of the first rule that was asked about without a key, usually the global one, and
// its hash. Nearly every request asks about it.
//
// Immutable.
type keyless struct {
	rule string
	name []byte
	hash uint64
}

// New returns an empty table.
func New(cfg Config) (*Table, error) {
	keys := cmp.Or(cfg.KeysMax, keysMaxDefault)
	stripes := cmp.Or(cfg.Stripes, stripesDefault)
	if keys < 1 {
		return nil, fmt.Errorf("new table: KeysMax must be at least 1, is %d", keys)
	}
	if stripes < 1 || stripes > stripesMax || stripes&(stripes-1) != 0 {
		return nil, fmt.Errorf("new table: Stripes must be a power of two up to %d, is %d", stripesMax, stripes)
	}
	return &Table{
		seed:    maphash.MakeSeed(),
		keysMax: int64(keys),
		shift:   uint(64 - bits.TrailingZeros(uint(stripes))),
		stripes: make([]stripe, stripes),
	}, nil
}

// Take decides ask at now and writes the answer, with mode Exact, to ans; see package store.
func (t *Table) Take(now time.Time, ask *store.Ask, ans *store.Answer) {
	t.take(now.UnixMicro(), ask, ans)
}

func (t *Table) take(at int64, ask *store.Ask, ans *store.Answer) {
	*ans = store.Answer{Decisions: ans.Decisions[:0], At: at, Prior: ans.Prior[:0]}
	switch {
	case len(ask.Counters) != 1:
		t.takeGroup(at, ask, ans)
	case ask.Counters[0].Limit.Algorithm() == limit.Off:
		takeOff(at, ask, ans)
	case !t.takeKnown(at, ask, ans):
		t.takeGroup(at, ask, ans)
	}
}

// takeOff decides an ask with one counter, which has no limit.
func takeOff(now int64, ask *store.Ask, ans *store.Answer) {
	c, none := &ask.Counters[0], limit.State{}
	ans.At = 0
	if ask.WantsPrior {
		ans.Prior = append(ans.Prior, store.PriorState{})
	}
	granted, d := c.Limit.Decide(now, &none, c.Charge(int64(ask.N)))
	ans.Granted, ans.Decisions = int(granted), append(ans.Decisions, d)
}

// takeKnown decides an ask with one counter whose key is in the table, which is the most frequent
// case. It returns false if the key is not in the table.
func (t *Table) takeKnown(now int64, ask *store.Ask, ans *store.Answer) bool {
	var space [store.KeyBytesMax]byte
	c := &ask.Counters[0]
	name, hash := t.named(space[:0], c)
	s := &t.stripes[hash>>t.shift]
	s.mu.Lock()
	r, slot := s.find(hash, name, c.Limit.Kind())
	if r == nil || r.expires() <= now {
		s.mu.Unlock()
		return false
	}
	state := s.state(r, slot)
	if ask.WantsPrior {
		ans.Prior = append(ans.Prior, store.PriorState{At: now, Before: state.Clone()})
	}
	granted, d := c.Limit.Decide(now, &state, c.Charge(int64(ask.N)))
	if !state.EqualBytes(r.bytes()) {
		s.set(r, slot, &state, now+d.TTL().Microseconds())
	}
	s.mu.Unlock()
	ans.Granted = int(granted)
	ans.Decisions = append(ans.Decisions, d)
	return true
}

// named returns the name of a counter and its hash. space is memory with room for the name.
func (t *Table) named(space []byte, c *store.Counter) (name []byte, hash uint64) {
	known := t.keyless.Load()
	if len(c.Key) == 0 && known != nil && known.rule == c.Rule {
		return known.name, known.hash
	}
	name = store.AppendKey(space, c.Rule, c.Key)
	hash = maphash.Bytes(t.seed, name)
	if len(c.Key) == 0 && known == nil {
		t.keyless.Store(&keyless{c.Rule, bytes.Clone(name), hash})
	}
	return name, hash
}

// Refund gives back what a request was charged; see [limit.Limit.Refund]. What was charged to
// an overflow bucket stays charged. It reports whether anything was given back.
func (t *Table) Refund(now time.Time, c *store.Counter, instant int64) bool {
	var space [store.KeyBytesMax]byte
	name, hash := t.named(space[:0], c)
	s := &t.stripes[hash>>t.shift]
	s.mu.Lock()
	defer s.mu.Unlock()
	r, at := s.find(hash, name, c.Limit.Kind())
	if r == nil || r.expires() <= now.UnixMicro() {
		return false
	}
	state := s.state(r, at)
	if !c.Limit.Refund(now.UnixMicro(), &state, c.Cost, instant) {
		return false
	}
	s.set(r, at, &state, r.expires())
	return true
}

// Add gives a key n more permits at now under every kind of limits, but no more than a new key
// has, and reports whether it could use any; see [limit.State.Add]. A key in the overflow
// bucket gets nothing.
func (t *Table) Add(now time.Time, rule string, key []byte, n int64) (changed bool) {
	t.each(rule, key, func(s *stripe, place int) {
		r, slot := s.record(place), s.slot(place)
		if r.expires() <= now.UnixMicro() {
			return
		}
		if state := s.state(r, slot); state.Add(now.UnixMicro(), n) {
			s.set(r, slot, &state, r.expires())
			changed = true
		}
	})
	return changed
}

// Forget removes a key under all kinds of limits, and reports whether it was there. A key in the
// overflow bucket stays there.
func (t *Table) Forget(rule string, key []byte) (known bool) {
	t.each(rule, key, func(s *stripe, place int) {
		s.remove(place)
		t.keys.Add(-1)
		known = true
	})
	return known
}

// each calls do for every place of a key, with the lock of their stripe held; do may remove that
// record.
func (t *Table) each(rule string, key []byte, do func(s *stripe, place int)) {
	name := store.AppendKey(nil, rule, key)
	hash := maphash.Bytes(t.seed, name)
	s := &t.stripes[hash>>t.shift]
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, kind := range s.kinds(hash, name) {
		do(s, s.place(hash, name, kind))
	}
}

// Keys returns the number of keys held now, without overflow buckets; including keys that have
// expired and are not removed yet.
func (t *Table) Keys() int { return int(t.keys.Load()) }

// Overflowed returns the number of decisions about keys that shared the overflow bucket of their
// rule.
func (t *Table) Overflowed() uint64 { return t.overflowed.Load() }

// sweepStep bounds the places that are checked while a stripe's lock is held.
const sweepStep = 64

// Expire checks up to budget places, continuing where the last call ended, and removes keys that
// have expired at now. It returns how many. The owner of the table calls it regularly: expired
// keys count as new in any case, but only Expire frees their memory. A table has one to three
// places per key.
func (t *Table) Expire(now time.Time, budget int) int {
	t.cycle.Lock()
	defer t.cycle.Unlock()
	all := len(t.stripes) + 1
	// The first stripe is visited twice, because its hand may be in the middle.
	expired, passed := 0, 0
	for budget > 0 && passed <= all {
		s := &t.overflow
		if t.cycle.next < len(t.stripes) {
			s = &t.stripes[t.cycle.next]
		}
		s.mu.Lock()
		looked, removed, done := t.sweep(s, now.UnixMicro(), min(budget, sweepStep))
		s.mu.Unlock()
		budget -= looked
		expired += removed
		if done {
			passed++
			t.cycle.next = (t.cycle.next + 1) % all
		}
	}
	return expired
}

// sweep checks up to budget places of a locked stripe's index, from its hand on. done says that
// it reached the end, and the hand starts again.
func (t *Table) sweep(s *stripe, now int64, budget int) (looked, removed int, done bool) {
	for ; looked < budget && s.hand < len(s.index); looked++ {
		if s.index[s.hand] == 0 || s.record(s.hand).expires() > now {
			s.hand++
			continue
		}
		s.remove(s.hand) // another key may have moved to this place
		if s == &t.overflow {
			t.buckets.Add(-1)
		} else {
			t.keys.Add(-1)
		}
		removed++
	}
	if s.hand < len(s.index) {
		return looked, removed, false
	}
	s.hand = 0
	return looked, removed, true
}
