// Package prophetref is Prophet's forecasting model, fitted to its exact optimum
// by a solver of our own: a yardstick for tests and experiments, never used to
// serve.
//
// A value is trend·(1 + multiplicative terms) + additive terms + N(0, σ). The
// trend is linear, logistic or flat with sparse changes of slope; the terms are
// Fourier series of years, weeks and days, and holidays. Priors, scaling,
// candidates for changes and the switching on of seasons are those of Prophet's
// defaults. Prophet stops where its general optimiser rests, which on smooth
// series is the same to a per cent; here the optimality conditions hold.
package prophetref

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Growth is the kind of the trend.
type Growth int

const (
	Linear   Growth = iota // straight pieces
	Logistic               // saturates at Settings.Cap
	Flat                   // a constant
)

// Scaling says how values are brought to the size that the priors speak of.
type Scaling int

const (
	AbsMax Scaling = iota // divided by the largest size
	MinMax                // from 0 at the lowest to 1 at the highest
)

// A Row is a value at an instant. Seasons follow the instant's UTC clock.
type Row struct {
	At    time.Time
	Value float64
}

// A Holiday acts on whole UTC days: each of Days, and with an effect of their
// own Before and After days around it.
type Holiday struct {
	Name          string
	Days          []time.Time
	Before, After int
}

// Off switches a season or the changepoints off.
const Off = -1

// Settings are Prophet's. The zero value is its defaults.
type Settings struct {
	Growth         Growth
	Cap            float64 // of Logistic
	Scaling        Scaling
	Multiplicative bool // seasons and holidays multiply the trend

	Changepoints     int     // candidates; 0: 25, Off: none
	ChangepointRange float64 // share of the rows they lie in; 0: 0.8
	ChangepointScale float64 // τ; 0: 0.05

	Yearly, Weekly, Daily int // harmonics; 0: by span of the rows, Off: none
	SeasonScale           float64
	Holidays              []Holiday
	HolidayScale          float64 // 0: 10, as SeasonScale
}

// withDefaults returns s with zeros replaced, or what is wrong with it.
func (s Settings) withDefaults() (Settings, error) {
	defaults := []struct {
		name  string
		value *float64
		zero  float64
	}{
		{"changepoint range", &s.ChangepointRange, 0.8},
		{"changepoint scale", &s.ChangepointScale, 0.05},
		{"season scale", &s.SeasonScale, 10},
		{"holiday scale", &s.HolidayScale, 10},
	}
	for _, d := range defaults {
		if *d.value == 0 {
			*d.value = d.zero
		}
		if !(*d.value > 0) || math.IsInf(*d.value, 1) {
			return s, fmt.Errorf("prophetref: %s must be above 0, is %g", d.name, *d.value)
		}
	}
	if s.ChangepointRange > 1 {
		return s, fmt.Errorf("prophetref: changepoint range must be at most 1, is %g", s.ChangepointRange)
	}
	if s.Growth == Logistic && (!(s.Cap > 0) || math.IsInf(s.Cap, 1)) {
		return s, fmt.Errorf("prophetref: logistic growth needs a cap above 0, is %g", s.Cap)
	}
	if s.Changepoints == 0 {
		s.Changepoints = 25
	}
	s.Changepoints = max(0, s.Changepoints)
	if s.Growth == Flat {
		s.Changepoints = 0
	}
	return s, nil
}

// A Model is a fitted forecast.
//
// Immutable after Fit; safe for concurrent use.
type Model struct {
	settings     Settings
	start        float64 // days since 1970 of the first row
	span         float64 // days to the last one
	floor, scale float64 // value = floor + scale·model

	knots []float64 // changepoints, scaled time
	k, m  float64
	delta []float64
	terms terms
	beta  []float64
	noise float64
}

