package simredis

import "time"

// sweepStep is how many places are looked at under one hold of a stripe's lock.
const sweepStep = 64

// Expire looks at up to budget places for keys, going on where the last call
// ended, and removes the keys which have expired at now. It returns how many.
// Whoever owns the table calls it at a steady pace: without, expired keys still
// read as never seen, but their memory is not used again. A table has one to
// three places for each key.
func (t *Table) Expire(now time.Time, budget int) int {
	t.cycle.Lock()
	defer t.cycle.Unlock()
	all := len(t.stripes) + 1
	// The stripe where we begin is passed twice: its hand may stand in the middle.
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

// sweep looks at up to budget places of a locked stripe's index, from its hand
// on. done says that it came to the end, from where the hand starts again.
func (t *Table) sweep(s *stripe, now int64, budget int) (looked, removed int, done bool) {
	for ; looked < budget && s.hand < len(s.index); looked++ {
		if s.index[s.hand] == 0 || s.record(s.hand).expires() > now {
			s.hand++
			continue
		}
		s.remove(s.hand) // another may have moved into its place
		if s == &t.overflow {
			t.buckets.Add(-1)
		} else {
			t.keys.Add(-1)
		}
		t.expired.Add(1)
		removed++
	}
	if s.hand < len(s.index) {
		return looked, removed, false
	}
	s.hand = 0
	return looked, removed, true
}
