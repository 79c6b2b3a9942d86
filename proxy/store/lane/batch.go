package lane

import (
	"fmt"
	"sync/atomic"
	"time"

	"weir/proxy/store"
)

// A batch has groups that are sent together, the asks that wait for them, and refunds, for
// which nothing waits.
//
// Owned by its lane. While it is in flight, the helper that sends it writes the results of
// its groups, and then sets done.
type batch struct {
	store.Batch // its Groups are set when it is sent
	groups      []*group
	byID        map[string]*group
	waiters     []waiter // in the order of their arrival
	next        int      // the first waiter without an answer

	started  bool   // taken from the queue by Lane.start
	inFlight bool   // sent, and its answer has not been handled
	epoch    uint64 // of the store when it was sent
	behind   *batch // the batch that it waits for; see Config.Locking
	done     atomic.Bool
	sent     time.Time           // by the clock of the sender
	landed   time.Time           // likewise, when its answer arrived
	land     func(now time.Time) // handles the answer from a helper
	carried  func(now time.Time) // likewise from the loop client
}

// pending returns how many asks have no answer yet.
func (b *batch) pending() int { return len(b.waiters) - b.next }

// due returns the earliest deadline of pending asks; there must be one.
func (b *batch) due() time.Time { return b.waiters[b.next].deadline }

func (b *batch) clear() {
	clear(b.waiters)
	clear(b.byID)
	clear(b.Refunds)
	b.Groups, b.Refunds = b.Groups[:0], b.Refunds[:0]
	b.groups, b.waiters, b.next = b.groups[:0], b.waiters[:0], 0
	b.started, b.inFlight, b.behind = false, false, nil
	b.done.Store(false)
}

// load fills in the part that is sent: no group whose asks have all been answered meanwhile,
// since a backend may refuse a question about no request, and with it the whole batch.
func (b *batch) load(now time.Time) {
	for _, g := range b.groups {
		if g.N > 0 {
			b.Groups = append(b.Groups, &g.Group)
		}
	}
	b.sent = now
}

func (b *batch) send(s *Store) {
	b.sent = time.Now()
	ctx, cancel := s.forBatch(b.sent.Add(s.cfg.Timeout))
	s.backend.Decide(ctx, &b.Batch)
	cancel()
	b.landed = time.Now()
	b.judge(s)
}

// judge reports the outcome of the batch to the breaker and the log.
func (b *batch) judge(s *Store) {
	var worst store.Fault
	var why error
	for _, g := range b.groups {
		if g.Err == nil {
			continue
		}
		f := s.backend.Classify(g.Err)
		if f.Class == store.ItemFault {
			s.undecidable(b.landed, s.about(g), g.Err)
		}
		if why == nil || f.Class > worst.Class {
			worst, why = f, fmt.Errorf("decide: %w", g.Err)
		}
	}
	if len(b.Groups) > 0 {
		s.judge(b.landed, b.sent, worst, why)
	}
}
