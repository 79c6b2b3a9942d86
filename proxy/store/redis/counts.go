package redis

import (
	"weir/internal/metric"
	"weir/proxy/store"
)

// counts is what a client counts.
//
// Safe for concurrent use: atomic words.
type counts struct {
	commands   metric.Counter // sent to Redis
	decisions  metric.Counter // made by Redis
	remembered metric.Counter // refusals from memory
	undecided  metric.Counter // answered by the failure mode: all of them,
	late       metric.Counter // of these because their own deadline passed,
	crowded    metric.Counter // of these because too many waited
	errors     metric.Counter
	reloads    metric.Counter // calls repeated in full after NOSCRIPT
	unreleased metric.Counter // places in queues that were not given back, as Redis was away or too much waited
	exchanges  *metric.Histogram

	documentErrors metric.Counter // exchanges about documents without a usable answer
}

func newCounts() counts {
	return counts{exchanges: metric.NewHistogram(metric.Latency())}
}

// Stats are counts of a client.
type Stats struct {
	Commands   uint64 // sent to Redis
	Decisions  uint64 // that Redis made
	Remembered uint64 // refusals that were answered from memory
	Undecided  uint64 // requests answered by the failure mode: all of them,
	Late       uint64 // of these because their own deadline passed,
	Crowded    uint64 // of these because too many waited
	Errors     uint64 // calls without a usable answer
	Reloads    uint64 // calls repeated in full because the server did not know the script
	Unreleased uint64 // places in queues that were not given back, as Redis was away or too much waited
}

// Stats returns the counts as they are now.
func (c *Client) Stats() Stats {
	n := &c.counts
	return Stats{
		Commands: n.commands.Load(), Decisions: n.decisions.Load(), Remembered: n.remembered.Load(),
		Undecided: n.undecided.Load(), Late: n.late.Load(), Crowded: n.crowded.Load(),
		Errors: n.errors.Load(), Reloads: n.reloads.Load(), Unreleased: n.unreleased.Load(),
	}
}

// Register adds the store's metrics to set.
func (c *Client) Register(set *metric.Set) {
	n := &c.counts
	set.Histogram("ratelimiter_redis_request_duration_seconds", "how long Redis took to answer a batch", n.exchanges)
	set.Counter("ratelimiter_redis_errors_total", "calls without a usable answer", n.errors.Load)
	set.Counter("ratelimiter_redis_document_errors_total", "reads and writes of the stored configuration without a usable answer", n.documentErrors.Load)
	set.Counter("ratelimiter_redis_script_reloads_total", "calls repeated in full because the server did not know the script", n.reloads.Load)
	set.Gauge("ratelimiter_redis_connected", "1 while Redis decides", func() float64 { return truth(c.Connected()) })
	for _, m := range []struct {
		name string
		mode store.Mode
	}{{"normal", store.Exact}, {"failopen", store.FailOpen}, {"local", store.Local}, {"closed", store.Closed}} {
		set.Gauge("ratelimiter_mode"+metric.Labels("type", m.name), "1 for the mode in force",
			func() float64 { return truth(c.Mode() == m.mode) })
	}
	set.Counter("ratelimiter_store_commands_total", "commands that the store was given", n.commands.Load)
	set.Counter("ratelimiter_store_decisions_total", "decisions that the store made", n.decisions.Load)
	set.Counter("ratelimiter_store_remembered_total", "refusals answered from memory until their time to retry", n.remembered.Load)
	set.Counter("ratelimiter_store_unreleased_total", "places in queues that were not given back when their client left", n.unreleased.Load)
	const undecided = "requests answered by the failure mode, by reason"
	set.Counter(`ratelimiter_store_undecided_total{reason="late"}`, undecided, n.late.Load)
	set.Counter(`ratelimiter_store_undecided_total{reason="crowded"}`, undecided, n.crowded.Load)
	set.Counter(`ratelimiter_store_undecided_total{reason="away"}`, undecided, func() uint64 {
		rest, all := n.late.Load()+n.crowded.Load(), n.undecided.Load()
		return all - min(all, rest)
	})
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
