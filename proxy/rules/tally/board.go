package tally

import (
	"hash/maphash"
	"slices"
	"time"
)

const (
	// countersMax is the number of counters of each kind, about 200 bytes each, that the
	// sketches of a board share.
	countersMax = 16384
	// sizeMax and sizeMin bound the counters of one rule: the more rules, the fewer.
	sizeMax = 512
	sizeMin = 32
	// watchedMax bounds the rules with sketches; later rules have none.
	watchedMax = countersMax / sizeMin
)

// A Board keeps the keys seen most and refused most of each rule. Rules have an index, their
// position in the rules in force, and an id. A rule takes memory from its first request on.
// The total is at most 7 MB, and twice that after rules were added.
//
// Owned by its loop.
type Board struct {
	halfLife time.Duration
	seed     maphash.Seed
	ids      []string
	rules    []watched
	watched  int
}

// watched has the sketches of one rule; each is nil before the first request or refusal.
type watched struct{ busiest, refused *Sketch }

// NewBoard returns a board without rules. Boards whose views are merged must have the same
// seed.
func NewBoard(halfLife time.Duration, seed maphash.Seed) *Board {
	return &Board{halfLife: halfLife, seed: seed}
}

// SetRules replaces the rules. Those that stay, by id, keep their sketches, unless these are
// now more than twice too large.
func (b *Board) SetRules(ids []string) {
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

// Touch counts a request with a key of the rule with index i, and whether it was refused, if
// the rule has sketches. It allocates only on a rule's first request and first refusal.
func (b *Board) Touch(now time.Time, i int, key []byte, refused bool) {
	w := &b.rules[i]
	if w.busiest == nil {
		if b.watched == watchedMax {
			return
		}
		b.watched++
		w.busiest = NewSketch(b.size(), b.halfLife, b.seed)
	}
	w.busiest.Touch(now, key)
	if !refused {
		return
	}
	if w.refused == nil {
		w.refused = NewSketch(b.size(), b.halfLife, b.seed)
	}
	w.refused.Touch(now, key)
}

// size returns the number of counters of a new sketch.
func (b *Board) size() int { return min(max(countersMax/len(b.ids), sizeMin), sizeMax) }

// View returns the views of a rule at now, which are empty for an unknown rule.
func (b *Board) View(now time.Time, rule string) (busiest, refused View) {
	i := slices.Index(b.ids, rule)
	if i < 0 {
		return busiest, refused
	}
	return b.rules[i].busiest.View(now), b.rules[i].refused.View(now)
}
