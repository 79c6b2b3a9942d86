package lane

import (
	"slices"
	"sync"
	"time"

	"weir/proxy/store"
)

// sparesMax bounds the batches and groups that a lane keeps to use again.
const sparesMax = 1024

// turnMax is how many asks that are given up a turn of the loop answers.
const turnMax = 32

// A Lane is one event loop's way to a store: it gathers asks while batches are under
// way, and answers each exactly once. Whenever something waits to be sent, as many
// batches as may be are under way; start sees to that, so that nothing is sent in
// the middle of what else a lane does.
//
// Owned by its loop.
type Lane struct {
	store *Store
	post  func(func(now time.Time))
	local store.Lane // decides in mode store.Local; nil without

	id       []byte // of the group that is asked for
	refusals refusals
	answer   store.Answer

	queue   []*batch // not sent yet; the last one gathers
	flying  []*batch // sent, in order
	aloft   int      // of flying, those which are not back
	waiting int      // asks without an answer

	courier Courier     // nil: the helpers send all
	work    chan *batch // to the helpers; has room for all that may be under way
	helpers sync.WaitGroup
	batches []*batch // to use again
	groups  []*group // likewise
}

// NewLane returns a lane for a loop; post has a function called on that loop, by
// one wake-up. It starts the helpers which send the lane's batches.
func (s *Store) NewLane(post func(func(now time.Time))) store.Lane { return s.add(s.newLane(post)) }

func (s *Store) newLane(post func(func(now time.Time))) *Lane {
	l := &Lane{store: s, post: post, work: make(chan *batch, s.cfg.InFlight)}
	l.refusals.max = s.cfg.RefusalsMax
	if s.cfg.Local != nil {
		l.local = s.cfg.Local.NewLane(post)
	}
	for range s.cfg.InFlight {
		l.helpers.Go(l.help)
	}
	return l
}

// add has the store tell l of its changes.
func (s *Store) add(l *Lane) *Lane {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lanes = append(s.lanes, l)
	return l
}

// Close waits until what is under way has come back, at most the store's timeout. See
// [store.Lane].
func (l *Lane) Close() {
	s := l.store
	s.mu.Lock()
	s.lanes = slices.DeleteFunc(s.lanes, func(other *Lane) bool { return other == l })
	s.mu.Unlock()
	close(l.work)
	l.helpers.Wait()
	if l.local != nil {
		l.local.Close()
	}
}

// help sends batches.
func (l *Lane) help() {
	for b := range l.work {
		b.send(l.store)
		b.done.Store(true)
		l.post(b.land)
	}
}

// Ask has the backend decide. It returns true when ans holds the answer already: from
// memory, or from the failure mode. Otherwise done is called later, once, within the
// store's timeout; see Next.
//
// Counters that are off are admitted here; an ask of which all are needs no backend.
func (l *Lane) Ask(now time.Time, ask *store.Ask, ans *store.Answer, done store.Done) bool {
	s := l.store
	if unlimited(ask, ans) {
		return true
	}
	if s.breaker.away.Load() {
		l.without(now, ask, ans)
		return true
	}
	l.id = appendID(l.id[:0], ask.Counters)
	if !ask.Traced && l.refusals.answer(now, s.epoch.Load(), l.id, ans) {
		s.counts.remembered.Add(uint64(ask.N))
		return true
	}
	if l.waiting >= s.cfg.WaitingMax {
		s.counts.crowded.Add(uint64(ask.N))
		l.without(now, ask, ans)
		return true
	}
	b := l.gathering()
	g := b.byID[string(l.id)]
	if g == nil {
		g = l.newGroup()
		g.fill(l.id, ask.Counters)
		b.groups = append(b.groups, g)
		b.byID[g.id] = g
	}
	b.add(g, waiter{n: ask.N, traced: ask.Traced, deadline: now.Add(s.cfg.Timeout), done: done})
	l.waiting++
	l.start(now)
	return false
}

// Next returns when Expire wants to be called: the deadline of the ask that has
// waited longest. Zero means that none waits.
func (l *Lane) Next() time.Time {
	var first time.Time
	for _, b := range l.flying {
		if b.pending() > 0 && (first.IsZero() || b.due().Before(first)) {
			first = b.due()
		}
	}
	for _, b := range l.queue {
		if b.pending() > 0 {
			if first.IsZero() || b.due().Before(first) {
				first = b.due()
			}
			break
		}
	}
	return first
}

// Expire answers asks whose deadline has passed by the failure mode. An answer
// that is here, but whose wake-up is not yet, goes first: a busy loop must not
// open the gate.
func (l *Lane) Expire(now time.Time) {
	if at := l.Next(); l.courier != nil && !at.IsZero() && !at.After(now) {
		l.courier.Fetch(now)
	}
	for i := 0; i < len(l.flying); {
		if b := l.flying[i]; b.done.Load() {
			l.land(now, b) // takes it off the list
			continue
		}
		i++
	}
	for _, b := range l.flying {
		l.expire(now, b)
	}
	l.expireQueue(now)
}

// expireQueue answers asks whose deadline has passed before they were sent.
func (l *Lane) expireQueue(now time.Time) {
	for i := 0; i < len(l.queue); {
		b := l.queue[i]
		l.expire(now, b)
		switch {
		case b.pending() > 0:
			return
		case len(b.Releases) > 0:
			i++ // is sent for these
		default:
			l.queue = slices.Delete(l.queue, i, i+1)
			l.recycle(b)
		}
	}
}

