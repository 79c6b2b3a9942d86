package sketch

import (
	"hash/maphash"
	"time"
)

const (
	// countersMax is how many counters of each kind, about 200 bytes each, the
	// sketches of a board share out.
	countersMax = 16384
	// sizeMax and sizeMin are the counters of one rule: the more rules, the fewer.
	sizeMax = 512
	sizeMin = 32
	// watchedMax is how many rules a board keeps sketches of: those seen first.
	watchedMax = countersMax / sizeMin
)

// A Board keeps, for each rule, the keys seen most and those refused most. Rules
// are known by their place in the rules in force and by their ids. A rule costs
// memory from its first request on; the whole is bounded: 7 MB, and twice that after
// rules were added.
//
// Owned by its loop.
type Board struct {
	halfLife time.Duration
	seed     maphash.Seed
	ids      []string
	rules    []watched
	watched  int
}

// watched is the sketches of one rule; nil before its first request or refusal.
type watched struct{ busiest, refused *Sketch }

// NewBoard returns a board without rules. Boards whose views are merged have the
// same seed.
func NewBoard(halfLife time.Duration, seed maphash.Seed) *Board {
	return &Board{halfLife: halfLife, seed: seed}
}

// SetRules says which rules there are from now on. Those that stay, by their ids,
// keep what is known of them, unless they were so few that their sketches are now
// more than twice too large.
func (b *Board) SetRules(ids []string) {
	known := make(map[string]watched, len(b.ids))
	for i, id := range b.ids {
		known[id] = b.rules[i]
	}
	b.ids, b.rules, b.watched = append([]string(nil), ids...), make([]watched, len(ids)), 0
	for i, id := range ids {
		w := known[id]
		if w.busiest == nil || w.busiest.Size() > 2*b.size() {
			continue
		}
		b.rules[i] = w
		b.watched++
	}
}

// Touch counts a request on a key of the rule at place i, and whether it was
// refused; not when the rule came when the board was full. It allocates on the first
// request and the first refusal of a rule only.
func (b *Board) Touch(now time.Time, i int, key []byte, refused bool) {
	w := &b.rules[i]
	if w.busiest == nil {
		if b.watched == watchedMax {
			return
		}
		b.watched++
		w.busiest = New(b.size(), b.halfLife, b.seed)
	}
	w.busiest.Touch(now, key)
	if !refused {
		return
	}
	if w.refused == nil {
		w.refused = New(b.size(), b.halfLife, b.seed)
	}
	w.refused.Touch(now, key)
}

// size is how many counters a new sketch gets.
func (b *Board) size() int { return min(max(countersMax/len(b.ids), sizeMin), sizeMax) }

// View returns what is known of a rule at now: nothing of one that it does not
// know.
func (b *Board) View(now time.Time, rule string) (busiest, refused View) {
	for i, id := range b.ids {
		if id != rule {
			continue
		}
		if s := b.rules[i].busiest; s != nil {
			busiest = s.View(now)
		}
		if s := b.rules[i].refused; s != nil {
			refused = s.View(now)
		}
	}
	return busiest, refused
}
