package simredis

import "time"

// sweepStep bounds the places that are checked while a stripe's lock is held.
const sweepStep = 64

// Expire checks up to budget places, continuing where the last call ended, and removes keys that
// have expired at now. It returns how many. The owner of the table calls it regularly: expired
// keys count as new in any case, but only Expire frees their memory. A table has one to three
// places per key.
func (t *Table) Expire(now time.Time, budget int) int {
	t.cycle.Lock()
	defer t.cycle.Unlock()
	all := len(t.stripes) + 1
	// The first stripe is visited twice, because its hand may be in the middle.
	expired, passed := 0, 0
	for budget > 0 && passed <= all {
		s := &t.overflow
		if t.cycle.next < len(t.stripes) {
			s = &t.stripes[t.cycle.next]
		}
		s.mu.Lock()
		looked, removed, done := t.sweep(s, now.UnixMicro(), min(budget, sweepStep))
		s.mu.Unlock()
		budget -= looked
		expired += removed
		if done {
			passed++
			t.cycle.next = (t.cycle.next + 1) % all
		}
	}
	return expired
}

// sweep checks up to budget places of a locked stripe's index, from its hand on. done says that
// it reached the end, and the hand starts again.
func (t *Table) sweep(s *stripe, now int64, budget int) (looked, removed int, done bool) {
	for ; looked < budget && s.hand < len(s.index); looked++ {
		if s.index[s.hand] == 0 || s.record(s.hand).expires() > now {
			s.hand++
			continue
		}
		s.remove(s.hand) // another key may have moved to this place
		if s == &t.overflow {
			t.buckets.Add(-1)
		} else {
			t.keys.Add(-1)
		}
		removed++
	}
	if s.hand < len(s.index) {
		return looked, removed, false
	}
	s.hand = 0
	return looked, removed, true
}