// expire answers the asks of one batch whose deadline has passed.
func (l *Lane) expire(now time.Time, b *batch) {
	for b.pending() > 0 && !b.due().After(now) {
		l.store.counts.late.Add(uint64(b.waiters[b.next].n))
		l.giveUp(now, b)
	}
}

// giveUp answers the first ask that waits in b by the failure mode.
func (l *Lane) giveUp(now time.Time, b *batch) {
	w := &b.waiters[b.next]
	b.next++
	l.waiting--
	if !b.sentOff {
		w.unsent = true
		w.group.N -= w.n
	}
	ask := w.ask()
	l.without(now, &ask, &l.answer)
	w.done(now, &l.answer)
}

// modeChanged is called on the loop when the store has gone or come back. What is
// under way may still be answered; what is not sent yet follows the mode, a part in each
// turn: who has waited longest must not wait for what all others do next.
func (l *Lane) modeChanged(now time.Time) {
	for n := 0; len(l.queue) > 0 && l.store.breaker.away.Load(); {
		b := l.queue[0]
		for ; b.pending() > 0; n++ {
			if n == turnMax {
				l.post(l.modeChanged)
				return
			}
			l.giveUp(now, b)
		}
		l.queue = slices.Delete(l.queue, 0, 1)
		l.recycle(b)
	}
}

// gathering returns the batch that asks join.
func (l *Lane) gathering() *batch {
	if n := len(l.queue); n > 0 && len(l.queue[n-1].groups) < batchMax && len(l.queue[n-1].Releases) < batchMax {
		return l.queue[n-1]
	}
	b := l.newBatch()
	l.queue = append(l.queue, b)
	return b
}

// start sends batches while there is one and a helper for it.
func (l *Lane) start(now time.Time) {
	for len(l.queue) > 0 && l.aloft < l.store.cfg.InFlight && !l.locked(l.queue[0]) {
		b := l.queue[0]
		l.queue = slices.Delete(l.queue, 0, 1)
		b.sentOff, b.aloft, b.epoch = true, true, l.store.epoch.Load()
		l.flying = append(l.flying, b)
		l.aloft++
		b.load(now)
		if l.courier == nil || !l.courier.Send(now, &b.Batch, now.Add(l.store.cfg.Timeout), b.carried) {
			l.work <- b
		}
	}
}

// locked reports whether b, the next to be sent, waits for a batch under way; see
// Config.Locking. It is called with every ask, so what it has found holds until that batch
// is back.
func (l *Lane) locked(b *batch) bool {
	if !l.store.cfg.Locking || b.behind != nil {
		return b.behind != nil
	}
	for _, other := range l.flying {
		if other.aloft && slices.ContainsFunc(b.groups, func(g *group) bool { return other.byID[g.id] != nil }) {
			b.behind = other
			return true
		}
	}
	return false
}

// land answers the asks of a batch that is back. It is called by the batch's
// wake-up, and does nothing if Expire was first: then the batch is used again by
// now, or done is not set.
func (l *Lane) land(now time.Time, b *batch) {
	if !b.done.Load() {
		return
	}
	if b.aloft {
		l.expireQueue(now)
		b.aloft = false
		l.aloft--
		if len(l.queue) > 0 && l.queue[0].behind == b {
			l.queue[0].behind = nil
		}
		l.start(now)
	}
	for _, g := range b.groups {
		g.replay()
	}
	for i := range b.waiters {
		l.settle(now, b, i)
	}
	l.refusals.remember(now, l.store.epoch.Load(), b)
	l.flying = slices.DeleteFunc(l.flying, func(other *batch) bool { return other == b })
	l.recycle(b)
}

// settle answers one ask of a batch that is back, unless it has its answer.
func (l *Lane) settle(now time.Time, b *batch, i int) {
	w := &b.waiters[i]
	switch g := w.group; {
	case i < b.next && (w.unsent || g.Err != nil):
	case i < b.next:
		g.skip(w.n)
	case g.Err != nil:
		if l.store.backend.Classify(g.Err).Class == store.LateFault {
			l.store.counts.late.Add(uint64(w.n))
		}
		l.giveUp(now, b)
	default:
		b.next++
		l.waiting--
		l.store.counts.decisions.Add(uint64(w.n))
		g.answer(w.n, w.traced, &l.answer)
		w.done(now, &l.answer)
	}
}

func (l *Lane) newBatch() *batch {
	if n := len(l.batches); n > 0 {
		b := l.batches[n-1]
		l.batches = l.batches[:n-1]
		return b
	}
	b := &batch{byID: make(map[string]*group)}
	b.land = func(now time.Time) { l.land(now, b) }
	b.carried = func(now time.Time) { l.carried(now, b) }
	return b
}

func (l *Lane) newGroup() *group {
	if n := len(l.groups); n > 0 {
		g := l.groups[n-1]
		l.groups = l.groups[:n-1]
		return g
	}
	return new(group)
}

// recycle keeps a batch and its groups to be used again.
func (l *Lane) recycle(b *batch) {
	for _, g := range b.groups {
		if len(l.groups) < sparesMax {
			l.groups = append(l.groups, g)
		}
	}
	b.clear()
	if len(l.batches) < l.store.cfg.InFlight+1 {
		l.batches = append(l.batches, b)
	}
}
