package tally_test

import (
	"fmt"
	"hash/maphash"
	"time"

	"weir/proxy/rules/tally"
)

// However many keys come by, the busiest are known.
func Example() {
	s := tally.NewSketch(8, time.Minute, maphash.MakeSeed())
	now := time.Date(2026, 1, 19, 16, 30, 0, 0, time.UTC)
	for i := range 1000 {
		s.Observe(now, []byte("busy"))
		s.Observe(now, fmt.Append(nil, "passer-by ", i))
		if i%2 == 0 {
			s.Observe(now, []byte("half as busy"))
		}
	}
	for _, e := range s.Ranking(now).Entries[:2] {
		fmt.Printf("%s: %d, of which at most %d are others'\n", e.Key, e.Count, e.Error)
	}
	// Output:
	// busy: 1000, of which at most 0 are others'
	// half as busy: 500, of which at most 0 are others'
}
