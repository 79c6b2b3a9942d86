package wire

import (
	"time"

	"weir/proxy/decide"
	"weir/proxy/exchange"
	"weir/proxy/store"
)

// ask has the store decide for a session of this side. Asks may gather; what comes back
// later wakes the loop once.
func (s *side) ask(now time.Time, x *exchange.Exchange, ask *store.Ask, ans *store.Answer) bool {
	c := x.Owner.(*client)
	c.asked = time.Now()
	if c.answered == nil {
		c.answered = c.decided
	}
	if s.lane.Ask(now, ask, ans, c.answered) {
		s.counts.decided(now, time.Since(c.asked), ans.Granted > 0)
		return true
	}
	s.armLane()
	return false
}

// armLane has the lane looked after when an ask's time is over.
func (s *side) armLane() {
	if s.laneAlarm == nil {
		s.laneAlarm = s.loop.NewAlarm(func(now time.Time) {
			s.lane.Expire(now)
			s.armLane()
		})
	}
	if at := s.lane.Next(); !at.IsZero() {
		s.laneAlarm.Set(at)
	}
}

// decided passes the store's answer on to the session that waits for it.
func (c *client) decided(now time.Time, ans *store.Answer) {
	c.side.counts.decided(now, time.Since(c.asked), ans.Granted > 0)
	c.s.HandleAnswer(now, ans)
	c.apply(now)
}

// decided measures how long passing the limiter took.
func (c *counts) decided(now time.Time, took time.Duration, admitted bool) {
	if admitted {
		c.forwardedDecide.Observe(took)
		c.forwardedMax.Observe(now, took)
		return
	}
	c.rejectedDecide.Observe(took)
	c.rejectedMax.Observe(now, took)
}

// leave gives places in queues back.
func (s *side) leave(now time.Time, l *exchange.Leave) {
	for i := range l.Places {
		c := &l.Places[i]
		if c.Slot == 0 {
			continue
		}
		counter := store.Counter{Rule: c.Name, Key: c.Key, Limit: c.Limit, Cost: c.Cost}
		s.lane.Release(now, &counter, c.Slot, l.Mode)
		s.armLane()
	}
}

// judged counts a decision for each rule that had a part in it.
func (s *side) judged(now time.Time, d *decide.Decided) {
	p, asked, ans := d.Policy, d.Asked, d.Answer
	s.counts.traffic.Decided(ans.Granted > 0)
	if len(ans.Decisions) == 0 { // the store is away, and no rule has judged
		count := s.rules.of(p, -1)
		if ans.Granted > 0 {
			count.forwarded.Inc()
		} else {
			count.unavailable.Inc()
		}
		return
	}
	if candidate := s.front.candidate.Load(); candidate != nil {
		s.tryCandidate(now, candidate, ans)
	}
	for i := range asked {
		took, refused := d.Judged(i)
		if !took {
			continue
		}
		count := s.rules.of(p, asked[i].Index)
		if asked[i].Index >= 0 { // the global rule has one key
			s.rules.touch(now, asked[i].Index, asked[i].Key, refused)
		}
		if asked[i].Lacks {
			count.shared.Inc()
		}
		if refused {
			count.rejected.Inc()
		} else {
			count.forwarded.Inc()
		}
	}
}
