// Package season learns the shape of a rate: its trend, the hours, days, weeks
// and years in it, configured events, and lasting changes of level.
//
// The model is additive on z = log(rate + c):
//
//	m(t) = μ + k u + Σ δ_j (u − s_j)+ + Σ η_l 1[t ≥ T_l] + Σ Fourier + Σ κ_v I_v(t)
//
// with u the time scaled to [0, 1] over the rows. Changes of slope δ and of level
// η are sparse (Laplace priors). Which seasons take part depends on how much has
// been seen. Rows that do not fit weigh less (Huber), and so do old ones.
//
// All seasons but the yearly one repeat with the local week, so rows with the
// same time of the week share their features: five weeks of five-minute rows are
// 2,016 rows to the regression. The trend's columns are linear between their
// knots and need two sums per column and piece. Both are exact.
package season

import (
	"fmt"
	"math"
	"time"
)

// An Event is something announced that moves the rate. What it does is learned
// by its name from earlier events of that name; a new name does nothing.
type Event struct {
	Name       string
	Start, End time.Time
	Ramp       time.Duration // it grows over Ramp before Start, and fades over Ramp after End
}

// A Row is the mean rate of a slot.
type Row struct {
	At     time.Time // the END of the slot
	Rate   float64   // per second, at least 0
	Weight float64   // share of the slot that was seen, 0 to 1; 0 counts for nothing
}

// Settings are what the rows do not tell. The zero value is UTC without events.
type Settings struct {
	Location *time.Location // whose clock the days follow; nil: UTC
	Events   []Event        // past ones to learn from, coming ones to expect
}

const (
	halfLife      = 14 * 24 * time.Hour // a row this old counts half
	halfLifeShare = 0.4                 // of the window, if that is longer: a year is not learned in weeks
	huberBound    = 1.5                 // residuals beyond this many scales count less
	huberPasses   = 4
	huberSettled  = 2e-3 // mean change of the weights at which the passes end
	shiftsMax     = 5    // the last of those given
	namesMax      = 16   // different names of events
	offsetShare   = 0.05 // c is at least this share of the median rate
	stepDefault   = 5 * time.Minute
	kneesMax      = 20   // candidates for a change of slope
	kneesPerDay   = 2    // of data
	kneesWithin   = 0.95 // of the window, from its beginning
)

// Widths of the priors, in units of z. Knees of 0.2 did better than of 0.05 at 1,200
// cut-offs of six recorded series (WAPE an hour ahead .2312, not .2343), and 0.5 was
// no better; candidates that end at 80 % of the window, as Prophet's do, worse (.2356), and
// so did no knees (.2373) and rows that all weigh the same whatever their residual
// (.2359). Half-lives of 7 and 28 days lost up to 1 %; the damping made no difference.
const (
	widthLevel = 5.0
	widthSlope = 5.0
	widthKnee  = 0.20 // Laplace
	widthShift = 0.10 // Laplace
	widthEvent = 0.5
)

// Fit learns a Model from rows, which may lack slots, be unevenly spaced and
// come in any order. shifts are instants at which the level may have changed
// for good; the last five within the rows count. The same input gives the same
// model. The error names the row that is not a rate.
func Fit(rows []Row, shifts []time.Time, s Settings) (*Model, error) {
	d, err := newData(rows)
	if err != nil {
		return nil, err
	}
	m := &Model{step: d.step, offset: d.offset(), first: d.at[0], span: d.at[len(d.at)-1] - d.at[0]}
	if err := m.setSettings(s); err != nil {
		return nil, err
	}
	f := newFitter(d, m, shifts)
	theta, err := f.run()
	if err != nil {
		return nil, fmt.Errorf("season: %w", err)
	}
	m.adopt(f.layout, theta, f.center)
	return m, nil
}

// knees returns the candidates for a change of slope, as shares of the window.
func knees(days float64) []float64 {
	n := int(min(kneesMax, math.Floor(days*kneesPerDay)))
	at := make([]float64, n)
	for j := range at {
		at[j] = kneesWithin * float64(j+1) / float64(n)
	}
	return at
}
