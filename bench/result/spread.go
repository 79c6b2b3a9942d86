package result

import (
	"fmt"
	"slices"
)

// A Spread is the median of figures and their ends.
type Spread struct{ Median, Least, Most float64 }

// SpreadOf is the spread of a figure over runs, of which there must be one. The
// median of an even number is the mean of the two in the middle.
func SpreadOf[T any](runs []T, figure func(T) float64) Spread {
	var vs []float64
	for _, r := range runs {
		vs = append(vs, figure(r))
	}
	slices.Sort(vs)
	n := len(vs)
	return Spread{(vs[(n-1)/2] + vs[n/2]) / 2, vs[0], vs[n-1]}
}

// Ratio shows the spread of a ratio in the form that Ratios reads.
func (s Spread) Ratio(digits int) string {
	return fmt.Sprintf("**%.*f** (%.*f … %.*f)", digits, s.Median, digits, s.Least, digits, s.Most)
}
