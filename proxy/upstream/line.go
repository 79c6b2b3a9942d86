package upstream

import (
	"math"
	"math/bits"
	"time"
)

const (
	// Ranks is how many priorities a Line tells apart; 0 is served first.
	Ranks = 9
	// Background is the last of them: nobody waits for the answers of such requests.
	Background = Ranks - 1
	// lineKeys is how many keys it tells apart, by their hashes. Keys whose hashes
	// are the same share their luck.
	lineKeys = 256
	// Patience is for how many times a long wait a queue with such waits is taken for a
	// crowd, which passes. CoDel has 20: of crowds that a target would answer within a
	// second that refuses many.
	Patience = 30
	// lineBrief is for how many times a long wait a line may be empty under too much load,
	// times the number of loops: each sees only its part of the load.
	lineBrief = 4
	// lineMemory is over what time the places of a key are averaged, and how long places
	// are kept from greedy keys.
	lineMemory = 3 * time.Second
	// lineSpare times the square root of all places are kept.
	lineSpare = 2
	// lineScore is how finely keys are told apart by the places that they have had lately:
	// those with less than a sixteenth of a place are alike, and served in order.
	lineScore = 16
	// lineGreed is how many times the places of an average key make a key greedy.
	lineGreed = 1.25
	// lineShares is how often it is counted how many places there are, and how many an
	// average key has had.
	lineShares = 100 * time.Millisecond
)

// A Line is where requests wait for a place at any of several targets, and knows
// whose turn it is:
//
//   - those of the highest priority;
//   - of these, those of the key that has the fewest places, now and lately, so that no
//     key gets more than the others, however much it asks for and however long its
//     requests take;
//   - of these, those who came first, and when some have waited for long, those who came
//     last: under too much load the first would all be served too late.
//
// What is long, its user says. Whoever has waited for long may wait on, for when a crowd has
// passed there are places again. If the line has not been empty for thirty times as long after
// that, it is no crowd but too much load, and nobody waits for long until the line has been
// empty for a while. Priorities are
// told apart in this, and greedy keys from the others: those that have, now or lately,
// clearly more places than an average key. So neither ends the patience with the others.
//
// A key whose requests take long would still collect one place after the other in the
// moments in which nobody else waits. So when a request of a key that is not greedy has waited
// for long, some places are kept for a while from lower priorities and from greedy keys of
// its own: twice the square root of all that there are, as how many are at work varies by
// chance by about the root, and no more than half of them.
//
// Owned by its loop.
type Line[W any] struct {
	of     *Lines // with those of other loops
	loop   int    // among them
	most   int    // waiters
	count  int
	joined uint64          // ever
	ranks  [Ranks]*rank[W] // nil: nobody of that rank has ever waited

	places [lineKeys]places // by key
	free   func(now time.Time) int

	keeps   bool             // some places may be kept
	keepsAt [Ranks]time.Time // somebody of the rank has waited for long then; zero: nobody has
	all     int              // places of all loops, taken or free,
	share   float32          // and those of a key that has had any lately, on average
	shareAt time.Time        // as of then
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
	switch since := now.Sub(p.at); {
	case since <= 0: // or the clock was set back
		return p.mean
	case since >= lineMemory:
		return float32(p.n)
	default:
		return p.mean + (float32(p.n)-p.mean)*float32(since)*(1/float32(lineMemory))
	}
}

// A rank is those of one priority class who wait.
type rank[W any] struct {
	queues [2]queue              // of keys that are not greedy, and of those that are
	some   [lineKeys / 64]uint64 // a bit for each key of which somebody may wait
	keys   [lineKeys]fifo[W]
}

// A queue is how long some have waited together.
type queue struct {
	count  int
	late   bool          // since the queue began somebody has waited for long,
	lateAt time.Time     // then for the first time
	shedAt time.Time     // somebody was told last to wait no longer; zero: nobody was
	memory time.Duration // for how long that counts
}

