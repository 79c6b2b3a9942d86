package backtest

import (
	"math"
	"slices"
	"time"
)

// Spikes says how many sudden rises were announced.
type Spikes struct {
	Rises       int     // times at which the rate reached 1.5 times its median of a quarter of an hour
	Announced   int     // of these, with at least half of the height
	FalseAlarms float64 // announcements of a rise that did not come, per day
}

const (
	riseBy     = 1.5
	medianSpan = 15 * time.Minute
)

// Spikes judges horizon h, which should be two minutes or more, over a span of
// targets: a rise is announced when the 95 % quantile, or the median, that was said
// h ahead reaches half of its height over the level of when that was said.
func (r *Run) Spikes(h int, span Span, byMedian bool) Spikes {
	k, y := r.slots(h), r.Trace.Rates
	width := max(3, int(medianSpan/r.Trace.Step))
	var out Spikes
	rising, alarmed := false, false
	days := 0.0
	for j := max(span.From, width+k); j < min(span.To, len(y)); j++ {
		level := median(y[j-width : j])
		then := median(y[j-k-width : j-k])
		if y[j] != y[j] || level != level || then != then {
			continue
		}
		days += r.Trace.Step.Hours() / 24
		said := r.Said[h][j-k].Q95
		if byMedian {
			said = r.Said[h][j-k].Q50
		}
		rise := y[j] >= riseBy*level && level > 0
		alarm := said >= riseBy*then && then > 0
		if rise && !rising {
			out.Rises++
			if said-then >= (y[j]-level)/2 {
				out.Announced++
			}
		}
		if alarm && !alarmed && !near(y, j, width, riseBy*then) {
			out.FalseAlarms++
		}
		rising, alarmed = rise, alarm
	}
	if days > 0 {
		out.FalseAlarms /= days
	}
	return out
}

// near says whether a rate of at least least lies within a quarter of width of slot j.
func near(y []float64, j, width int, least float64) bool {
	for i := max(0, j-width/4); i <= min(len(y)-1, j+width/4); i++ {
		if y[i] >= least {
			return true
		}
	}
	return false
}

// median leaves out what was not recorded; NaN when that is everything.
func median(v []float64) float64 {
	var known []float64
	for _, x := range v {
		if x == x {
			known = append(known, x)
		}
	}
	if len(known) == 0 {
		return math.NaN()
	}
	slices.Sort(known)
	return known[len(known)/2]
}
