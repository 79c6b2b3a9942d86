package lane

import (
	"fmt"
	"sync/atomic"
	"time"

	"weir/proxy/store"
)

// A batch is groups that are sent together, the asks that wait for them, and what is
// given back, which nobody waits for.
//
// Owned by its lane; while it is under way the helper that sends it writes the
// results of its groups, and says with done that they are there.
type batch struct {
	store.Batch // its Groups are those of groups, from when it is sent
	groups      []*group
	byID        map[string]*group
	waiters     []waiter // in the order in which they came
	next        int      // the first waiter without an answer

	sentOff bool
	aloft   bool   // sent, and not back
	epoch   uint64 // of the store when it was sent
	behind  *batch // it waits for that one; see Config.Locking
	done    atomic.Bool
	sent    time.Time // by the clock of who sends it
	landed  time.Time // likewise
	land    func(now time.Time)
	carried func(now time.Time) // likewise, by the courier
}

// add notes one more ask for g.
func (b *batch) add(g *group, w waiter) {
	g.N += w.n
	w.group = g
	b.waiters = append(b.waiters, w)
}

// pending says how many asks have no answer yet.
func (b *batch) pending() int { return len(b.waiters) - b.next }

// due returns the first deadline of those; there must be one.
func (b *batch) due() time.Time { return b.waiters[b.next].deadline }

// clear makes the batch ready for use again.
func (b *batch) clear() {
	for i := range b.waiters {
		b.waiters[i].forget()
	}
	clear(b.byID)
	clear(b.Releases)
	b.Groups, b.Releases = b.Groups[:0], b.Releases[:0]
	b.groups, b.waiters, b.next = b.groups[:0], b.waiters[:0], 0
	b.sentOff, b.aloft, b.behind = false, false, nil
	b.done.Store(false)
}

// load makes the batch what is sent.
func (b *batch) load(now time.Time) {
	for _, g := range b.groups {
		b.Groups = append(b.Groups, &g.Group)
	}
	b.sent = now
}

// send has the backend decide.
func (b *batch) send(s *Store) {
	b.sent = time.Now()
	ctx, cancel := s.forBatch()
	s.backend.Decide(ctx, &b.Batch)
	cancel()
	b.landed = time.Now()
	b.judge(s)
}

// judge tells the breaker how the batch went, and logs.
func (b *batch) judge(s *Store) {
	var worst store.Fault
	var why error
	for _, g := range b.groups {
		if g.Err == nil {
			continue
		}
		f := s.backend.Classify(g.Err)
		if f.Class == store.ItemFault {
			s.undecidable(b.landed, g.about(), g.Err)
		}
		if f.Class > worst.Class {
			worst, why = f, fmt.Errorf("decide: %w", g.Err)
		}
	}
	if len(b.groups) > 0 {
		s.judge(b.landed, b.sent, worst, why)
	}
}
