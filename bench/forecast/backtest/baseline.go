package backtest

import (
	"fmt"
	"math"
	"time"
)

// A Baseline is a simple method. For each slot i of a trace, Forecast returns its forecast
// of slot i+k from the slots up to i. Slots that were not recorded have the last value
// before them.
type Baseline struct {
	Name     string
	Forecast func(held []float64, step time.Duration, k int) []float64
}

// Baselines returns the simple methods, in the order of their columns.
func Baselines() []Baseline {
	list := []Baseline{{"last", func(y []float64, _ time.Duration, _ int) []float64 { return y }}}
	for _, a := range []float64{.1, .2, .5} {
		list = append(list,
			Baseline{fmt.Sprintf("ses_%g", a), func(y []float64, _ time.Duration, _ int) []float64 { return smooth(y, a) }})
	}
	return append(list,
		Baseline{"holt_damped", func(y []float64, _ time.Duration, k int) []float64 { return dampedHolt(y, k) }},
		Baseline{"naive_day",
			func(y []float64, s time.Duration, k int) []float64 { return seasonal(y, slots(24*time.Hour, s), k) }},
		Baseline{"naive_week",
			func(y []float64, s time.Duration, k int) []float64 { return seasonal(y, slots(7*24*time.Hour, s), k) }},
		Baseline{"profile_ratio", profileRatio},
	)
}

func slots(d, step time.Duration) int { return int(d / step) }

// hold replaces slots that were not recorded by the last value before them. Those before
// the first value stay unknown.
func hold(rates []float64) []float64 {
	out := append([]float64(nil), rates...)
	for i := 1; i < len(out); i++ {
		if out[i] != out[i] {
			out[i] = out[i-1]
		}
	}
	return out
}

// smooth is simple exponential smoothing.
func smooth(y []float64, alpha float64) []float64 {
	out := make([]float64, len(y))
	level := y[0]
	for i, v := range y {
		level += alpha * (v - level)
		out[i] = level
	}
	return out
}

// dampedHolt is Holt's linear trend with damping: α .5, β .1, φ .9.
func dampedHolt(y []float64, k int) []float64 {
	const alpha, beta, phi = .5, .1, .9
	out := make([]float64, len(y))
	level, trend := y[0], 0.0
	ahead := phi * (1 - math.Pow(phi, float64(k))) / (1 - phi)
	for i, v := range y {
		e := v - level - phi*trend
		level, trend = level+phi*trend+alpha*e, phi*trend+alpha*beta*e
		out[i] = max(0, level+ahead*trend)
	}
	return out
}

// seasonal forecasts the value one season before the target.
func seasonal(y []float64, season, k int) []float64 {
	out := make([]float64, len(y))
	for i := range out {
		out[i] = math.NaN()
		if j := i + k - season; j >= 0 {
			out[i] = y[j]
		}
	}
	return out
}

// ratioMax bounds the ratio to the day before.
const ratioMax = 5

// profileRatio forecasts the mean of a quarter of an hour around the target a day before,
// multiplied by the ratio of the newest quarter of an hour to the same one a day before.
func profileRatio(y []float64, step time.Duration, k int) []float64 {
	width, season := max(1, slots(15*time.Minute, step)), slots(24*time.Hour, step)
	sums := make([]float64, len(y)+1)
	for i, v := range y {
		sums[i+1] = sums[i] + v
	}
	mean := func(from, to int) float64 { // of slots from … to-1
		from, to = max(from, 0), min(to, len(y))
		return (sums[to] - sums[from]) / float64(to-from)
	}
	out := make([]float64, len(y))
	for i := range out {
		out[i] = math.NaN()
		j := i + k - season
		if i-season-width+1 < 0 {
			continue
		}
		then := mean(i-season-width+1, i-season+1)
		ratio := 1.0
		if then > 0 {
			ratio = min(max(mean(i-width+1, i+1)/then, 1.0/ratioMax), ratioMax)
		}
		out[i] = mean(j-width/2, j+width/2+1) * ratio
	}
	return out
}
