package delivery

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"weir/internal/program/metric"
	"weir/proxy/deferred"
)

// rulesMax bounds the rules that are counted separately; stored requests may outlive their rules.
const rulesMax = 10_000

// An event is a rule and an outcome that is counted for it.
type event struct{ rule, outcome string }

// counts are the counters of stored requests.
//
// Safe for concurrent use: mu guards the maps.
type counts struct {
	storing *metric.Histogram // how long storing took
	waited  *metric.Histogram // from accepted to delivered

	mu         *sync.Mutex
	accepts    map[event]uint64
	deliveries map[event]uint64
}

func newCounts() counts {
	return counts{storing: metric.NewHistogram(metric.LatencyBuckets()),
		waited: metric.NewHistogram(metric.LatencyBuckets()),
		mu:     new(sync.Mutex), accepts: make(map[event]uint64), deliveries: make(map[event]uint64)}
}

// add increments the count of e in m.
func (c *counts) add(m map[event]uint64, e event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := m[e]; !known && len(m) >= rulesMax {
		e.rule = ""
	}
	m[e]++
}

// stored counts the outcome of storing an entry.
func (c *counts) stored(rule string, o deferred.Outcome) {
	if o == deferred.Storing {
		o = deferred.Duplicate
	}
	c.add(c.accepts, event{rule, o.String()})
}

// delivered counts the outcome of a delivery.
func (c *counts) delivered(e *deferred.Entry, s *deferred.Settlement, now time.Time) {
	outcome := s.To.String()
	switch {
	case s.To == deferred.Waiting && s.Attempt:
		outcome = "retried"
	case s.To == deferred.Waiting:
		outcome = "refused"
	case s.To == deferred.Done && e.Rule != CallbackRule:
		c.waited.Observe(now.Sub(e.Accepted))
	}
	c.add(c.deliveries, event{e.Rule, outcome})
}

func (c *counts) seen(m map[event]uint64) map[event]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(m)
}

// accepted returns the counts of outcomes of storing.
func (d *Dispatcher) accepted() map[event]uint64 { return d.counts.seen(d.counts.accepts) }

// ended returns the counts of outcomes of deliveries. It adds entries that the queue gave up,
// which no delivery has settled.
func (d *Dispatcher) ended() map[event]uint64 {
	seen := d.counts.seen(d.counts.deliveries)
	for l, n := range d.stats().GivenUp {
		seen[event{l.Rule, l.To.String()}] += n
	}
	return seen
}

// each adds counters in order. For all rules in force the given outcomes exist from the start,
// because Prometheus does not see an increase when a counter appears with the value 1.
func (d *Dispatcher) each(counted func() map[event]uint64, outcomes ...string) func(add func(labels string, n uint64)) {
	return func(add func(labels string, n uint64)) {
		seen := counted()
		for rule := range d.deferring {
			for _, o := range outcomes {
				seen[event{rule, o}] += 0
			}
		}
		order := func(a, b event) int { return cmp.Or(cmp.Compare(a.rule, b.rule), cmp.Compare(a.outcome, b.outcome)) }
		for _, e := range slices.SortedFunc(maps.Keys(seen), order) {
			add(metric.Labels("rule", e.rule, "outcome", e.outcome), seen[e])
		}
	}
}

func (c *counts) register(set *metric.Set, d *Dispatcher) {
	set.Counters("ratelimiter_deferred_total", "refused requests that were to be stored",
		d.each(d.accepted, "full", "unstored"))
	set.Counters("ratelimiter_deferred_deliveries_total", "deliveries of stored requests by outcome",
		d.each(d.ended, "failed", "expired", "unknown"))
	set.Histogram("ratelimiter_deferred_store_seconds", "how long storing a request took", c.storing)
	set.Histogram("ratelimiter_deferred_wait_seconds", "from accepting a request to the target's final answer", c.waited)
	perRule := func(name, help string, of func(r *deferred.RuleStats) (v float64, known bool)) {
		set.Gauges(name, help, func(add func(labels string, v float64)) {
			for _, r := range d.stats().Rules {
				if v, known := of(&r); known {
					add(metric.Labels("rule", r.Rule), v)
				}
			}
		})
	}
	perRule("ratelimiter_deferred_waiting", "stored requests that wait or are being delivered",
		func(r *deferred.RuleStats) (float64, bool) { return float64(waiting(r)), true })
	perRule("ratelimiter_deferred_dead", "stored requests that were not delivered and are kept for a while",
		func(r *deferred.RuleStats) (float64, bool) { return float64(dead(r)), true })
	perRule("ratelimiter_deferred_oldest_seconds", "how long the oldest stored request has waited",
		func(r *deferred.RuleStats) (float64, bool) { return time.Since(r.Oldest).Seconds(), !r.Oldest.IsZero() })
	set.Gauges("ratelimiter_deferred_for_seconds", "how long a stored request may wait",
		func(add func(labels string, v float64)) {
			for rule, seconds := range d.deferring {
				add(metric.Labels("rule", rule), seconds)
			}
		})
	set.Gauge("ratelimiter_deferred_bytes", "bytes that stored requests and results take",
		func() float64 { return float64(d.stats().Bytes) })
	set.Counter("ratelimiter_deferred_unseen_total",
		"admitted requests with an Idempotency-Key that were forwarded without being looked up in the "+
			"queue, for lack of room",
		d.lookUps.skips)
	set.Counter("ratelimiter_deferred_evicted_total",
		"stored requests in final states that were deleted early because their client had more than its share",
		func() uint64 { return d.stats().Evicted })
	set.Gauge("ratelimiter_deferred_unreadable", "stored requests that cannot be read and were set aside",
		func() float64 { return float64(d.stats().Unreadable) })
}

// deferring yields the rules in force whose requests may be stored, and how long these may wait.
func (d *Dispatcher) deferring(yield func(rule string, seconds float64) bool) {
	if d.cfg.Post != nil && !yield(CallbackRule, d.cfg.callbacks.For) {
		return
	}
	rules := d.cfg.Policy().Rules
	for i := 0; rules != nil && i < rules.Len(); i++ {
		if r := rules.Rule(i); r.Defer != nil && !yield(r.ID, r.Defer.For) {
			return
		}
	}
}

// stats returns the statistics of the queue, or none while it is not open.
func (d *Dispatcher) stats() deferred.Stats {
	if q := d.opened(); q != nil {
		return q.Stats()
	}
	return deferred.Stats{}
}

// waiting returns how many of a rule's entries are in lines.
func waiting(r *deferred.RuleStats) int {
	return r.States[deferred.Waiting].Entries + r.States[deferred.Delivering].Entries
}

// dead returns how many of a rule's entries may be retried by an operator.
func dead(r *deferred.RuleStats) (n int) {
	for s := range deferred.State(deferred.StateCount) {
		if s.Dead() {
			n += r.States[s].Entries
		}
	}
	return n
}
