package backtest

import (
	"math"
	"time"

	"weir/bench/prophetref"
)

const (
	prophetRow  = 10 * time.Minute    // means that it is fitted to; slots longer than that as they are
	prophetBack = 28 * 24 * time.Hour // how much of the past it sees
	prophetMin  = 48                  // rows before the first fit
)

// prophet is Prophet's model as a method, fitted again once in every.
type prophet struct {
	every       time.Duration
	rows        []prophetref.Row
	sum, weight float64 // of the row under way
	end         time.Time
	newest      time.Time
	last        float64
	fitted      time.Time
	model       *prophetref.Model
}

// Prophet is Prophet with its defaults, as the reference forecasts were made: fitted
// to ten-minute means of at most four weeks, anew once in every. Before there is
// enough to fit it says the last value. It has no opinion on the 80 and the 99 %
// quantile but that errors are normal.
func Prophet(every time.Duration) Method { return &prophet{every: every} }

func (m *prophet) Observe(at time.Time, step time.Duration, rate float64) {
	m.newest, m.last = at, rate
	width := max(step, prophetRow)
	end := at.Truncate(width)
	if end.Before(at) {
		end = end.Add(width)
	}
	if m.weight > 0 && end.After(m.end) {
		m.rows = append(m.rows, prophetref.Row{At: m.end.Add(-width / 2), Value: m.sum / m.weight})
		m.sum, m.weight = 0, 0
	}
	m.end = end
	m.sum += rate * step.Seconds()
	m.weight += step.Seconds()
	for len(m.rows) > 0 && m.rows[0].At.Before(at.Add(-prophetBack)) {
		m.rows = m.rows[1:]
	}
	if len(m.rows) < prophetMin || at.Sub(m.fitted) < m.every {
		return
	}
	if model, err := prophetref.Fit(m.rows); err == nil {
		m.model, m.fitted = model, at
	}
}

func (m *prophet) Ahead(ahead time.Duration) Said {
	if m.model == nil {
		return Said{m.last, m.last, m.last, m.last, m.last}
	}
	at := m.newest.Add(ahead)
	middle, sd := m.model.At(at), m.model.Deviation(at)
	q := func(tau float64) float64 { return max(0, middle+math.Sqrt2*math.Erfinv(2*tau-1)*sd) }
	return Said{q(.05), q(.5), q(.8), q(.95), q(.99)}
}
