package wire

import (
	"time"

	"weir/proxy/http/exchange"
	"weir/proxy/store"
)

// ask asks the store for a session of this loop. Asks may be batched; later answers wake the loop
// once per batch.
func (s *loopServer) ask(now time.Time, x *exchange.Exchange, ask *store.Ask, ans *store.Answer) bool {
	c := x.Owner.(*client)
	c.asked = time.Since(s.shared.began)
	if c.answered == nil {
		c.answered = c.decided
	}
	if s.lane.Ask(now, ask, ans, c.answered) {
		s.counts.Decided(now, time.Since(s.shared.began)-c.asked, ans.Granted > 0)
		return true
	}
	return false
}

// decided passes the store's answer to the session that waits for it.
func (c *client) decided(now time.Time, ans *store.Answer) {
	c.server.counts.Decided(now, time.Since(c.server.shared.began)-c.asked, ans.Granted > 0)
	c.x.HandleDecision(now, ans)
	c.apply(now)
}

// leave gives back places in queues, or what a request was charged.
func (s *loopServer) leave(now time.Time, l *exchange.Refund) {
	for i := range l.Asked {
		c := &l.Asked[i]
		switch {
		case l.At != 0:
			store.RefundUnsent(now, s.lane, &store.Refund{Counter: c.Counter, Instant: l.At}, l.Mode)
		case c.Slot != 0:
			s.lane.Refund(now, &c.Counter, c.Slot, l.Mode)
		}
	}
}