// joins is told that somebody joins. A queue that nobody is left in begins anew, unless
// there was too much load just before: a line that is empty for a moment does not mean that
// there is less.
func (q *queue) joins(now time.Time) {
	if q.count == 0 {
		since := now.Sub(q.shedAt)
		q.late = q.late && !q.shedAt.IsZero() && since >= 0 && since < q.memory
	}
	q.count++
}

// queueOf is the one that w waits in.
func (r *rank[W]) queueOf(w *Waiter[W]) *queue {
	if w.greedy {
		return &r.queues[1]
	}
	return &r.queues[0]
}

// NewLine returns a Line of at most most waiters. free tells how many places are free at
// all targets together; it is asked ten times a second at most.
func NewLine[W any](most int, free func(now time.Time) int) *Line[W] {
	return &Line[W]{of: NewLines(1), most: most, free: free}
}

// Len is how many wait.
func (l *Line[W]) Len() int { return l.count }

// Join has w wait. When the line is full one leaves it who would be served last,
// which may be w: it is returned, to be refused.
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

// Leave takes w out of the line, if it waits there.
func (l *Line[W]) Leave(w *Waiter[W]) {
	if w.line != nil {
		w.leave()
		l.ranks[w.rank].queueOf(w).count--
		l.count--
		l.asksAgain()
	}
}

// Late notes that w, which waits, has waited for long: for wait. It returns until when w
// may wait on; false: it may not, and has left the line.
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
		return now.Add(patience - max(0, since)), true // below 0: the clock was set back
	}
	if !w.greedy { // greedy keys wait for places that are kept also when there is no more load than usual
		q.shedAt, q.memory = now, lineBrief*wait*time.Duration(len(l.of.loops))
	}
	l.Leave(w)
	return now, false
}

// greedy reports whether a key has clearly more places than an average key, now or lately.
func (l *Line[W]) greedy(now time.Time, key uint8) bool {
	p := &l.places[key]
	return max(float32(p.n), p.lately(now)) > lineGreed*l.average(now)
}

// average is how many places a key has had lately, of those that have had any.
func (l *Line[W]) average(now time.Time) float32 {
	l.weigh(now)
	return l.share
}

// weigh counts places and keys, if that is some time ago.
func (l *Line[W]) weigh(now time.Time) {
	if since := now.Sub(l.shareAt); since >= 0 && since < lineShares {
		return
	}
	sum, keys := float32(0), float32(0)
	for i := range l.places {
		if n := l.places[i].lately(now); n > 0 {
			sum += n
			keys++
		}
	}
	l.all, l.share, l.shareAt = l.of.Taken()+max(0, l.free(now)), sum/max(1, keys), now
	if keys <= 1 { // there is none to have more than
		l.share = math.MaxFloat32
	}
}

// kept is the highest rank for which places are kept, now that none but those are free;
// Ranks: there is none.
func (l *Line[W]) kept(now time.Time) int {
	if !l.keeps {
		return Ranks
	}
	for rank, at := range l.keepsAt {
		if since := now.Sub(at); since < 0 || since >= lineMemory { // the clock was set back
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

// Admits reports whether w may have a place that is free.
func (l *Line[W]) Admits(now time.Time, w *Waiter[W]) bool {
	kept := l.kept(now)
	return int(w.rank) < kept || int(w.rank) == kept && !l.greedy(now, w.key)
}

// Next takes out of the line who is to have a place that is free; nil: nobody, and the line
// does not ask for one until it is told to.
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

// best is who is next of a rank; nil: nobody. all says that greedy keys may have a place.
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
			score := max(int(p.n), int(lineScore*p.lately(now)))
			if best == nil || score < least || score == least && (w.ticket > best.ticket) == lastFirst {
				best, least = w, score
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
func (l *Line[W]) Take(now time.Time, w *Waiter[W]) {
	l.Give(now, w)
	w.placed, w.placedBy = true, w.key
	l.places[w.key].add(now, 1)
	l.of.loops[l.loop].taken.Add(1)
}

// Give notes that w has no place any more.
func (l *Line[W]) Give(now time.Time, w *Waiter[W]) {
	if w.placed {
		w.placed = false
		l.places[w.placedBy].add(now, -1)
		l.of.loops[l.loop].taken.Add(-1)
	}
}
