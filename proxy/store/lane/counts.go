package lane

import (
	"weir/internal/program/metric"
	"weir/proxy/store"
)

// counts are the counts of a store.
//
// Safe for concurrent use: all are atomic.
type counts struct {
	decisions  metric.Counter // made by the backend
	remembered metric.Counter // refusals from memory
	undecided  metric.Counter // answered by the failure mode, for any reason
	late       metric.Counter // likewise, because their own deadline passed
	crowded    metric.Counter // likewise, because too many waited
	unreleased metric.Counter // releases not sent: the store was unavailable, or too many batches waited

	documentErrors metric.Counter // calls about documents without a usable answer
}

// requests returns how many of n requests about these counters are to be counted.
func requests(counters []store.Counter, n int) uint64 {
	if store.LimitsRefunds(counters) {
		return 0
	}
	return uint64(n)
}

// Register adds the metrics of the store and of the backend to set.
func (s *Store) Register(set *metric.Set) {
	n, own := &s.counts, "ratelimiter_"+s.cfg.Name
	s.backend.Register(set)
	set.Counter(own+"_document_errors_total", "reads and writes of the stored configuration without a usable answer",
		n.documentErrors.Load)
	set.Gauge(own+"_connected", "1 while "+s.cfg.Title+" decides",
		func() float64 { return metric.Bool(s.Mode() == store.Exact) })
	for _, m := range []struct {
		name string
		mode store.Mode
	}{{"normal", store.Exact}, {"failopen", store.FailOpen}, {"local", store.Local}, {"closed", store.Closed}} {
		set.Gauge("ratelimiter_mode"+metric.Labels("type", m.name), "1 for the mode in force",
			func() float64 { return metric.Bool(s.Mode() == m.mode) })
	}
	set.Counter("ratelimiter_store_decisions_total", "decisions that the store made", n.decisions.Load)
	set.Counter("ratelimiter_store_remembered_total",
		"refusals answered from memory, for at most a tenth of their time to retry", n.remembered.Load)
	set.Counter("ratelimiter_store_unreleased_total",
		"places in queues and permits of shed requests that were not given back because the store was "+
			"unavailable or busy", n.unreleased.Load)
	const undecided = "requests answered by the failure mode, by reason"
	set.Counter(`ratelimiter_store_undecided_total{reason="late"}`, undecided, n.late.Load)
	set.Counter(`ratelimiter_store_undecided_total{reason="crowded"}`, undecided, n.crowded.Load)
	set.Counter(`ratelimiter_store_undecided_total{reason="away"}`, undecided, func() uint64 {
		rest, all := n.late.Load()+n.crowded.Load(), n.undecided.Load()
		return all - min(all, rest)
	})
}
