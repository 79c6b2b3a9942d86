package upstream

import (
	"math"
	"time"
)

const (
	// PriorityLevels is the number of priorities in a Queue; 0 is served first.
	PriorityLevels = 9
	// BackgroundPriority is the last one, of requests whose answers no client waits for.
	BackgroundPriority = PriorityLevels - 1
	// PatienceFactor is the multiple of a long wait for which a queue with long waits counts as
	// a crowd, which passes. CoDel uses 20, which would refuse many requests of crowds
	// that a target would serve within a second.
	PatienceFactor = 30
	// TolerableWait is how long clients are assumed to tolerate waiting.
	TolerableWait = 500 * time.Millisecond
	// queueBrief is the multiple of a long wait for which a queue may be empty during
	// overload. It is multiplied by the number of loops, since each sees only its part of
	// the load.
	queueBrief = 4
	// queueSpare times the square root of all places are reserved.
	queueSpare = 2
	// queueScore is the resolution at which clients and keys are compared by their recent
	// places: differences of less than a sixteenth of a place are ignored.
	queueScore = 16
	// queueGreed is the multiple of an average client's places from which a client is greedy.
	// The same holds for the keys of a client.
	queueGreed = 1.25
)

// A Queue holds requests that wait for a place at any of several targets. The next place goes, in this
// order, to
//
//   - a request with the highest priority;
//   - of these, one of the client with the fewest places, now and recently, so that no client gets
//     more than the others, however many requests it sends, however long they take, and however many
//     keys it uses; and of its keys, one of the key with the fewest places. A client or key that had
//     no place recently counts as if it had an average number;
//   - of these, the one that came first; or if some have waited for long, the one that came last,
//     because under overload the first ones would all be served too late. If the queue is likely to
//     pass, it remains the one that came first: all can be served soon, and the oldest would be served
//     last. A queue is likely to pass after a time in which no target has answered anything, until
//     what waits then should have been worked off, and for as long as earlier queues took to pass. But
//     if the first one has waited for longer than clients tolerate, it is too late for it. After a
//     standstill that time is doubled.
//
// No client and no route gets a place that others are likely to need; see the package comment.
//
// The caller defines a long wait. At first a request that has waited for long may keep waiting,
// because places become free when a crowd has passed. If the queue has not been empty for thirty times
// as long after that, there is no crowd but overload, and no request waits for long until the queue
// has been empty for a while. This is decided separately for each priority and route. It is also
// decided separately for those that are greedy, so that these do not end the patience with the others.
// Greedy are clients that have clearly more places, now or recently, than an average client, and keys
// that have clearly more than an average key of their client.
//
// A client whose requests are slow would still collect places in the moments in which no
// other waits. So when a request that is not greedy has waited for long, some places are
// reserved for a while against lower priorities and against greedy requests of the same
// priority: twice the square root of all places, because the number in use varies at
// random by about the root, but at most half of them.
//
// Owned by its loop.
type Queue[W any] struct {
	of     *QueueSet // with the queues of other loops
	loop   int       // index of this loop among them
	own    *demand   // this loop's
	most   int       // bound on waiters
	count  int
	joined uint64 // ever
	ranks  [PriorityLevels]rank[W]

	clients, routes division
	routed          bool // there is more than one route
	keys            keys
	waits           [shareClients]int32 // waiters of each client
	look            func(now time.Time) Capacity

	oldest, newest *Waiter[W] // those that have a place, in the order of Take, but not for long
	placed         int        // how many these are
	gives          uint64     // how many have given their place back, ever

	waitMax   time.Duration // see Waits
	tolerable time.Duration

	reserves bool                      // some places may be reserved
	keepsAt  [PriorityLevels]time.Time // when one of the rank last waited for long; zero: never
	all      int                       // places of all loops, taken or free
	shareAt  int64                     // as of this instant
	busyAt   time.Time                 // when requests last waited at a target,
	busyAll  float64                   // and the fewest places then, which count less and less
}

// A rank has the waiters of one priority class.
type rank[W any] struct {
	count  int
	bands  []*band[W]            // with waiters, now or before
	routes [shareRoutes]*band[W] // the same by route
}

// accounts is how many lists of waiters a band has: one for each known key, and one for
// those keys of each client that are not known.
const accounts = shareKeys + shareClients

