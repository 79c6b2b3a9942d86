package upstream

import (
	"math"
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
	// lineMemory is over what time the places of a key are averaged, and how long the
	// reserve is remembered.
	lineMemory = 3 * time.Second
	// lineLoss is the share of those with few places that may wait in vain.
	lineLoss = .005
	// lineScore is how finely keys are told apart by the places that they have had lately:
	// those with less than a quarter of a place are alike, and served in order.
	lineScore = 4
)

// A Line is where requests wait for a place at any of several targets, and knows
// whose turn it is:
//
//   - those of the highest priority;
//   - of these, those of the key that has the fewest places, now and lately, so that no
//     key gets more than the others, however much it asks for and however long its
//     requests take;
//   - of these, those who came first, and when some have waited in vain for a while,
//     those who came last.
//
// A key whose requests take long would still collect one place after the other in the
// moments in which nobody else waits. So whenever a request of a key with few places waits
// in vain, one more place is kept from the keys with many for a while.
//
// Owned by its loop.
type Line[W any] struct {
	most   int // waiters
	count  int
	joined uint64          // ever
	late   bool            // since nobody waited last somebody has waited in vain,
	lateAt time.Time       // then for the first time
	ranks  [Ranks]*rank[W] // nil: nobody of that rank has ever waited

	places  [lineKeys]places // by key
	taken   int              // places of all keys
	holders int              // keys that have any

	reserves [Ranks]reserve
}

// A reserve is how many places are kept free of greedy keys of the same rank or a lower
// one.
type reserve struct {
	n  float64
	at time.Time // as of then
}

// now is how many there are now.
func (r *reserve) now(now time.Time) float64 {
	since := now.Sub(r.at)
	if r.n == 0 || since < 0 { // the clock was set back
		return 0
	}
	return r.n * math.Exp(-since.Seconds()/lineMemory.Seconds())
}

// places are those of a key.
type places struct {
	n    int32
	mean float32   // of n, lately
	at   time.Time // as of then
}

// add adds n places at now.
func (p *places) add(now time.Time, n int32) {
	p.mean, p.at = p.lately(now), now
	p.n += n
}

// lately is how many places the key has had on average of late.
func (p *places) lately(now time.Time) float32 {
	part := float32(now.Sub(p.at)) / float32(lineMemory)
	return p.mean + (float32(p.n)-p.mean)*max(0, min(1, part))
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

// GiveUp notes that w has waited in vain, and takes it out of the line if it is there.
func (l *Line[W]) GiveUp(now time.Time, w *Waiter[W]) {
	l.Leave(w)
	if l.poor(w.key) {
		r := &l.reserves[w.rank]
		*r = reserve{min(r.now(now)+1, float64(l.taken)), now}
	}
	if !l.late {
		l.late, l.lateAt = true, now
	}
}

// greedy reports whether a key would have more than twice as many places as keys have on
// average if it had one more.
func (l *Line[W]) greedy(key uint8) bool { return (int(l.places[key].n)+1)*l.holders > 2*l.taken }

// poor reports whether a key has less than half as many places as keys have on average.
func (l *Line[W]) poor(key uint8) bool { return 2*int(l.places[key].n)*l.holders < l.taken }

// kept is how many places are left free of greedy keys of a rank.
func (l *Line[W]) kept(now time.Time, rank int) (n float64) {
	for i := range l.reserves[:rank+1] {
		n = max(n, l.reserves[i].now(now))
	}
	return n
}

// Admits reports whether w may have one of so many places that are free at a target.
func (l *Line[W]) Admits(now time.Time, w *Waiter[W], free int) bool {
	return free > 0 && (!l.greedy(w.key) || float64(free) > l.kept(now, int(w.rank)))
}

// Next takes out of the line who is to have one of so many places that are free at a
// target; nil: nobody.
func (l *Line[W]) Next(now time.Time, free int) *Waiter[W] {
	if l.count == 0 {
		return nil
	}
	lastFirst := l.late && now.Sub(l.lateAt) > linePressure
	for i, r := range l.ranks {
		if r == nil {
			continue
		}
		w, any := l.best(now, r, lastFirst, float64(free) > l.kept(now, i))
		if w != nil {
			l.Leave(w)
		}
		if any { // lower ranks have to wait in any case
			return w
		}
	}
	return nil
}

// best is who is next of a rank, if any wait; all says that greedy keys may have a place.
func (l *Line[W]) best(now time.Time, r *rank[W], lastFirst, all bool) (best *Waiter[W], any bool) {
	least := 0
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
			any = true
			if !all && l.greedy(key) {
				continue
			}
			if lastFirst {
				w = f.last
			}
			p := &l.places[key]
			score := max(int(p.n), int(lineScore*p.lately(now)))
			if best == nil || score < least || score == least && (w.ticket > best.ticket) == lastFirst {
				best, least = w, score
			}
		}
	}
	return best, any
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
func (l *Line[W]) Take(now time.Time, w *Waiter[W]) {
	l.Give(now, w)
	if r := &l.reserves[w.rank]; r.n > 0 && l.poor(w.key) {
		*r = reserve{max(0, r.now(now)-lineLoss), now}
	}
	w.placed, w.placedBy = true, w.key
	l.note(now, w.key, 1)
}

// Give notes that w has no place any more.
func (l *Line[W]) Give(now time.Time, w *Waiter[W]) {
	if w.placed {
		w.placed = false
		l.note(now, w.placedBy, -1)
	}
}

// note adds n places to those of a key.
func (l *Line[W]) note(now time.Time, key uint8, n int) {
	p := &l.places[key]
	had := p.n > 0
	p.add(now, int32(n))
	l.taken += n
	if has := p.n > 0; has != had {
		l.holders += n
	}
}
