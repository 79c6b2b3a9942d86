package backtest

import (
	"fmt"
	"math"
	"time"

	"weir/advisor/forecast"
)

// none says that there is no forecast.
var none = forecast.Point{Q05: math.NaN(), Q50: math.NaN(), Q80: math.NaN(), Q95: math.NaN(), Q99: math.NaN()}

// A Method forecasts a series that it observes.
type Method interface {
	// Observe processes the mean rate of the slot that ended at at.
	Observe(at time.Time, step time.Duration, rate float64)
	// Ahead returns the forecast for the slot that ends ahead after the newest observed.
	Ahead(ahead time.Duration) forecast.Point
}

// A Run has the forecasts of a method for a trace: Forecasts[h][i] is of slot
// i + Horizons[h]/Step, made from the slots up to i.
type Run struct {
	Trace     *Trace
	Horizons  []time.Duration
	Forecasts [][]forecast.Point
}

// Replay lets a method observe the trace, and asks for all horizons after every slot, also
// after those that were not recorded. It fails if a horizon is not a multiple of the step.
func Replay(t *Trace, m Method, horizons ...time.Duration) (*Run, error) {
	r := &Run{Trace: t, Horizons: horizons, Forecasts: make([][]forecast.Point, len(horizons))}
	for h, d := range horizons {
		if d < t.Step || d%t.Step != 0 {
			return nil, fmt.Errorf("replay %s: horizon %s is no multiple of its step %s", t.Name, d, t.Step)
		}
		r.Forecasts[h] = make([]forecast.Point, len(t.Rates))
	}
	newest := -1
	for i, y := range t.Rates {
		if y == y {
			m.Observe(t.End(i), t.Step, y)
			newest = i
		}
		for h, d := range horizons {
			r.Forecasts[h][i] = none
			if newest >= 0 {
				r.Forecasts[h][i] = m.Ahead(d + time.Duration(i-newest)*t.Step)
			}
		}
	}
	return r, nil
}

// slots returns how many slots ahead horizon h is.
func (r *Run) slots(h int) int { return int(r.Horizons[h] / r.Trace.Step) }

// A forecaster is the advisor's forecaster as a Method.
type forecaster struct{ f *forecast.Forecaster }

// Advisor returns the advisor's forecaster.
func Advisor(s forecast.Settings) Method { return forecaster{forecast.New(s)} }

func (m forecaster) Observe(at time.Time, step time.Duration, rate float64) {
	m.f.Observe(at, step, rate)
}

func (m forecaster) Ahead(ahead time.Duration) forecast.Point {
	points := m.f.Outlook(ahead, ahead)
	if len(points) == 0 {
		return none
	}
	return points[0]
}
