package redis

import (
	"time"

	"weir/proxy/limit"
	"weir/proxy/store"
)

// unlimited answers an ask of counters that are all off.
func unlimited(ask *store.Ask, ans *store.Answer) bool {
	for i := range ask.Counters {
		if ask.Counters[i].Limit.Algorithm() != limit.Off {
			return false
		}
	}
	ans.Granted, ans.Decisions, ans.Tightest, ans.Mode = ask.N, ans.Decisions[:0], 0, store.Exact
	for i := range ask.Counters {
		ans.Decisions = append(ans.Decisions, ask.Counters[i].Limit.Preview(0, new(limit.State), limit.Ask{}))
	}
	return true
}

// Release gives back the place that a request had booked in the queue of a leaky
// counter, whose client has left: if it was the last and its slot, limit.Decision.Slot
// of the answer of that mode, is still to come; see limit.Limit.Release. It is sent
// with the next batch, once; nobody is told what comes of it. When it is lost, or too
// many wait to be sent, the place stays booked and nobody takes it. A refusal that is
// remembered is not forgotten for it.
func (l *Lane) Release(now time.Time, c *store.Counter, slot int64, mode store.Mode) {
	client := l.client
	switch {
	case c.Limit.Algorithm() != limit.Leaky || slot == 0:
		return
	case mode == store.Local:
		client.cfg.Local.Release(client.steady(now), c, slot)
		return
	case mode != store.Exact:
		return
	case client.breaker.away.Load() || len(l.queue) >= givesMax:
		client.counts.unreleased.Inc()
		return
	}
	b := l.gathering()
	b.gives = append(b.gives, call{
		script: client.scripts.give,
		keys:   []string{string(appendName(nil, l.encoder.prefix, c.Rule, c.Key, c.Limit.Kind()))},
		args:   appendGive([]string{"-1"}, c.Limit, c.Cost, slot),
	})
	l.start()
}
