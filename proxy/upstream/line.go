package upstream

import (
	"math/bits"
	"time"
)

const (
	// Ranks is how many priority classes a Line tells apart; 0 is served first.
	Ranks = 8
	// lineKeys is how many keys it tells apart, by their hashes. Keys whose hashes
	// are the same share their luck.
	lineKeys = 256
	// linePressure is how long requests must have waited in vain until those who came
	// last are served first. Short crowds are served in order; in a lasting one the
	// first would all be served just before they give up.
	linePressure = 100 * time.Millisecond
)

// A Line is where requests wait for a place at any of several targets, and knows
// whose turn it is:
//
//   - those of the highest priority;
//   - of these, those of the key that has the fewest places at the time, so that no
//     key gets more than the others, however much it asks for and however long its
//     requests take;
//   - of these, those who came first, and when some have waited in vain for a while,
//     those who came last.
//
// Owned by its loop.
type Line[W any] struct {
	most   int // waiters
	count  int
	joined uint64           // ever
	late   bool             // since nobody waited last somebody has waited in vain,
	lateAt time.Time        // then for the first time
	held   [lineKeys]uint32 // places
	ranks  [Ranks]*rank[W]  // nil: nobody of that rank has ever waited
}

// A rank is those of one priority class who wait.
type rank[W any] struct {
	some [lineKeys / 64]uint64 // a bit for each key of which somebody may wait
	keys [lineKeys]fifo[W]
}

// NewLine returns a Line of at most most waiters.
func NewLine[W any](most int) *Line[W] { return &Line[W]{most: most} }

// Len is how many wait.
func (l *Line[W]) Len() int { return l.count }

// Join has w wait. When the line is full one leaves it who would be served last,
// which may be w: it is returned, to be refused.
func (l *Line[W]) Join(w *Waiter[W]) (out *Waiter[W]) {
	if l.count >= l.most {
		if out = l.worst(w); out == w {
			return w
		}
		l.Leave(out)
	}
	if l.count == 0 {
		l.late = false
	}
	r := l.ranks[w.rank]
	if r == nil {
		r = new(rank[W])
		l.ranks[w.rank] = r
	}
	l.joined++
	w.ticket = l.joined
	r.keys[w.key].add(w)
	r.some[w.key/64] |= 1 << (w.key % 64)
	l.count++
	return out
}

// Leave takes w out of the line, if it waits there.
func (l *Line[W]) Leave(w *Waiter[W]) {
	if w.line != nil {
		w.leave()
		l.count--
	}
}

// GiveUp takes w out of the line, who has waited in vain.
func (l *Line[W]) GiveUp(now time.Time, w *Waiter[W]) {
	l.Leave(w)
	if !l.late {
		l.late, l.lateAt = true, now
	}
}

// Next takes out of the line whose turn it is; nil: nobody waits.
func (l *Line[W]) Next(now time.Time) *Waiter[W] {
	if l.count == 0 {
		return nil
	}
	lastFirst := l.late && now.Sub(l.lateAt) > linePressure
	for _, r := range l.ranks {
		if r == nil {
			continue
		}
		if w := l.best(r, lastFirst); w != nil {
			l.Leave(w)
			return w
		}
	}
	panic("bug: a line has lost who waits in it")
}

// best is who is next of a rank; nil: nobody waits.
func (l *Line[W]) best(r *rank[W], lastFirst bool) (best *Waiter[W]) {
	for i := range r.some {
		for left := r.some[i]; left != 0; left &= left - 1 {
			bit := bits.TrailingZeros64(left)
			key := uint8(64*i + bit)
			f := &r.keys[key]
			w := f.first
			if w == nil {
				r.some[i] &^= 1 << bit
				continue
			}
			if lastFirst {
				w = f.last
			}
			if best == nil || l.held[key] < l.held[best.key] ||
				l.held[key] == l.held[best.key] && (w.ticket > best.ticket) == lastFirst {
				best = w
			}
		}
	}
	return best
}

// worst is who is last of the line with w: of the lowest priority, of the key of which
// the most wait, the one who has waited longest. Under pressure such wait in vain.
func (l *Line[W]) worst(w *Waiter[W]) *Waiter[W] {
	for rank := Ranks - 1; rank > int(w.rank); rank-- {
		if out := l.crowd(rank); out != nil {
			return out.first
		}
	}
	f := l.crowd(int(w.rank))
	if f == nil || f.count <= l.ranks[w.rank].keys[w.key].count {
		return w
	}
	return f.first
}

// crowd is those of the key of which the most wait, of a rank; nil: nobody does.
func (l *Line[W]) crowd(rank int) (most *fifo[W]) {
	r := l.ranks[rank]
	if r == nil {
		return nil
	}
	for key := range r.keys {
		if f := &r.keys[key]; f.count > 0 && (most == nil || f.count > most.count) {
			most = f
		}
	}
	return most
}

// Take notes that w has a place at a target now, until Give.
func (l *Line[W]) Take(w *Waiter[W]) {
	l.Give(w)
	w.placed, w.placedBy = true, w.key
	l.held[w.key]++
}

// Give notes that w has no place any more.
func (l *Line[W]) Give(w *Waiter[W]) {
	if w.placed {
		w.placed = false
		l.held[w.placedBy]--
	}
}
