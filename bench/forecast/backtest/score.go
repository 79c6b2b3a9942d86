package backtest

import (
	"math"
	"time"

	"weir/advisor/forecast"
)

// A Score has the errors of forecasts. Rates are per second.
type Score struct {
	N        int     // forecasts scored
	WAPE     float64 // Σ|error of the median| / Σ truth
	RMSE     float64
	MASE     float64    // Σ|error of the median| / Σ|error of the last value|
	Pinball  [5]float64 // loss of q05, q50, q80, q95, q99, relative to the mean truth
	Within   float64    // share of truths in [q05, q95]
	Below    [5]float64 // share of truths at or below q05, q50, q80, q95, q99
	Width    float64    // mean of q95 - q05, relative to the mean truth
	Interval float64    // mean interval score of [q05, q95], relative to the mean |error of the last value|
}

// probabilities are those of the quantiles, in the order of a Score's arrays.
var probabilities = [...]float64{.05, .5, .8, .95, .99}

// Score scores horizon h over the origins in a span whose own slot and target were
// recorded.
func (r *Run) Score(h int, span Span) Score {
	var t tally
	k, y := r.slots(h), r.Trace.Rates
	for i := max(0, span.From); i < min(span.To, len(y)-k); i++ {
		t.add(y[i+k], y[i], r.Forecasts[h][i])
	}
	return t.score()
}

// A tally has the sums behind a score.
type tally struct {
	n, abs, sq, last, truth, width, interval, within float64
	pinball, below                                   [5]float64
}

// add adds a truth, the last value when its forecast was made, and the forecast.
func (t *tally) add(y, last float64, s forecast.Point) {
	if y != y || last != last || s.Q50 != s.Q50 {
		return
	}
	e := y - s.Q50
	t.n++
	t.abs += math.Abs(e)
	t.sq += e * e
	t.last += math.Abs(y - last)
	t.truth += y
	for i, q := range [...]float64{s.Q05, s.Q50, s.Q80, s.Q95, s.Q99} {
		tau := probabilities[i]
		t.pinball[i] += max(tau*(y-q), (tau-1)*(y-q))
		if y <= q {
			t.below[i]++
		}
	}
	if y >= s.Q05 && y <= s.Q95 {
		t.within++
	}
	const alpha = .1 // of the band from q05 to q95
	t.width += s.Q95 - s.Q05
	t.interval += s.Q95 - s.Q05 + 2/alpha*(max(0, s.Q05-y)+max(0, y-s.Q95))
}

func (t *tally) score() Score {
	s := Score{
		N: int(t.n), WAPE: t.abs / t.truth, RMSE: math.Sqrt(t.sq / t.n), MASE: t.abs / t.last,
		Within: t.within / t.n, Width: t.width / t.truth, Interval: t.interval / t.last,
	}
	for i := range s.Pinball {
		s.Pinball[i] = t.pinball[i] / t.truth
		s.Below[i] = t.below[i] / t.n
	}
	return s
}

// coldStartEnds are the lengths of history that ColdStart distinguishes.
var coldStartEnds = [...]time.Duration{5 * time.Minute, 30 * time.Minute, 6 * time.Hour, 48 * time.Hour,
	8 * 24 * time.Hour, math.MaxInt64}

// A ColdStartScore is the score of the forecasts made with From to To of history.
type ColdStartScore struct {
	From, To time.Duration
	Score    Score
}

// ColdStart scores horizon h by the amount of history: up to 5 minutes, 30 minutes, 6
// hours, 2 days, 8 days, and more. Those without forecasts are left out.
func (r *Run) ColdStart(h int) []ColdStartScore {
	var list []ColdStartScore
	from := time.Duration(0)
	for _, to := range coldStartEnds {
		span := Span{int(from / r.Trace.Step), len(r.Trace.Rates)}
		if n := to / r.Trace.Step; int(n) < span.To {
			span.To = int(n)
		}
		if s := r.Score(h, span); s.N > 0 {
			list = append(list, ColdStartScore{from, to, s})
		}
		from = to
	}
	return list
}
