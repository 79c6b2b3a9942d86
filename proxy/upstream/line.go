package upstream

import (
	"math"
	"math/bits"
	"time"
)

const (
	// Ranks is the number of priorities in a Line; 0 is served first.
	Ranks = 9
	// Background is the last rank, of requests whose answers no client waits for.
	Background = Ranks - 1
	// lineKeys is how many keys a Line distinguishes, by hash. Keys with the same hash
	// are treated as one.
	lineKeys = 256
	// Patience is the multiple of a long wait for which a queue with long waits counts as
	// a crowd, which passes. CoDel uses 20, which would refuse many requests of crowds
	// that a target would serve within a second.
	Patience = 30
	// lineBrief is the multiple of a long wait for which a line may be empty during
	// overload. It is multiplied by the number of loops, since each sees only its part of
	// the load.
	lineBrief = 4
	// lineMemory is the time over which the places of a key are averaged, and for which
	// places are reserved against greedy keys.
	lineMemory = 3 * time.Second
	// lineSpare times the square root of all places are reserved.
	lineSpare = 2
	// lineScore is the resolution at which keys are compared by their recent places:
	// differences of less than a sixteenth of a place are ignored.
	lineScore = 16
	// lineGreed is the multiple of an average key's places from which a key is greedy.
	lineGreed = 1.25
	// lineShares is the interval for counting all places and the average of a key.
	lineShares = 100 * time.Millisecond
)

// A Line is a queue of requests that wait for a place at any of several targets. The next
// is, in this order:
//
//   - one with the highest priority;
//   - of these, one of the key with the fewest places, now and recently, so that no
//     key gets more than the others, however much it asks for and however long its
//     requests take;
//   - of these, the one that came first, or if some have waited for long, the one that came
//     last: under overload the first would all be served too late.
//
// The caller defines a long wait. At first a request that has waited for long may keep
// waiting, since there are places again when a crowd has passed. If the line has not been
// empty for thirty times as long after that, it is not a crowd but overload, and no
// request waits for long until the line has been empty for a while. This is decided
// separately for each priority, and separately for greedy keys, which have, now or
// recently, clearly more places than an average key. So none of them ends the patience
// with the others.
//
// A key whose requests are slow would still collect places in the moments in which no
// other waits. So when a request of a key that is not greedy has waited for long, some
// places are reserved for a while against lower priorities and against greedy keys of the
// same priority: twice the square root of all places, because the number in use varies at
// random by about the root, but at most half of them.
//
// Owned by its loop.
type Line[W any] struct {
	of     *Lines    // with the lines of other loops
	loop   int       // index of this loop among them
	own    *standing // this loop's
	most   int       // bound on waiters
	count  int
	joined uint64          // ever
	ranks  [Ranks]*rank[W] // nil: no waiter of that rank so far

	places [lineKeys]places // by key
	free   func(now time.Time) int

	keeps   bool             // some places may be reserved
	keepsAt [Ranks]time.Time // when one of the rank last waited for long; zero: never
	all     int              // places of all loops, taken or free,
	share   float32          // and the average of the keys that had any recently,
	shareAt time.Time        // both as of this time
}

// places are the places of a key.
type places struct {
	n    int32
	mean float32 // recent average of n
	at   int64   // time of mean, see instant
}

// instant is a time in nanoseconds. Every request takes and gives back a place, and a
// number is cheaper to keep and to compare than a time.Time.
func instant(t time.Time) int64 { return t.UnixNano() }

// add adds n places at an instant.
func (p *places) add(at int64, n int32) {
	p.mean, p.at = p.lately(at), at
	p.n += n
}

// lately returns the recent average of the key's places.
func (p *places) lately(at int64) float32 {
	switch since := at - p.at; {
	case since >= int64(lineMemory), since < 0: // the clock was set back: the average starts again
		return float32(p.n)
	default:
		return p.mean + (float32(p.n)-p.mean)*float32(since)*(1/float32(lineMemory))
	}
}

// A rank has the waiters of one priority class.
type rank[W any] struct {
	queues [2]queue              // of keys that are not greedy, and of greedy ones
	some   [lineKeys / 64]uint64 // a bit for each key that may have waiters
	keys   [lineKeys]fifo[W]
}

// A queue records how long waiters have waited together.
type queue struct {
	count  int
	late   bool          // since the queue began one has waited for long,
	lateAt time.Time     // first at this time
	shedAt time.Time     // when one was last shed; zero: never
	memory time.Duration // how long shedAt counts
}

// joins records a new waiter. An empty queue starts again, unless there was overload just
// before: a line that is empty for a moment does not mean that the load has fallen.
func (q *queue) joins(now time.Time) {
	if q.count == 0 {
		since := now.Sub(q.shedAt)
		q.late = q.late && !q.shedAt.IsZero() && since >= 0 && since < q.memory
	}
	q.count++
}

// queueOf returns the queue that w waits in.
func (r *rank[W]) queueOf(w *Waiter[W]) *queue {
	if w.greedy {
		return &r.queues[1]
	}
	return &r.queues[0]
}

// NewLine returns a Line for at most most waiters. free returns how many places are free
// at all targets together; it is called at most ten times a second.
func NewLine[W any](most int, free func(now time.Time) int) *Line[W] {
	l := &Line[W]{most: most, free: free}
	l.Among(NewLines(1), 0)
	return l
}

// Len returns the number of waiters.
func (l *Line[W]) Len() int { return l.count }

