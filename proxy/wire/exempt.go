package wire

import (
	"iter"
	"maps"
	"slices"

	"weir/internal/metric"
)

// byExempting are the samples of requests that rules exempt.
func (f *Front) byExempting() iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		totals := f.ruleTotals()
		for _, id := range slices.Sorted(maps.Keys(totals)) {
			if n := totals[id].exempt; n > 0 && !yield(metric.Labels("rule", id), n) {
				return
			}
		}
	}
}
