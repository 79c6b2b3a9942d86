package redis

import (
	"sync/atomic"
	"time"
)

// A batch is groups that are sent to Redis together, the asks that wait for them,
// and what is given back.
//
// Owned by its lane; while it is under way the helper that sends it writes the
// results of its groups, and says with done that they are there.
type batch struct {
	groups  []*group
	gives   []call   // places that are given back; nobody waits for what comes of it
	kinds   []string // to be noted, until they are
	byID    map[string]*group
	waiters []waiter // in the order in which they came
	next    int      // the first waiter without an answer

	sentOff bool
	aloft   bool   // sent, and not back
	epoch   uint64 // of the client when it was sent
	done    atomic.Bool
	sent    time.Time // by the helper's clock
	landed  time.Time // likewise
	land    func(now time.Time)
}

// add notes one more ask for g.
func (b *batch) add(g *group, w waiter) {
	g.n += w.n
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
	clear(b.gives)
	b.groups, b.gives, b.kinds, b.waiters, b.next = b.groups[:0], b.gives[:0], b.kinds[:0], b.waiters[:0], 0
	b.sentOff, b.aloft = false, false
	b.done.Store(false)
}
