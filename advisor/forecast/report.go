package forecast

import (
	"sort"
	"time"

	"weir/advisor/series"
)

// A Weight is the share of an expert in a forecast.
type Weight struct {
	Expert string
	Share  float64 // shares of a horizon sum to 1
}

// A Mixture says what the forecast of a horizon consists of, and how accurate it was.
type Mixture struct {
	Ahead   time.Duration
	Weights []Weight // largest first
	Error   float64  // Σ|error| / Σ rate over about the last thousand forecasts; 0 before the first
	Scored  int64    // forecasts whose actual rate is known
}

// Weights returns for every horizon what its forecast consists of.
func (f *Forecaster) Weights() []Mixture {
	if f.eng == nil {
		return nil
	}
	var list []Mixture
	for _, k := range f.eng.classes {
		m := Mixture{Ahead: time.Duration(k.ahead * 1e9), Scored: int64(k.errs.n)}
		if k.errs.truth > 0 {
			m.Error = k.errs.abs / k.errs.truth
		}
		for i, s := range k.mixer.shares(k.now.experts[:], &k.now.ways) {
			if s > 0 {
				m.Weights = append(m.Weights, Weight{expertName(i), s})
			}
		}
		sort.SliceStable(m.Weights, func(i, j int) bool { return m.Weights[i].Share > m.Weights[j].Share })
		list = append(list, m)
	}
	return list
}

// History returns the forecaster's history. The caller must not modify it.
func (f *Forecaster) History() *series.History { return f.hist }

// Load processes imported history, ascending, as if it had been observed.
func (f *Forecaster) Load(rows []series.Row) {
	for _, r := range rows {
		if r.Coverage > 0 {
			f.Observe(r.At, r.Interval, r.Rate)
		}
	}
}
