package wire

import (
	"iter"
	"maps"
	"slices"

	"weir/internal/metric"
	"weir/proxy/decide"
	"weir/proxy/rule"
)

// lacking counts a request that a rule refused because it lacks a part of the key.
func (s *side) lacking(m *decide.Case) {
	s.counts.traffic.Decided(false)
	s.rules.of(m.Policy, m.Lacks.Index).lacking.Inc()
}

// byMissing are the samples of requests that lacked a part of a rule's key.
func (f *Front) byMissing() iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		totals := f.ruleTotals()
		for _, id := range slices.Sorted(maps.Keys(totals)) {
			t := totals[id]
			if t.shared > 0 && !yield(metric.Labels("rule", id, "missing", rule.Share.String()), t.shared) {
				return
			}
			if t.lacking > 0 && !yield(metric.Labels("rule", id, "missing", rule.Refuse.String()), t.lacking) {
				return
			}
		}
	}
}

// A missingReport is what has been logged of requests without a part of a rule's key.
//
// Owned by housekeeping.
type missingReport struct {
	shared  map[string]bool   // by rule
	refused map[string]uint64 // by rule, how many
}

// report logs once for each rule that such requests share one limit, and how many each
// rule has refused since the last time.
func (m *missingReport) report(f *Front) {
	totals := f.ruleTotals()
	last := *m
	*m = missingReport{make(map[string]bool), make(map[string]uint64)}
	for _, id := range slices.Sorted(maps.Keys(totals)) {
		t := totals[id]
		m.shared[id], m.refused[id] = t.shared > 0, t.lacking
		if t.shared > 0 && !last.shared[id] {
			f.cfg.Log.Warn("Requests without a part of the rule's key share one limit; missing: skip or refuse changes that", "rule", id)
		}
		if t.lacking > last.refused[id] {
			f.cfg.Log.Warn("Requests rejected: a part of the rule's key is missing", "rule", id, "count", t.lacking-last.refused[id])
		}
	}
}
