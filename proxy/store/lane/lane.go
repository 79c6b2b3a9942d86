package lane

import (
	"slices"
	"sync"
	"time"

	"weir/internal/net/loop"
	"weir/proxy/store"
)

// sparesMax bounds the batches and groups that a lane keeps for reuse.
const sparesMax = 1024

// turnMax bounds the asks that are given up in one turn of the loop.
const turnMax = 32

// A Lane is one event loop's access to a store. It gathers asks while batches are in flight, and
// answers each exactly once. While asks wait to be sent, the allowed number of batches is in
// flight. Batches are sent in one place, so that other methods are not interrupted by answers.
//
// Owned by its loop.
type Lane struct {
	store *Store
	post  func(func(now time.Time))
	local store.Lane // decides in mode store.Local; nil without

	id       []byte // of the group of the current ask
	refusals refusals
	answer   store.Answer

	queue       []*batch // not sent yet; the last one gathers
	unprocessed []*batch // sent and not processed, in order
	inFlight    int      // those of unprocessed whose answer has not been handled
	waiting     int      // asks without an answer

	lastSize int // asks of the batch sent last

	alarm      *loop.Alarm // of the deadlines; nil: the caller calls Expire
	loopClient LoopClient  // nil: the helpers send
	work       chan *batch // to the helpers; its capacity is InFlight
	helpers    sync.WaitGroup
	batches    []*batch // for reuse
	groups     []*group // likewise
}

// NewLane returns a lane whose owner calls Expire when Next says; see ForLoop for loops. post calls a
// function on the lane's goroutine. NewLane starts the helpers that send the lane's batches.
func (s *Store) NewLane(post func(func(now time.Time))) store.Lane {
	l := s.newLane(post)
	l.startHelpers()
	return s.add(l)
}

func (s *Store) newLane(post func(func(now time.Time))) *Lane {
	l := &Lane{store: s, post: post, work: make(chan *batch, s.cfg.InFlight)}
	l.refusals.max = s.cfg.RefusalsMax
	if s.cfg.Local != nil {
		l.local = s.cfg.Local.NewLane(post)
	}
	return l
}

func (l *Lane) startHelpers() {
	for range l.store.cfg.InFlight {
		l.helpers.Go(l.help)
	}
}

// add makes the store notify l of changes.
func (s *Store) add(l *Lane) *Lane {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lanes = append(s.lanes, l)
	return l
}

// Close waits for the batches in flight, at most for the store's timeout. See [store.Lane].
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