// Fit learns from at least two rows, in any order. The error names a row that
// is not a number.
func Fit(rows []Row, s Settings) (*Model, error) {
	s, err := s.withDefaults()
	if err != nil {
		return nil, err
	}
	if len(rows) < 2 {
		return nil, fmt.Errorf("prophetref: %d rows, must be at least 2", len(rows))
	}
	for i, r := range rows {
		if math.IsNaN(r.Value) || math.IsInf(r.Value, 0) {
			return nil, fmt.Errorf("prophetref: row %d: value must be finite, is %g", i, r.Value)
		}
	}
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b Row) int { return a.At.Compare(b.At) })
	m := &Model{settings: s}
	h := m.scaleRows(rows)
	if m.span <= 0 {
		return nil, errors.New("prophetref: all rows are of the same instant")
	}
	m.placeKnots(h)
	m.terms = newTerms(h, s)
	m.start0(h)
	m.delta, m.beta = make([]float64, len(m.knots)), make([]float64, m.terms.columns())
	switch {
	case h.constant && s.Growth != Logistic:
		m.noise = 1e-9 // nothing to learn, as Prophet has it
		return m, nil
	case s.Growth == Logistic || s.Multiplicative && m.terms.columns() > 0:
		err = m.fitCurved(h)
	default:
		err = m.fitLinear(h)
	}
	if err != nil {
		return nil, fmt.Errorf("prophetref: %w", err)
	}
	return m, nil
}

// history is the rows, scaled.
type history struct {
	days     []float64 // since 1970
	t, y     []float64
	constant bool
}

// scaleRows sets the scales of m and returns the scaled rows.
func (m *Model) scaleRows(rows []Row) *history {
	low, high, size := math.Inf(1), math.Inf(-1), 0.0
	h := &history{}
	for _, r := range rows {
		low, high, size = min(low, r.Value), max(high, r.Value), max(size, math.Abs(r.Value))
		h.days = append(h.days, days(r.At))
	}
	m.start, m.span = h.days[0], h.days[len(rows)-1]-h.days[0]
	m.floor, m.scale = 0, size
	if m.settings.Scaling == MinMax {
		m.floor, m.scale = low, high-low
	}
	if m.scale == 0 {
		m.scale = 1
	}
	h.constant = low == high
	for i, r := range rows {
		h.t = append(h.t, (h.days[i]-m.start)/m.span)
		h.y = append(h.y, (r.Value-m.floor)/m.scale)
	}
	return h
}

// placeKnots puts the candidates for changes evenly over the first rows. Without
// any there is one at the beginning, which only widens the prior of the slope.
func (m *Model) placeKnots(h *history) {
	if m.settings.Growth == Flat {
		return
	}
	within := int(math.Floor(float64(len(h.t)) * m.settings.ChangepointRange))
	n := m.settings.Changepoints
	if n+1 > within {
		n = max(0, within-1)
	}
	for j := 1; j <= n; j++ {
		at := math.RoundToEven(float64(j) * float64(within-1) / float64(n))
		m.knots = append(m.knots, h.t[int(at)])
	}
	if n == 0 {
		m.knots = []float64{0}
	}
}

// start0 sets k and m so that the trend joins the first row and the last one.
func (m *Model) start0(h *history) {
	last := len(h.t) - 1
	span := h.t[last] - h.t[0]
	switch m.settings.Growth {
	case Linear:
		m.k = (h.y[last] - h.y[0]) / span
		m.m = h.y[0] - m.k*h.t[0]
	case Flat:
		for _, y := range h.y {
			m.m += y / float64(len(h.y))
		}
	case Logistic:
		c := m.cap()
		within := func(y float64) float64 { return c / max(.01*c, min(.99*c, y)) }
		r0, r1 := within(h.y[0]), within(h.y[last])
		if math.Abs(r0-r1) <= .01 {
			r0 *= 1.05
		}
		l0, l1 := math.Log(r0-1), math.Log(r1-1)
		m.m = l0 * span / (l0 - l1)
		m.k = (l0 - l1) / span
	}
}

// cap returns the scaled capacity of logistic growth.
func (m *Model) cap() float64 { return (m.settings.Cap - m.floor) / m.scale }

// days returns t in days since 1970.
func days(t time.Time) float64 {
	return float64(t.Unix())/86400 + float64(t.Nanosecond())/86400e9
}
