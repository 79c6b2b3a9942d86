package tally

import (
	"hash/maphash"
	"slices"
	"time"
)

const (
	// countersMax is the number of counters of each kind, about 200 bytes each, that the
	// sketches of TopKeys share.
	countersMax = 16384
	// sizeMax and sizeMin bound the counters of one rule: the more rules, the fewer.
	sizeMax = 512
	sizeMin = 32
	// watchedMax bounds the rules with sketches; later rules have none.
	watchedMax = countersMax / sizeMin
)

// A TopKeys keeps the keys seen most and refused most of each rule. Rules have an index, their
// position in the rules in force, and an id. A rule takes memory from its first request on.
// The total is at most 7 MB, and twice that after rules were added.
//
// Owned by its loop.
type TopKeys struct {
	halfLife time.Duration
	seed     maphash.Seed
	ids      []string
	rules    []watched
	watched  int
}

// watched has the sketches of one rule; each is nil before the first request or refusal.
type watched struct{ busiest, refused *Sketch }

// NewTopKeys returns TopKeys without rules. Those whose rankings are merged must have the same
// seed.
func NewTopKeys(halfLife time.Duration, seed maphash.Seed) *TopKeys {
	return &TopKeys{halfLife: halfLife, seed: seed}
}

// SetRules replaces the rules. Those that stay, by id, keep their sketches, unless these are
// now more than twice too large.
func (b *TopKeys) SetRules(ids []string) {
	known := make(map[string]watched, len(b.ids))
	for i, id := range b.ids {
		known[id] = b.rules[i]
	}
	b.ids, b.rules, b.watched = slices.Clone(ids), make([]watched, len(ids)), 0
	for i, id := range ids {
		w := known[id]
		if w.busiest == nil || w.busiest.Size() > 2*b.size() {
			continue
		}
		b.rules[i] = w
		b.watched++
	}
}

// Observe counts a request with a key of the rule with index i, and whether it was refused, if
// the rule has sketches. It allocates only on a rule's first request and first refusal.
func (b *TopKeys) Observe(now time.Time, i int, key []byte, refused bool) {
	w := &b.rules[i]
	if w.busiest == nil {
		if b.watched == watchedMax {
			return
		}
		b.watched++
		w.busiest = NewSketch(b.size(), b.halfLife, b.seed)
	}
	w.busiest.Observe(now, key)
	if !refused {
		return
	}
	if w.refused == nil {
		w.refused = NewSketch(b.size(), b.halfLife, b.seed)
	}
	w.refused.Observe(now, key)
}

// size returns the number of counters of a new sketch.
func (b *TopKeys) size() int { return min(max(countersMax/len(b.ids), sizeMin), sizeMax) }

// Ranking returns the rankings of a rule at now, which are empty for an unknown rule.
func (b *TopKeys) Ranking(now time.Time, rule string) (busiest, refused Ranking) {
	i := slices.Index(b.ids, rule)
	if i < 0 {
		return busiest, refused
	}
	return b.rules[i].busiest.Ranking(now), b.rules[i].refused.Ranking(now)
}
