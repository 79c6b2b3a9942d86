package chart

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gonum.org/v1/plot"
)

// A ruler is an axis with its final range and ticks.
type ruler struct {
	Axis
	low, high float64
	ticks     []plot.Tick
}

// newRuler returns the ruler of an axis for values from low to high, which the scale can show,
// with about n labels.
func newRuler(a Axis, low, high float64, n int) ruler {
	r := ruler{Axis: a, low: low, high: high}
	fixed := a.Min != 0 || a.Max != 0
	if fixed {
		r.low, r.high = a.Min, a.Max
	}
	switch a.Scale {
	case Log:
		r.logarithmic(fixed)
	case Percentiles:
		r.nines(fixed)
	default:
		r.linear(n)
	}
	return r
}

// Ticks implements plot.Ticker.
func (r ruler) Ticks(_, _ float64) []plot.Tick { return r.ticks }

// Normalize implements plot.Normalizer.
func (r ruler) Normalize(low, high, v float64) float64 {
	return (r.place(v) - r.place(low)) / (r.place(high) - r.place(low))
}

// place returns the position of a value on an unbounded axis.
func (r ruler) place(v float64) float64 {
	switch r.Scale {
	case Log:
		return math.Log10(max(v, math.SmallestNonzeroFloat64))
	case Percentiles:
		return -math.Log10(1 - min(v, 1-1e-12))
	}
	return v
}

// shows reports whether the scale can show v.
func (a *Axis) shows(v float64) bool {
	switch a.Scale {
	case Log:
		return v > 0
	case Percentiles:
		return v >= 0 && v < 1
	}
	return v == v
}

func (r *ruler) add(v float64, label string) {
	r.ticks = append(r.ticks, plot.Tick{Value: v, Label: label})
}

// linear adds evenly spaced ticks.
func (r *ruler) linear(n int) {
	if !(r.high > r.low) {
		r.high = r.low + 1
	}
	step := r.step((r.high - r.low) / float64(n))
	first := math.Ceil(r.low/step - 1e-9)
	for i := first; i*step <= r.high+step*1e-9; i++ {
		v := i * step
		r.add(v, r.label(v, step))
	}
}

const day = 86400 // seconds

// timeSteps are the usual steps of time up to a day, in seconds.
var timeSteps = []float64{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, day}

// step returns the least round step that is at least raw. Instants are shown to the second, so
// their steps are not shorter.
func (r *ruler) step(raw float64) float64 {
	if r.Unit == Clock || r.Unit == Elapsed && raw >= 0.5 {
		if i, _ := slices.BinarySearch(timeSteps, raw*(1-1e-9)); i < len(timeSteps) {
			return timeSteps[i]
		}
		return day * above(raw/day, 1, 2, 5)
	}
	return above(raw, 1, 2, 2.5, 5)
}

// above returns the least product of one of the factors and a power of ten that is at least v.
func above(v float64, factors ...float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(v)-1e-9))
	for _, f := range factors {
		if f*unit >= v*(1-1e-9) {
			return f * unit
		}
	}
	return 10 * unit
}

// logarithmic adds ticks at the powers of ten, and also between them if there are few.
func (r *ruler) logarithmic(fixed bool) {
	if !(r.low > 0) || !(r.high >= r.low) {
		r.low, r.high = 0.001, 1
	}
	if !fixed {
		r.low, r.high = 1/above(1/r.low, 1, 2, 5), above(r.high*(1+1e-9), 1, 2, 5)
		if r.high/r.low < 10 { // a smaller range would magnify noise
			r.low, r.high = 1/above(2/r.low, 1, 2, 5), above(r.high*1.5, 1, 2, 5)
		}
	}
	between := []float64{1}
	switch decades := math.Log10(r.high / r.low); {
	case decades <= 2.2:
		between = []float64{1, 2, 5}
	case decades <= 4:
		between = []float64{1, 3}
	}
	for e := math.Floor(math.Log10(r.low) - 1e-9); e <= math.Ceil(math.Log10(r.high)); e++ {
		for _, f := range between {
			v := f * math.Pow(10, e)
			if v >= r.low*(1-1e-9) && v <= r.high*(1+1e-9) {
				r.add(v, r.label(v, v))
			}
		}
	}
}

// nines adds ticks at 50 %, 90 %, 99 % and so on.
func (r *ruler) nines(fixed bool) {
	if !fixed {
		r.low = 0
		r.high = min(max(r.high, 0.99), 1-1e-9)
	}
	for _, p := range []float64{0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999, 0.9999999} {
		if p >= r.low && p <= r.high+1e-12 {
			r.add(p, r.label(p, 1-p))
		}
	}
}

// label formats a value of an axis whose labels are step apart.
func (r *ruler) label(v, step float64) string {
	if math.Abs(v) < step*1e-9 {
		v = 0
	}
	switch r.Unit {
	case Seconds:
		return span(v)
	case Elapsed:
		return elapsed(v, step, r.high)
	case Clock:
		return clock(v, step, r.high-r.low)
	case Share:
		return trim(v*100) + " %"
	}
	return short(v)
}

// short formats a number: 250, 1,500, 15k, 1.5M.
func short(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1e9:
		return trim(v/1e9) + "G"
	case a >= 1e6:
		return trim(v/1e6) + "M"
	case a >= 1e4:
		return trim(v/1e3) + "k"
	case a >= 1e3 && v == math.Trunc(v):
		s := strconv.FormatFloat(v, 'f', 0, 64)
		return s[:len(s)-3] + "," + s[len(s)-3:]
	}
	return trim(v)
}

// span formats seconds with a suitable unit.
func span(v float64) string {
	switch a := math.Abs(v); {
	case a == 0:
		return "0"
	case a < 0.9995e-6:
		return trim(v*1e9) + " ns"
	case a < 0.9995e-3:
		return trim(v*1e6) + " µs"
	case a < 0.9995:
		return trim(v*1e3) + " ms"
	}
	return trim(v) + " s"
}

// elapsed formats a time since the start, on an axis that ends at high.
func elapsed(v, step, high float64) string {
	whole := int(math.Round(math.Abs(v)))
	sign := ""
	if v < 0 {
		sign = "−"
	}
	switch {
	case v == 0:
		return "0"
	case high <= 180 || step < 1:
		return trim(v) + " s"
	case step >= 3600:
		return fmt.Sprintf("%s%d h", sign, whole/3600)
	case high >= 7200:
		return fmt.Sprintf("%s%d:%02d h", sign, whole/3600, whole/60%60)
	case step >= 60:
		return fmt.Sprintf("%s%d min", sign, whole/60)
	}
	return fmt.Sprintf("%s%d:%02d min", sign, whole/60, whole%60)
}

// clock formats an instant on an axis of that length.
func clock(v, step, length float64) string {
	at := time.Unix(int64(math.Round(v)), 0).UTC()
	switch {
	case step >= day:
		return at.Format("2 Jan")
	case length > day:
		return at.Format("2 Jan 15:04")
	case step < 60:
		return at.Format("15:04:05")
	}
	return at.Format("15:04")
}

// trim formats a number with as many digits as it has, but at most eight.
func trim(v float64) string {
	s := strconv.FormatFloat(v, 'g', 8, 64)
	if strings.Contains(s, "e") {
		s = strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strings.Replace(s, "-", "−", 1)
}
