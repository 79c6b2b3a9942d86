package limit

import (
	"math/rand/v2"
	"testing"
)

// quotient goes through float64; around multiples and at the bounds is where it
// would be wrong if it ever were.
func TestQuotientIsExact(t *testing.T) {
	check := func(x, y int64) {
		if x < 0 || x > exactMax || y < 1 || y > exactMax {
			return
		}
		if got := quotient(x, y); got != x/y {
			t.Fatalf("quotient(%d, %d) is %d, want %d", x, y, got, x/y)
		}
	}
	edges := []int64{1, 2, 3, 7, 1000, 1_000_000, 60_000_000, 1<<26 + 1, 1<<27 - 1, 1<<52 - 1, 1<<52 + 1, exactMax - 1,
		exactMax}
	for _, x := range edges {
		for _, y := range edges {
			check(x, y)
			check(x/y*y, y)
			check(x/y*y-1, y)
		}
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 100_000 {
		y := r.Int64N(1<<r.IntN(53)) + 1
		q := r.Int64N(exactMax/y + 1)
		check(q*y, y)
		check(q*y-1, y)
		check(q*y+1, y)
	}
}
