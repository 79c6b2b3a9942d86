package backtest

import (
	"fmt"
	"math"
	"time"

	"weir/advisor/forecast"
)

// Said is a forecast of one slot: its quantiles. NaN: nothing was said.
type Said struct{ Q05, Q50, Q80, Q95, Q99 float64 }

var silent = Said{math.NaN(), math.NaN(), math.NaN(), math.NaN(), math.NaN()}

// A Method forecasts while it is told a series.
type Method interface {
	// Observe tells the mean rate of the slot that ended at at.
	Observe(at time.Time, step time.Duration, rate float64)
	// Ahead is the forecast for the slot that ends ahead after the newest one told.
	Ahead(ahead time.Duration) Said
}

// A Run is what a method said about a trace: Said[h][i] of slot i + Horizons[h]/Step,
// with everything up to slot i known.
type Run struct {
	Trace    *Trace
	Horizons []time.Duration
	Said     [][]Said
}

// Replay tells a method the whole trace and asks for all horizons after every slot,
// also after those that were not recorded. Nothing is ever told before its time.
func Replay(t *Trace, m Method, horizons ...time.Duration) (*Run, error) {
	r := &Run{Trace: t, Horizons: horizons, Said: make([][]Said, len(horizons))}
	for h, d := range horizons {
		if d < t.Step || d%t.Step != 0 {
			return nil, fmt.Errorf("replay %s: horizon %s is no multiple of its step %s", t.Name, d, t.Step)
		}
		r.Said[h] = make([]Said, len(t.Rates))
	}
	newest := -1
	for i, y := range t.Rates {
		if y == y {
			m.Observe(t.End(i), t.Step, y)
			newest = i
		}
		for h, d := range horizons {
			r.Said[h][i] = silent
			if newest >= 0 {
				r.Said[h][i] = m.Ahead(d + time.Duration(i-newest)*t.Step)
			}
		}
	}
	return r, nil
}

// slots is how many slots ahead horizon h is.
func (r *Run) slots(h int) int { return int(r.Horizons[h] / r.Trace.Step) }

// A forecaster is the advisor's.
type forecaster struct{ f *forecast.Forecaster }

// Advisor is the advisor's own forecaster as a method.
func Advisor(s forecast.Settings) Method { return forecaster{forecast.New(s)} }

func (m forecaster) Observe(at time.Time, step time.Duration, rate float64) {
	m.f.Observe(at, step, rate)
}

func (m forecaster) Ahead(ahead time.Duration) Said {
	points := m.f.Outlook(ahead, ahead)
	if len(points) == 0 {
		return silent
	}
	p := points[0]
	return Said{p.Q05, p.Q50, p.Q80, p.Q95, p.Q99}
}
