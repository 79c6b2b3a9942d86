package redis

import (
	"slices"
	"sync"
	"time"

	"weir/proxy/store"
)

// Done is told the answer of an ask, on the loop. The answer is valid during the
// call.
type Done func(now time.Time, ans *store.Answer)

// sparesMax bounds the batches and groups that a lane keeps to use again.
const sparesMax = 1024

// A Lane is one event loop's way to Redis: it gathers asks while batches are under
// way, and answers each exactly once. Whenever something waits to be sent, as many
// batches as may be are under way; start sees to that, so that nothing is sent in
// the middle of what else a lane does.
//
// Owned by its loop.
type Lane struct {
	client *Client
	post   func(func(now time.Time))

	encoder  encoder
	noted    noted
	refusals refusals
	answer   store.Answer

	queue   []*batch // not sent yet; the last one gathers
	flying  []*batch // sent, in order
	aloft   int      // of flying, those which are not back
	waiting int      // asks without an answer

	work    chan *batch // to the helpers; has room for all that may be under way
	helpers sync.WaitGroup
	batches []*batch // to use again
	groups  []*group // likewise
}

// NewLane returns a lane for a loop; post has a function called on that loop, by
// one wake-up. It starts the helpers which send the lane's batches.
func (c *Client) NewLane(post func(func(now time.Time))) *Lane {
	l := &Lane{client: c, post: post, work: make(chan *batch, c.cfg.InFlight)}
	l.encoder.prefix = c.cfg.KeyPrefix
	l.refusals.max = c.cfg.RefusalsMax
	for range c.cfg.InFlight {
		l.helpers.Go(l.help)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lanes = append(c.lanes, l)
	return l
}

// Close waits until what is under way has come back, at most the client's
// timeout. Asks that still wait get no answer. It is called after the loop has
// ended, or on it.
func (l *Lane) Close() {
	c := l.client
	c.mu.Lock()
	c.lanes = slices.DeleteFunc(c.lanes, func(other *Lane) bool { return other == l })
	c.mu.Unlock()
	close(l.work)
	l.helpers.Wait()
}

// help sends batches.
func (l *Lane) help() {
	for b := range l.work {
		b.send(l.client)
		b.done.Store(true)
		l.post(b.land)
	}
}

// Ask has Redis decide. It returns true when ans holds the answer already: from
// memory, or from the failure mode. Otherwise done is called later, once, within
// the client's timeout; see Next.
//
// Counters that are off are admitted here; an ask of which all are needs no Redis.
func (l *Lane) Ask(now time.Time, ask *store.Ask, ans *store.Answer, done Done) bool {
	c := l.client
	if unlimited(ask, ans) {
		return true
	}
	if c.breaker.away.Load() {
		c.without(now, ask, ans)
		return true
	}
	id := l.encoder.encode(ask.Counters)
	if l.refusals.answer(now, c.epoch.Load(), id, ans) {
		c.counts.remembered.Add(uint64(ask.N))
		return true
	}
	if l.waiting >= c.cfg.WaitingMax {
		c.counts.crowded.Add(uint64(ask.N))
		c.without(now, ask, ans)
		return true
	}
	b := l.gathering()
	g := b.byID[string(id)]
	if g == nil {
		g = l.newGroup()
		g.fill(&l.encoder, ask.Counters)
		b.groups = append(b.groups, g)
		b.byID[g.id] = g
		l.note(now, b, g)
	}
	b.add(g, waiter{n: ask.N, deadline: now.Add(c.cfg.Timeout), done: done})
	l.waiting++
	l.start()
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
		case len(b.gives) > 0:
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
		l.client.counts.late.Add(uint64(b.waiters[b.next].n))
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
		w.group.n -= w.n
	}
	ask := w.group.ask(w.n)
	l.client.without(now, &ask, &l.answer)
	w.done(now, &l.answer)
}

// modeChanged is called on the loop when Redis has gone or come back. What is
// under way may still be answered; what is not sent yet follows the mode.
func (l *Lane) modeChanged(now time.Time) {
	l.noted = nil // it may have lost them
	for len(l.queue) > 0 && l.client.breaker.away.Load() {
		b := l.queue[0]
		for b.pending() > 0 {
			l.giveUp(now, b)
		}
		l.queue = slices.Delete(l.queue, 0, 1)
		l.recycle(b)
	}
}

// gathering returns the batch that asks join.
func (l *Lane) gathering() *batch {
	if n := len(l.queue); n > 0 && len(l.queue[n-1].groups) < callsMax && len(l.queue[n-1].gives) < callsMax {
		return l.queue[n-1]
	}
	b := l.newBatch()
	l.queue = append(l.queue, b)
	return b
}

// start sends batches while there is one and a helper for it.
func (l *Lane) start() {
	for len(l.queue) > 0 && l.aloft < l.client.cfg.InFlight {
		b := l.queue[0]
		l.queue = slices.Delete(l.queue, 0, 1)
		b.sentOff, b.aloft, b.epoch = true, true, l.client.epoch.Load()
		l.flying = append(l.flying, b)
		l.aloft++
		l.work <- b
	}
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
		l.start()
	}
	for _, g := range b.groups {
		g.replay()
	}
	for i := range b.waiters {
		l.settle(now, b, i)
	}
	l.refusals.remember(now, l.client.epoch.Load(), b)
	l.flying = slices.DeleteFunc(l.flying, func(other *batch) bool { return other == b })
	l.recycle(b)
}

// settle answers one ask of a batch that is back, unless it has its answer.
func (l *Lane) settle(now time.Time, b *batch, i int) {
	w := &b.waiters[i]
	switch g := w.group; {
	case i < b.next && (w.unsent || g.err != nil):
	case i < b.next:
		g.skip(w.n)
	case g.err != nil:
		if faultOf(g.err) == faultDeadline {
			l.client.counts.late.Add(uint64(w.n))
		}
		l.giveUp(now, b)
	default:
		b.next++
		l.waiting--
		l.client.counts.decisions.Add(uint64(w.n))
		g.answer(w.n, &l.answer)
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
	if len(b.kinds) > 0 {
		l.noted = nil // to be noted again
	}
	for _, g := range b.groups {
		if len(l.groups) < sparesMax {
			l.groups = append(l.groups, g)
		}
	}
	b.clear()
	if len(l.batches) < l.client.cfg.InFlight+1 {
		l.batches = append(l.batches, b)
	}
}
