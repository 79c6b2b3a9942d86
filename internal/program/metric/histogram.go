package metric

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"
)

// LatencyBuckets returns the bounds, in seconds, for waits of users: from 100 µs to 10 s in steps of 1,
// 2 and 5, and 25 ms.
func LatencyBuckets() []float64 {
	return []float64{
		0.0001, 0.0002, 0.0005,
		0.001, 0.002, 0.005,
		0.01, 0.02, 0.025, 0.05,
		0.1, 0.2, 0.5,
		1, 2, 5, 10,
	}
}

// DecisionBuckets returns the bounds, in seconds, for operations that normally take microseconds: from
// 1 µs to 1 s.
func DecisionBuckets() []float64 {
	return []float64{
		0.000001, 0.000002, 0.000005,
		0.00001, 0.00002, 0.00005,
		0.0001, 0.0002, 0.0005,
		0.001, 0.002, 0.005,
		0.01, 0.05, 0.1, 0.5, 1,
	}
}

// A Histogram counts durations by size: how many were at most each bound, and
// their sum. A duration equal to a bound belongs to that bound, as the label le
// ("less or equal") says.
//
// Each loop should have its own: then Observe is two uncontended atomic additions. Set.Histogram
// sums them when it is scraped.
//
// Safe for concurrent use: fields that change are atomic, and the count is computed from the
// buckets, so that a reader sees no count without its bucket. The sum may include durations
// that the buckets do not.
type Histogram struct {
	bounds []int64 // nanoseconds, ascending
	// first[k] is the index of the first bound that a duration with k significant bits can
	// belong to. It replaces most of the search.
	first  [65]uint8
	counts []atomic.Uint64 // one per bound, and one for larger durations
	sum    atomic.Int64    // nanoseconds
}

// boundsMax bounds the number of bounds, so that an index fits into a byte.
const boundsMax = 255

// NewHistogram returns a Histogram with the given bounds in seconds. It panics if they are not
// positive and ascending, or are more than 255.
func NewHistogram(bounds []float64) *Histogram {
	if len(bounds) == 0 || len(bounds) > boundsMax {
		panic(fmt.Sprintf("bug: histogram with %d bounds", len(bounds)))
	}
	h := &Histogram{
		bounds: make([]int64, len(bounds)),
		counts: make([]atomic.Uint64, len(bounds)+1),
	}
	last := int64(0)
	for i, b := range bounds {
		h.bounds[i] = int64(math.Round(b * float64(time.Second)))
		if h.bounds[i] <= last {
			panic(fmt.Sprintf("bug: histogram bound %g is not above the one before it", b))
		}
		last = h.bounds[i]
	}
	for k := range h.first {
		least := int64(uint64(1) << k >> 1) // with k significant bits; no duration has 64
		i, _ := slices.BinarySearch(h.bounds, least)
		h.first[k] = uint8(i)
	}
	return h
}

// Observe counts d. A negative d, from a clock that stepped back, counts as 0.
func (h *Histogram) Observe(d time.Duration) {
	ns := max(int64(d), 0)
	i := int(h.first[bits.Len64(uint64(ns))])
	for i < len(h.bounds) && ns > h.bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(ns)
}

// Sum returns the sum of the observed durations.
func (h *Histogram) Sum() time.Duration { return time.Duration(h.sum.Load()) }
