package scenario

import (
	"maps"
	"math"
	"slices"
)

// quantile reads a quantile from the cumulative counts of a histogram's buckets
// by their upper bounds, linear within a bucket as Prometheus does it; zero when
// nothing was counted, the largest finite bound when it lies beyond.
func quantile(q float64, buckets map[float64]float64) float64 {
	bounds := slices.Sorted(maps.Keys(buckets))
	if len(bounds) == 0 {
		return 0
	}
	total := buckets[bounds[len(bounds)-1]]
	if total <= 0 {
		return 0
	}
	rank, low, below := q*total, 0.0, 0.0
	for _, bound := range bounds {
		n := buckets[bound]
		if n >= rank && n > below {
			if math.IsInf(bound, 1) {
				return low
			}
			return low + (bound-low)*(rank-below)/(n-below)
		}
		low, below = bound, n
	}
	return low
}
