package lane

import (
	"bytes"
	"time"

	"weir/proxy/limit"
	"weir/proxy/store"
)

// unlimited answers an ask if all its counters are off, and reports whether they are.
func unlimited(ask *store.Ask, ans *store.Answer) bool {
	for i := range ask.Counters {
		if ask.Counters[i].Limit.Algorithm() != limit.Off {
			return false
		}
	}
	*ans = store.Answer{Granted: ask.N, Decisions: ans.Decisions[:0]}
	for i := range ask.Counters {
		ans.Decisions = append(ans.Decisions, ask.Counters[i].Limit.Preview(0, new(limit.State), limit.Charge{}))
	}
	return true
}

// Refund gives back what a request was charged with the next batch; see [store.Lane]. It is
// sent only once. If too many batches wait, the request stays charged. Remembered refusals are
// kept.
func (l *Lane) Refund(now time.Time, c *store.Counter, instant int64, mode store.Mode) {
	s := l.store
	switch {
	case instant == 0 || !c.Limit.Refunds():
		return
	case mode == store.Local:
		l.local.Refund(now, c, instant, store.Exact)
		return
	case mode != store.Exact:
		return
	case s.breaker.isOpen.Load() || len(l.queue) >= releasesMax:
		s.counts.unreleased.Inc()
		return
	}
	b, kept := l.gathering(), *c.Limit
	r := store.Refund{Counter: *c, Instant: instant}
	r.Counter.Key, r.Counter.Limit = bytes.Clone(c.Key), &kept
	b.Refunds = append(b.Refunds, r)
	l.start(now)
	l.arm()
}
