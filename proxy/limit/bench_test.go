package limit_test

import (
	"testing"

	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
)

// benchmarked holds a large limit, which admits, and a small one, which refuses
// nearly all, of each algorithm.
var benchmarked = []limit.Config{
	{Algorithm: limit.Fixed, Limit: 1_000_000, Window: 1},
	{Algorithm: limit.Fixed, Limit: 1, Window: 1},
	{Algorithm: limit.Sliding, Limit: 1_000_000, Window: 1},
	{Algorithm: limit.Sliding, Limit: 1, Window: 1},
	{Algorithm: limit.Token, Capacity: 1_000_000, FillRate: 1_000_000},
	{Algorithm: limit.Token, Capacity: 1, FillRate: 1},
	{Algorithm: limit.SlidingLog, Limit: 60_000, Window: 1},
	{Algorithm: limit.SlidingLog, Limit: 1, Window: 1},
	{Algorithm: limit.GCRA, Limit: 1_000_000, Window: 1, Burst: 1_000_000},
	{Algorithm: limit.GCRA, Limit: 1, Window: 1, Burst: 1},
	{Algorithm: limit.Leaky, Capacity: 1_000_000, FillRate: 1_000_000},
	{Algorithm: limit.Leaky, Capacity: 1, FillRate: 1},
	{Algorithm: limit.Off},
}

func BenchmarkTake(b *testing.B) {
	for _, c := range benchmarked {
		name := c.Algorithm.String() + "/admitted"
		if c.Limit+c.Capacity == 1 {
			name = c.Algorithm.String() + "/refused"
		}
		b.Run(name, func(b *testing.B) {
			l := limittest.Must(c)
			var s limit.State
			now := limittest.Epoch
			for b.Loop() {
				now++
				l.Take(now, &s, 1, 1)
			}
		})
	}
}