// A band has the waiters of one priority class for one route.
type band[W any] struct {
	histories [2]queueHistory       // of waiters that are not greedy, and of greedy ones
	some      [accounts / 64]uint64 // a bit for each account that may have waiters
	fifos     [accounts]fifo[W]
}

// band returns the band of a rank and route.
func (l *Queue[W]) band(w *Waiter[W]) *band[W] {
	r := &l.ranks[w.rank]
	b := r.routes[w.who.route]
	if b == nil {
		b = new(band[W])
		r.routes[w.who.route], r.bands = b, append(r.bands, b)
	}
	return b
}

// history returns the history of the queue that w waits in.
func (b *band[W]) history(w *Waiter[W]) *queueHistory {
	if w.greedy {
		return &b.histories[1]
	}
	return &b.histories[0]
}

// A Capacity is what a Queue has to know of the targets.
type Capacity struct {
	Free int  // places at all of them
	Busy bool // at one of them requests wait for others to be served
}

// NewQueue returns a Queue of at most that many waiters. look is called at most ten times a second.
func NewQueue[W any](most int, look func(now time.Time) Capacity) *Queue[W] {
	l := &Queue[W]{most: most, look: look, tolerable: TolerableWait}
	l.JoinSet(NewQueueSet(1), 0)
	return l
}

// Len returns the number of waiters.
func (l *Queue[W]) Len() int { return l.count }

// Join adds w. If the queue is full, the waiter that would be served last, maybe w, leaves
// it and is returned, to be refused.
func (l *Queue[W]) Join(now time.Time, w *Waiter[W]) (out *Waiter[W]) {
	if l.count >= l.most {
		if out = l.worst(w); out == w {
			return w
		}
		l.Leave(now, out)
	}
	b := l.band(w)
	l.joined++
	w.ticket, w.joinedAt, w.late, w.greedy = l.joined, instant(now), false, l.greedy(now, w) || !l.shared(now, w)
	w.account = l.account(w)
	b.history(w).joins(now)
	b.fifos[w.account].add(w)
	b.some[w.account/64] |= 1 << (w.account % 64)
	l.counts(w, 1)
	return out
}

// account returns the number of the list that w waits in.
func (l *Queue[W]) account(w *Waiter[W]) int16 {
	if i := l.keys.find(w.who.mark); i != stranger {
		return int16(i)
	}
	return int16(shareKeys + w.who.client)
}

// counts records that w joins, for n = 1, or leaves the queue, for n = -1.
func (l *Queue[W]) counts(w *Waiter[W], n int) {
	l.count += n
	l.ranks[w.rank].count += n
	l.waits[w.who.client] += int32(n)
	l.republish()
}

// Leave removes w from the queue if it waits there.
func (l *Queue[W]) Leave(now time.Time, w *Waiter[W]) {
	if w.queue != nil {
		w.leave()
		l.band(w).history(w).leaves(now)
		l.counts(w, -1)
	}
}

