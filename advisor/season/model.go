package season

import (
	"math"
	"sort"
	"time"
)

// Damping of the trend beyond the rows: the slope is multiplied by dampFactor
// every dampStep seconds.
const (
	dampFactor = 0.98
	dampStep   = 300.0
)

// A Model is the shape of a rate as learned from rows. Values are for slots as
// long as the rows were, by the END of the slot, as in Row.
//
// Immutable after Fit; safe for concurrent use.
type Model struct {
	clock  clock
	events calendar
	names  []string // of events

	step, offset float64 // seconds; c
	first, span  float64 // middle of the first slot; distance to the last one's
	noise, scale float64

	blocks  blocks
	level   float64 // mean of z and the constant
	pieces  []float64
	lines   []line
	hourly  []float64 // coefficients of the blocks
	daily   []float64
	weekly  []float64
	weekend []float64
	yearly  []float64
	kappa   []float64 // by name of event
}

// setSettings adopts the local clock and the events.
func (m *Model) setSettings(s Settings) (err error) {
	m.clock.location = s.Location
	if s.Location == nil {
		m.clock.location = time.UTC
	}
	m.events, m.names, err = newCalendar(s.Events)
	return err
}

// adopt takes the coefficients of the columns l.
func (m *Model) adopt(l layout, theta []float64, center float64) {
	take := func(n int) []float64 {
		taken := theta[:n:n]
		theta = theta[n:]
		return taken
	}
	m.blocks, m.pieces = l.blocks, l.pieces
	m.level = center + take(1)[0]
	m.hourly, m.daily, m.weekly, m.weekend = take(2*l.Hour), take(2*l.Day), take(2*l.Week), take(2*l.Weekend)
	m.lines = l.lines(take(len(l.knots)))
	m.yearly = take(2 * l.Year)
	m.kappa = take(len(l.names))
}

// trend returns the trend at Unix seconds, without the level.
func (m *Model) trend(at float64) float64 {
	if m.span <= 0 {
		return 0
	}
	u := (at - m.first) / m.span
	if u >= 1 {
		last := m.lines[len(m.lines)-1]
		const rate = 0.020202707317519466 / dampStep // −ln(dampFactor) per second
		ahead := -math.Expm1(-(u-1)*m.span*rate) / (rate * m.span)
		return last.level + last.slope*(1+ahead)
	}
	l := m.lines[max(0, sort.SearchFloat64s(m.pieces, nextAfter(u))-1)]
	return l.level + l.slope*u
}

// At returns log(rate + c) as the model has it for the slot that ends at t, which
// may lie in the future.
func (m *Model) At(t time.Time) float64 {
	return m.value(seconds(t) - m.step/2)
}

// value returns the model in the middle of a slot.
func (m *Model) value(at float64) float64 {
	z := m.level + m.trend(at) + m.season(at)
	if len(m.events.spans) > 0 {
		m.events.each(at, func(name int, v float64) { z += v * m.kappa[name] })
	}
	return z
}

// season returns the sum of all blocks.
func (m *Model) season(at float64) float64 {
	if m.blocks == (blocks{}) {
		return 0
	}
	local := m.clock.local(at)
	phase := local - week*math.Floor(local/week)
	z := fourier(m.hourly, phase/hour) + fourier(m.daily, phase/day) + fourier(m.weekly, phase/week) + fourier(m.yearly, local/year)
	if phase >= 5*day {
		z += fourier(m.weekend, phase/day)
	}
	return z
}

// Rate returns the rate for the slot that ends at t, at least 0 and
// finite.
func (m *Model) Rate(t time.Time) float64 {
	return min(math.MaxFloat64, max(0, math.Exp(m.At(t))-m.offset))
}

// Offset returns c, which keeps the logarithm of small rates in bounds.
func (m *Model) Offset() float64 { return m.offset }
