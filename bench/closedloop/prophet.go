package closedloop

import (
	"time"

	"weir/advisor/policy"
	"weir/bench/prophetref"
)

const (
	prophetSlot  = 10 * time.Minute // rows are means of it
	prophetCycle = time.Hour        // between fits
	prophetPast  = 14 * 24 * time.Hour
	prophetFew   = 12 // rows below which nothing is forecast
)

// Prophet is the advisor with Prophet's model instead of the forecaster, fitted
// anew each hour.
func Prophet() Contestant {
	return advised("advisor, Prophet", func(s *Scenario) foresight {
		p := &prophet{}
		for _, row := range s.History {
			if s.Demand.Start.Sub(row.At) < prophetPast {
				p.add(row.At, row.Rate)
			}
		}
		return func(n Snapshot) policy.Outlook {
			p.add(n.At, n.Observed)
			return p.outlook(n.At, s.Cycle)
		}
	})
}

// A prophet keeps means of ten minutes and what was fitted to them last.
//
// Owned by its run.
type prophet struct {
	rows   []prophetref.Row
	sum    float64
	count  int
	slot   time.Time // that is filling
	model  *prophetref.Model
	fitted time.Time
}

func (p *prophet) add(at time.Time, rate float64) {
	slot := at.Truncate(prophetSlot)
	if slot != p.slot && p.count > 0 {
		p.rows = append(p.rows, prophetref.Row{At: p.slot, Value: p.sum / float64(p.count)})
		p.sum, p.count = 0, 0
	}
	p.slot = slot
	p.sum += rate
	p.count++
}

// outlook is empty until something could be fitted.
func (p *prophet) outlook(now time.Time, step time.Duration) policy.Outlook {
	if len(p.rows) >= prophetFew && now.Sub(p.fitted) >= prophetCycle {
		if m, err := prophetref.Fit(p.rows, prophetref.Settings{}); err == nil {
			p.model, p.fitted = m, now
		}
	}
	o := policy.Outlook{Step: step}
	if p.model == nil {
		return o
	}
	for ahead := step; ahead <= outlookMax; ahead += step {
		at := now.Add(ahead)
		v, sd := p.model.At(at), p.model.Deviation(at)
		q := func(z float64) float64 { return max(0, v+z*sd) }
		o.Points = append(o.Points, policy.Point{Q05: q(-z95), Q50: q(0), Q80: q(z80), Q95: q(z95), Q99: q(z99)})
	}
	return o
}