// Late records that w has waited for wait, which is long. It returns until when w may
// keep waiting; if it may not, w has left the queue and ok is false.
func (l *Queue[W]) Late(now time.Time, w *Waiter[W], wait time.Duration) (until time.Time, ok bool) {
	q, patience := l.band(w).history(w), PatienceFactor*wait
	if !w.late {
		w.late = true
		if !w.greedy && !l.greedy(now, w) {
			l.reserves, l.keepsAt[w.rank] = true, now
		}
		q.waitsLong(now, patience)
	}
	since, stood := max(0, now.Sub(q.lateAt)), l.of.stood.until(now) // negative: the clock was set back
	until = later(now.Add(patience-since), stood)
	if left := l.waitMax - time.Duration(instant(now)-w.joinedAt); l.waitMax > 0 && until.Sub(now) > left {
		until = now.Add(left)
	}
	if until.After(now) {
		return until, true
	}
	// greedy ones also wait for reserved places, even under normal load, and others for the end of a
	// standstill
	if !w.greedy && w.joinedAt >= l.of.stood.ended.Load() {
		q.shedAt, q.memory = now, queueBrief*wait*time.Duration(len(l.of.loops))
		l.own.shed.Store(instant(now))
	}
	l.Leave(now, w)
	return now, false
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Waits bounds how long a request waits, 0 for no bound, and sets how long a wait clients tolerate.
func (l *Queue[W]) Waits(most, tolerable time.Duration) { l.waitMax, l.tolerable = most, tolerable }

// inOrder reports whether a queue is served in the order of arrival, in which w is the first.
func (l *Queue[W]) inOrder(now time.Time, q *queueHistory, w *Waiter[W]) bool {
	if !q.late {
		return true
	}
	waited := time.Duration(instant(now) - w.joinedAt)
	return !q.sheds() && !w.greedy && (waited <= l.tolerable && q.passing(now) || waited <= l.tolerated() &&
		now.Before(l.of.stood.until(now)))
}

// greedy reports whether the client or the key of w has clearly more places than an average
// one, now or recently.
func (l *Queue[W]) greedy(now time.Time, w *Waiter[W]) bool {
	l.weigh(now)
	at, who := instant(now), &w.who
	if l.clients.own[who.client].most(at) > l.clients.regular.greedy() {
		return true
	}
	i := l.keys.find(who.mark)
	return i != stranger && l.keys.known[i].most(at) > l.keys.of[who.client].greedy()
}

// weigh counts places again if the last count is old.
func (l *Queue[W]) weigh(now time.Time) {
	at := instant(now)
	if since := at - l.shareAt; since >= 0 && since < int64(shareInterval) {
		return
	}
	l.clients.weigh(at)
	l.routes.weigh(at)
	l.keys.weigh(at)
	seen := l.look(now)
	l.all, l.shareAt = l.of.Taken()+max(0, seen.Free), at
	if l.busyAll *= busyRelax; seen.Busy {
		if since := now.Sub(l.busyAt); since < 0 || since >= busyMemory {
			l.busyAll = math.MaxFloat32
		}
		l.busyAt, l.busyAll = now, min(l.busyAll, float64(l.all))
	}
}

// shared reports whether the client and the route of w may have one more place.
func (l *Queue[W]) shared(now time.Time, w *Waiter[W]) bool {
	l.weigh(now)
	client, route := int(w.who.client), int(w.who.route)
	if l.clients.alone(client) && l.routes.alone(route) {
		return true
	}
	all, in := float64(l.all), room{}
	if !l.busyAt.IsZero() { // a duration since then would be computed the long way
		since := now.Sub(l.busyAt)
		in.busy = since >= 0 && since < averageSpan
		if since >= 0 && since < busyMemory {
			all = min(all, l.busyAll)
		}
	}
	in.places = all - math.Sqrt(all)
	return l.clients.admits(client, in) && l.routes.admits(route, in)
}

// kept returns the highest rank for which places are reserved, if only reserved ones are
// free, or PriorityLevels.
func (l *Queue[W]) kept(now time.Time) int {
	if !l.reserves {
		return PriorityLevels
	}
	for rank := range l.keepsAt {
		at := &l.keepsAt[rank]
		if at.IsZero() {
			continue
		}
		if since := now.Sub(*at); since < 0 || since >= averageSpan { // the clock was set back
			continue
		}
		l.weigh(now)
		if keep := min(int(queueSpare*math.Sqrt(float64(l.all))), l.all/2); l.all-l.of.Taken() > keep {
			return PriorityLevels
		}
		return rank
	}
	l.reserves = false
	return PriorityLevels
}

// Admits reports whether w may take a free place.
func (l *Queue[W]) Admits(now time.Time, w *Waiter[W]) bool {
	if l.reserves {
		if kept := l.kept(now); int(w.rank) > kept || int(w.rank) == kept && l.greedy(now, w) {
			return false
		}
	}
	return l.shared(now, w)
}

// Next removes and returns the waiter that gets a free place. If there is none it returns
// nil, and the queue withdraws until Publish.
func (l *Queue[W]) Next(now time.Time) *Waiter[W] {
	if l.count == 0 {
		return nil
	}
	kept := l.kept(now)
	for i := range l.ranks[:min(kept+1, PriorityLevels)] {
		if l.ranks[i].count == 0 {
			continue
		}
		if w := l.best(now, &l.ranks[i], i < kept); w != nil {
			l.Leave(now, w)
			l.of.served.Store(int32(l.loop))
			return w
		}
	}
	l.Withdraw()
	return nil
}