// Join adds w. If the line is full, the waiter that would be served last, maybe w, leaves
// it and is returned, to be refused.
func (l *Line[W]) Join(now time.Time, w *Waiter[W]) (out *Waiter[W]) {
	if l.count >= l.most {
		if out = l.worst(w); out == w {
			return w
		}
		l.Leave(out)
	}
	r := l.ranks[w.rank]
	if r == nil {
		r = new(rank[W])
		l.ranks[w.rank] = r
	}
	l.joined++
	w.ticket, w.late, w.greedy = l.joined, false, l.greedy(now, w.key)
	r.queueOf(w).joins(now)
	r.keys[w.key].add(w)
	r.some[w.key/64] |= 1 << (w.key % 64)
	l.count++
	l.asksAgain()
	return out
}

// Leave removes w from the line if it waits there.
func (l *Line[W]) Leave(w *Waiter[W]) {
	if w.line != nil {
		w.leave()
		l.ranks[w.rank].queueOf(w).count--
		l.count--
		l.asksAgain()
	}
}

// Late records that w has waited for wait, which is long. It returns until when w may
// keep waiting; if it may not, w has left the line and ok is false.
func (l *Line[W]) Late(now time.Time, w *Waiter[W], wait time.Duration) (until time.Time, ok bool) {
	q := l.ranks[w.rank].queueOf(w)
	if !w.late {
		w.late = true
		if !l.greedy(now, w.key) {
			l.keeps, l.keepsAt[w.rank] = true, now
		}
		if !q.late {
			q.late, q.lateAt = true, now
		}
	}
	patience := Patience * wait
	if since := now.Sub(q.lateAt); since < patience {
		return now.Add(patience - max(0, since)), true // negative: the clock was set back
	}
	if !w.greedy { // greedy keys also wait for reserved places, even under normal load
		q.shedAt, q.memory = now, lineBrief*wait*time.Duration(len(l.of.loops))
	}
	l.Leave(w)
	return now, false
}

// greedy reports whether a key has clearly more places than an average key, now or
// recently.
func (l *Line[W]) greedy(now time.Time, key uint8) bool {
	p := &l.places[key]
	l.weigh(now)
	return max(float32(p.n), p.lately(instant(now))) > lineGreed*l.share
}

// weigh counts places and keys again if the last count is old.
func (l *Line[W]) weigh(now time.Time) {
	if since := now.Sub(l.shareAt); since >= 0 && since < lineShares {
		return
	}
	sum, keys, at := float32(0), float32(0), instant(now)
	for i := range l.places {
		if n := l.places[i].lately(at); n > 0 {
			sum += n
			keys++
		}
	}
	l.all, l.share, l.shareAt = l.of.Taken()+max(0, l.free(now)), sum/max(1, keys), now
	if keys <= 1 { // there is no other key to compare with
		l.share = math.MaxFloat32
	}
}

// kept returns the highest rank for which places are reserved, if only reserved ones are
// free, or Ranks.
func (l *Line[W]) kept(now time.Time) int {
	if !l.keeps {
		return Ranks
	}
	for rank := range l.keepsAt {
		at := &l.keepsAt[rank]
		if at.IsZero() {
			continue
		}
		if since := now.Sub(*at); since < 0 || since >= lineMemory { // the clock was set back
			continue
		}
		l.weigh(now)
		if keep := min(int(lineSpare*math.Sqrt(float64(l.all))), l.all/2); l.all-l.of.Taken() > keep {
			return Ranks
		}
		return rank
	}
	l.keeps = false
	return Ranks
}

// Admits reports whether w may take a free place.
func (l *Line[W]) Admits(now time.Time, w *Waiter[W]) bool {
	kept := l.kept(now)
	return int(w.rank) < kept || int(w.rank) == kept && !l.greedy(now, w.key)
}

// Next removes and returns the waiter that gets a free place. If there is none it returns
// nil, and the line asks for no place until Ask.
func (l *Line[W]) Next(now time.Time) *Waiter[W] {
	if l.count == 0 {
		return nil
	}
	kept := l.kept(now)
	for i, r := range l.ranks[:min(kept+1, Ranks)] {
		if r == nil {
			continue
		}
		if w := l.best(now, r, i < kept); w != nil {
			l.Leave(w)
			l.of.served.Store(int32(l.loop))
			return w
		}
	}
	l.Ask(false)
	return nil
}

// best returns the next waiter of a rank, or nil. If all is true, greedy keys may get a
// place too.
func (l *Line[W]) best(now time.Time, r *rank[W], all bool) (best *Waiter[W]) {
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
			if !all && l.greedy(now, key) {
				continue
			}
			lastFirst := r.queueOf(w).late
			if lastFirst {
				w = f.last
			}
			p := &l.places[key]
			score := max(int(p.n), int(lineScore*p.lately(instant(now))))
			if best == nil || score < least || score == least && (w.ticket > best.ticket) == lastFirst {
				best, least = w, score
			}
		}
	}
	return best
}

// worst returns the waiter that would be served last, w included: of the lowest priority,
// of the key with the most waiters, the one that has waited longest. Under overload it
// would wait in vain.
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

// crowd returns the waiters of the key with the most waiters of a rank, or nil.
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

// Take records that w has a place at a target until Give.
func (l *Line[W]) Take(now time.Time, w *Waiter[W]) {
	if w.placed {
		l.Give(now, w)
	}
	w.placed, w.placedBy = true, w.key
	l.places[w.key].add(instant(now), 1)
	l.own.taken.Add(1)
}

// Give records that w has given its place back.
func (l *Line[W]) Give(now time.Time, w *Waiter[W]) {
	if w.placed {
		w.placed = false
		l.places[w.placedBy].add(instant(now), -1)
		l.own.taken.Add(-1)
	}
}
