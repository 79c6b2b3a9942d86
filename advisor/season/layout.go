package season

import (
	"slices"
	"sort"
	"time"

	"weir/advisor/fit"
)

// A knot is a column of the trend: a hinge (u − at)+, or a step 1[u ≥ at].
type knot struct {
	at   float64
	step bool
}

// layout says which column means what: those that repeat every week, the knots,
// the year, the events.
type layout struct {
	blocks
	knots  []knot    // the slope from the beginning is the first of them
	knees  int       // how many hinges follow it; the rest are steps
	names  []string  // of events
	pieces []float64 // where the trend's pieces begin, ascending; the first at 0
}

// newLayout returns the columns for d.
func newLayout(d *data, m *Model, shifts []time.Time) layout {
	l := layout{blocks: activate(d, m.span), names: m.names, pieces: []float64{0}}
	if m.span > 0 {
		l.knots = append(l.knots, knot{})
		for _, at := range knees(m.span / day) {
			l.knots = append(l.knots, knot{at: at})
			l.knees++
		}
		for _, at := range within(shifts, m) {
			l.knots = append(l.knots, knot{at: at, step: true})
		}
	}
	for _, k := range l.knots {
		l.pieces = append(l.pieces, k.at)
	}
	slices.Sort(l.pieces)
	l.pieces = slices.Compact(l.pieces)
	return l
}

// within returns the last shifts that have rows on both sides, scaled.
func within(shifts []time.Time, m *Model) []float64 {
	var at []float64
	for _, t := range shifts {
		if u := (seconds(t) - m.first) / m.span; u > 0 && u <= 1 {
			at = append(at, u)
		}
	}
	slices.Sort(at)
	at = slices.Compact(at)
	return at[max(0, len(at)-shiftsMax):]
}

// columns returns the number of all columns.
func (l layout) columns() int {
	return l.weekly() + len(l.knots) + 2*l.Year + len(l.names)
}

// piece returns the piece of the trend that u lies in.
func (l layout) piece(u float64) int {
	return max(0, sort.SearchFloat64s(l.pieces, nextAfter(u))-1)
}

// prior returns what is believed of the columns.
func (l layout) prior() fit.Prior {
	l2 := []float64{1 / (widthLevel * widthLevel)}
	for _, order := range []int{l.Hour, l.Day, l.Week, l.Weekend} {
		l2 = appendFourierPriors(l2, order)
	}
	l1 := make([]float64, l.columns())
	for i, k := range l.knots {
		switch {
		case k.step:
			l1[len(l2)] = 1 / widthShift
		case i > 0:
			l1[len(l2)] = 1 / widthKnee
		}
		if i == 0 {
			l2 = append(l2, 1/(widthSlope*widthSlope))
		} else {
			l2 = append(l2, 0)
		}
	}
	l2 = appendFourierPriors(l2, l.Year)
	for range l.names {
		l2 = append(l2, 1/(widthEvent*widthEvent))
	}
	return fit.Prior{L2: l2, L1: l1}
}
