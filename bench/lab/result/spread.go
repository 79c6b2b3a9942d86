package result

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// A Spread is the median of figures with their minimum and maximum.
type Spread struct{ Median, Least, Most float64 }

// SpreadOf returns the spread of a figure over runs; all NaN without runs.
func SpreadOf[T any](runs []T, figure func(T) float64) Spread {
	vs := Map(runs, figure)
	if len(vs) == 0 {
		return Spread{math.NaN(), math.NaN(), math.NaN()}
	}
	slices.Sort(vs)
	return Spread{Median(vs), vs[0], vs[len(vs)-1]}
}

// RatioOf returns the spread of the ratios of a figure in pairs of runs: ours[i] to peers[i].
func RatioOf[T any](ours, peers []T, figure func(T) float64) Spread {
	vs := make([]float64, len(ours))
	for i := range ours {
		vs[i] = figure(ours[i]) / figure(peers[i])
	}
	return SpreadOf(vs, func(v float64) float64 { return v })
}

// MedianOf returns the median of a figure over runs; NaN without runs.
func MedianOf[T any](runs []T, figure func(T) float64) float64 { return Median(Map(runs, figure)) }

// Map returns a value for each element of a list, in order.
func Map[T, V any](list []T, of func(T) V) []V {
	values := make([]V, len(list))
	for i, v := range list {
		values[i] = of(v)
	}
	return values
}

// Median returns the median of figures in any order; for an even number of them the mean of
// the middle two, and NaN for none.
func Median(figures []float64) float64 {
	n := len(figures)
	if n == 0 {
		return math.NaN()
	}
	vs := slices.Sorted(slices.Values(figures))
	return (vs[(n-1)/2] + vs[n/2]) / 2
}

// Quantile returns the least of the sorted values that a share q of them does not exceed;
// zero if there are none.
func Quantile[T any](sorted []T, q float64) (v T) {
	if len(sorted) == 0 {
		return v
	}
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// Latencies are sorted times of waiting.
type Latencies []time.Duration

// Millis returns a quantile in milliseconds.
func (w Latencies) Millis(q float64) float64 { return Millis(Quantile(w, q)) }

// String describes the distribution.
func (w Latencies) String() string {
	return fmt.Sprintf("p50 %.2f ms, p99 %.2f ms, longest %.1f ms", w.Millis(.5), w.Millis(.99), w.Millis(1))
}

// Millis returns d in milliseconds.
func Millis(d time.Duration) float64 { return 1e3 * d.Seconds() }

// Mean returns the mean of figures; zero for none.
func Mean(figures []float64) float64 {
	sum := 0.0
	for _, v := range figures {
		sum += v
	}
	return sum / float64(max(1, len(figures)))
}

// Ratio formats the spread of a ratio. Cells of this form are compared between runs of an
// experiment.
func (s Spread) Ratio(digits int) string {
	return fmt.Sprintf("**%.*f** (%.*f … %.*f)", digits, s.Median, digits, s.Least, digits, s.Most)
}
