package speed

import (
	"fmt"
	"slices"
	"strings"

	"weir/bench/report"
)

func (l *lab) heading(text string) {
	fmt.Fprintf(l.out, "\n### %s\n\n", text)
}

func (l *lab) table(columns ...string) {
	l.row(columns...)
	l.row(slices.Repeat([]string{"---"}, len(columns))...)
}

func (l *lab) row(cells ...string) { fmt.Fprintf(l.out, "| %s |\n", strings.Join(cells, " | ")) }

// median is the middle of a figure over samples.
func median(samples []sample, of func(sample) float64) float64 {
	return report.SpreadOf(samples, of).Median
}

// ratios is the median of the pairs' ratios, ours to the peer's, with its ends.
func ratios(ours, peers []sample, of func(sample) float64) string {
	var vs []float64
	for i := range ours {
		vs = append(vs, of(ours[i])/of(peers[i]))
	}
	return report.SpreadOf(vs, func(v float64) float64 { return v }).Ratio(2)
}