// Ask asks the backend. It returns true if ans holds the answer: from a remembered refusal or
// from the failure mode. Otherwise done is called later, once, within the store's timeout.
//
// If all counters are off, the ask is admitted without the backend.
func (l *Lane) Ask(now time.Time, ask *store.Ask, ans *store.Answer, done store.Done) bool {
	s := l.store
	if unlimited(ask, ans) {
		return true
	}
	if s.breaker.isOpen.Load() {
		l.without(now, ask, ans)
		return true
	}
	l.id = appendID(l.id[:0], ask.Counters)
	if !ask.WantsPrior && l.refusals.answer(now, s.epoch.Load(), l.id, ans) {
		s.counts.remembered.Add(requests(ask.Counters, ask.N))
		return true
	}
	if l.waiting >= s.cfg.WaitingMax {
		s.counts.crowded.Add(requests(ask.Counters, ask.N))
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
	g.N += ask.N
	b.waiters = append(b.waiters, waiter{group: g, n: ask.N, traced: ask.WantsPrior, deadline: now.Add(s.cfg.Timeout),
		done: done})
	l.waiting++
	l.start(now)
	l.arm()
	return false
}

// Next returns the earliest deadline of an ask, when Expire must be called; zero: none waits.
// Lanes made by ForLoop call Expire themselves.
func (l *Lane) Next() time.Time {
	var first time.Time
	for _, b := range l.unprocessed {
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

// Expire answers asks whose deadline has passed by the failure mode. Answers that have
// arrived, but whose wake-up has not, take precedence, so that a busy loop does not admit
// requests unlimited.
func (l *Lane) Expire(now time.Time) {
	if at := l.Next(); l.loopClient != nil && !at.IsZero() && !at.After(now) {
		l.loopClient.Fetch(now)
	}
	for i := 0; i < len(l.unprocessed); {
		if b := l.unprocessed[i]; b.done.Load() {
			l.land(now, b) // removes it from the list
			continue
		}
		i++
	}
	for _, b := range l.unprocessed {
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
		case len(b.Refunds) > 0:
			i++ // it is sent for its refunds
		default:
			l.queue = slices.Delete(l.queue, i, i+1)
			l.recycle(b)
		}
	}
}

// expire answers the asks of one batch whose deadline has passed.
func (l *Lane) expire(now time.Time, b *batch) {
	for b.pending() > 0 && !b.due().After(now) {
		w := &b.waiters[b.next]
		l.store.counts.late.Add(requests(w.group.Counters, w.n))
		l.giveUp(now, b)
	}
}

// giveUp answers the first waiting ask of b by the failure mode.
func (l *Lane) giveUp(now time.Time, b *batch) {
	w := &b.waiters[b.next]
	b.next++
	l.waiting--
	if !b.started {
		w.unsent = true
		w.group.N -= w.n
	}
	l.without(now, &store.Ask{Counters: w.group.Counters, N: w.n, WantsPrior: w.traced}, &l.answer)
	w.done(now, &l.answer)
}

// modeChanged is called on the loop when the store has become unavailable or available. While
// it is unavailable, asks that have not been sent follow the failure mode, at most turnMax
// in each turn of the loop, since each answer may cause more work. Batches in flight may
// still be answered.
func (l *Lane) modeChanged(now time.Time) {
	for n := 0; len(l.queue) > 0 && l.store.breaker.isOpen.Load(); {
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

// gathering returns the batch that new asks join.
func (l *Lane) gathering() *batch {
	if n := len(l.queue); n > 0 && len(l.queue[n-1].groups) < batchMax && len(l.queue[n-1].Refunds) < batchMax {
		return l.queue[n-1]
	}
	b := l.newBatch()
	l.queue = append(l.queue, b)
	return b
}

// start sends waiting batches, as far as InFlight, their sizes and locking permit.
func (l *Lane) start(now time.Time) {
	for len(l.queue) > 0 && l.maySend(l.queue[0]) && !l.locked(l.queue[0]) {
		b := l.queue[0]
		l.queue = slices.Delete(l.queue, 0, 1)
		b.started, b.inFlight, b.epoch = true, true, l.store.epoch.Load()
		l.unprocessed = append(l.unprocessed, b)
		l.inFlight++
		l.lastSize = len(b.waiters)
		b.load(now)
		if l.loopClient != nil {
			l.loopClient.Send(now, &b.Batch, now.Add(l.store.cfg.Timeout), b.carried)
		} else {
			l.work <- b
		}
	}
}

// maySend reports whether b, the next batch to be sent, may be sent now. While another batch is in
// flight, b waits until it has as many asks as the batch sent before it, or is full. Otherwise,
// under load, a large batch and one with a single ask would take turns, and the store would have
// twice as many batches to decide.
func (l *Lane) maySend(b *batch) bool {
	return l.inFlight == 0 || l.inFlight < l.store.cfg.InFlight && (len(b.waiters) >= l.lastSize || len(l.queue) > 1)
}

// locked reports whether b, the next batch to be sent, waits for a batch in flight; see
// Config.Locking. It is called for every ask, so a positive result is kept until that batch
// lands.
func (l *Lane) locked(b *batch) bool {
	if !l.store.cfg.Locking || b.behind != nil {
		return b.behind != nil
	}
	for _, other := range l.unprocessed {
		if other.inFlight && slices.ContainsFunc(b.groups, func(g *group) bool { return other.byID[g.id] != nil }) {
			b.behind = other
			return true
		}
	}
	return false
}

// land answers the asks of a batch whose answer has arrived. It is called by the batch's
// wake-up, and does nothing if Expire was first: done is not set then, even if the batch
// has been reused.
func (l *Lane) land(now time.Time, b *batch) {
	if !b.done.Load() {
		return
	}
	if b.inFlight {
		l.expireQueue(now)
		b.inFlight = false
		l.inFlight--
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
	l.unprocessed = slices.DeleteFunc(l.unprocessed, func(other *batch) bool { return other == b })
	l.recycle(b)
}

// settle answers one ask of a batch that has landed, unless it has been answered.
func (l *Lane) settle(now time.Time, b *batch, i int) {
	w := &b.waiters[i]
	switch g := w.group; {
	case i < b.next && (w.unsent || g.Err != nil):
	case i < b.next:
		g.skip(w.n)
	case g.Err != nil:
		if l.store.backend.Classify(g.Err).Class == store.TimeoutFault {
			l.store.counts.late.Add(requests(g.Counters, w.n))
		}
		l.giveUp(now, b)
	default:
		b.next++
		l.waiting--
		l.store.counts.decisions.Add(requests(g.Counters, w.n))
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

// recycle keeps a batch and its groups for reuse.
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
