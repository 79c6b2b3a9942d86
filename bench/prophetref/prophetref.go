// Package prophetref is Prophet's forecasting model with its defaults, fitted to its
// exact optimum: a yardstick for experiments, never used to serve.
//
// A value is trend + seasons + N(0, σ). The trend is linear with sparse changes of
// slope, the seasons are Fourier series of years, weeks and days. Priors, scaling,
// candidates for changes and the switching on of seasons are those of Prophet. Prophet
// stops where its general optimiser rests, which on smooth series is the same to a per
// cent; here the optimality conditions hold.
package prophetref

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"weir/bench/fit"
)

// Prophet's defaults.
const (
	changepoints      = 25   // candidates
	changepointsRange = 0.8  // share of the rows they lie in
	changepointScale  = 0.05 // τ of the Laplace prior of a change of slope
	widthTrend        = 5.0  // of the normal priors of offset and slope
	widthSeason       = 10.0 // of a season's coefficients
)

// A Row is a value at an instant. Seasons follow the instant's UTC clock.
type Row struct {
	At    time.Time
	Value float64
}

// A Model is a fitted forecast.
//
// Immutable after Fit; safe for concurrent use.
type Model struct {
	start float64 // days since 1970 of the first row
	span  float64 // days to the last one
	scale float64 // value = scale·model

	knots   []float64 // changepoints, scaled time
	theta   []float64 // offset, slope, changes of slope, seasons
	seasons []season
	noise   float64
}

// Fit learns from at least two rows, in any order. The error names a row that is not a
// number.
func Fit(rows []Row) (*Model, error) {
	if len(rows) < 2 {
		return nil, fmt.Errorf("prophetref: %d rows, must be at least 2", len(rows))
	}
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b Row) int { return a.At.Compare(b.At) })
	m := &Model{start: days(rows[0].At)}
	if m.span = days(rows[len(rows)-1].At) - m.start; m.span <= 0 {
		return nil, errors.New("prophetref: all rows are of the same instant")
	}
	constant := true
	for i, r := range rows {
		if math.IsNaN(r.Value) || math.IsInf(r.Value, 0) {
			return nil, fmt.Errorf("prophetref: row %d: value must be finite, is %g", i, r.Value)
		}
		m.scale = max(m.scale, math.Abs(r.Value))
		constant = constant && r.Value == rows[0].Value
	}
	if m.scale == 0 {
		m.scale = 1
	}
	m.placeKnots(rows)
	m.seasons = seasonsOf(rows, m.span)
	prior := m.prior()
	if constant { // nothing to learn, as Prophet has it
		m.theta, m.noise = make([]float64, len(prior.L2)), 1e-9
		m.theta[0] = rows[0].Value / m.scale
		return m, nil
	}
	g := fit.NewGram(len(prior.L2))
	var x []float64
	for _, r := range rows {
		x = m.append(x[:0], days(r.At))
		g.Add(x, r.Value/m.scale)
	}
	s, err := g.Solve(prior)
	if err != nil {
		return nil, fmt.Errorf("prophetref: %w", err)
	}
	m.theta, m.noise = s.Theta, s.Noise
	return m, nil
}

// scaled returns a day since 1970 in parts of the span of the rows.
func (m *Model) scaled(day float64) float64 { return (day - m.start) / m.span }

// placeKnots puts the candidates for changes evenly over the first rows. Without any
// there is one at the beginning, which only widens the prior of the slope.
func (m *Model) placeKnots(rows []Row) {
	within := int(math.Floor(float64(len(rows)) * changepointsRange))
	n := min(changepoints, max(0, within-1))
	for j := 1; j <= n; j++ {
		at := math.RoundToEven(float64(j) * float64(within-1) / float64(n))
		m.knots = append(m.knots, m.scaled(days(rows[int(at)].At)))
	}
	if n == 0 {
		m.knots = []float64{0}
	}
}

// prior is the belief of the columns.
func (m *Model) prior() fit.Prior {
	const wide = 1 / (widthTrend * widthTrend)
	p := fit.Prior{L2: []float64{wide, wide}, L1: []float64{0, 0}}
	for range m.knots {
		p.L2, p.L1 = append(p.L2, 0), append(p.L1, 1/changepointScale)
	}
	for _, s := range m.seasons {
		for range 2 * s.order {
			p.L2 = append(p.L2, 1/(widthSeason*widthSeason))
		}
	}
	return p
}

// append appends the columns of a day since 1970.
func (m *Model) append(x []float64, day float64) []float64 {
	t := m.scaled(day)
	x = append(x, 1, t)
	for _, s := range m.knots {
		x = append(x, max(0, t-s))
	}
	for _, s := range m.seasons {
		x = s.append(x, day)
	}
	return x
}

// At returns the forecast, or what the model makes of the past.
func (m *Model) At(at time.Time) float64 {
	sum := 0.0
	for i, v := range m.append(nil, days(at)) {
		sum += v * m.theta[i]
	}
	return m.scale * sum
}

// Deviation returns the standard deviation of the forecast: σ, and beyond the rows the
// changes of slope to come. Those are Poisson with S in a time as long as the history,
// and Laplace(b), so that h histories ahead the trend has the variance S·2b²·h³/3.
// Seasons are taken as known, as Prophet does.
func (m *Model) Deviation(at time.Time) float64 {
	h := max(0, m.scaled(days(at))-1)
	n := len(m.knots)
	b := 0.0 // the mean size of the changes so far
	for _, d := range m.theta[2 : 2+n] {
		b += math.Abs(d) / float64(n)
	}
	return m.scale * math.Sqrt(m.noise*m.noise+2.0/3*float64(n)*b*b*h*h*h)
}

// A season is a Fourier series.
type season struct {
	period float64 // days
	order  int
}

// seasonsOf switches seasons on by the span of the rows and their distance.
func seasonsOf(rows []Row, span float64) (on []season) {
	step := math.Inf(1)
	for i := 1; i < len(rows); i++ {
		if d := days(rows[i].At) - days(rows[i-1].At); d > 0 {
			step = min(step, d)
		}
	}
	const eps = 1e-9 // days are not exact
	if span >= 730-eps {
		on = append(on, season{365.25, 10})
	}
	if span >= 14-eps && step < 7-eps {
		on = append(on, season{7, 3})
	}
	if span >= 2-eps && step < 1-eps {
		on = append(on, season{1, 4})
	}
	return on
}

// append appends the season's columns of a day since 1970.
func (s season) append(x []float64, day float64) []float64 {
	turns := day / s.period
	s1, c1 := math.Sincos(2 * math.Pi * (turns - math.Floor(turns)))
	sin, cos := s1, c1
	for range s.order {
		x = append(x, sin, cos)
		sin, cos = sin*c1+cos*s1, cos*c1-sin*s1
	}
	return x
}

// days returns t in days since 1970.
func days(t time.Time) float64 {
	return float64(t.Unix())/86400 + float64(t.Nanosecond())/86400e9
}
