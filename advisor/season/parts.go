package season

import (
	"math"
	"slices"
	"time"
)

// Parts are what a value of the model is the sum of, for people to look at. All
// but Trend are deviations from it; by the factor exp(part) they act on the rate.
type Parts struct {
	Trend  float64 // with the level and its shifts
	Hour   float64
	Day    float64 // with the weekend's own shape
	Week   float64
	Year   float64
	Events float64
}

// Parts returns the parts of the value for the slot that ends at t.
func (m *Model) Parts(t time.Time) Parts {
	at := seconds(t) - m.step/2
	local := m.clock.local(at)
	phase := local - week*math.Floor(local/week)
	p := Parts{
		Trend: m.level + m.trend(at),
		Hour:  fourier(m.hourly, phase/hour),
		Day:   fourier(m.daily, phase/day),
		Week:  fourier(m.weekly, phase/week),
		Year:  fourier(m.yearly, local/year),
	}
	if phase >= 5*day {
		p.Day += fourier(m.weekend, phase/day)
	}
	m.events.each(at, func(name int, v float64) { p.Events += v * m.kappa[name] })
	return p
}

// Sum returns the value that the parts are of.
func (p Parts) Sum() float64 { return p.Trend + p.Hour + p.Day + p.Week + p.Year + p.Events }

// Scale returns the robust scale of the residuals log(rate + c) − At of the rows:
// 1.4826 times their median size.
func (m *Model) Scale() float64 { return m.scale }

// Step returns the length of the slots that the model speaks of: the median
// distance of the rows.
func (m *Model) Step() time.Duration { return toDuration(m.step) }

// Span returns the time from the first row to the last one.
func (m *Model) Span() time.Duration { return toDuration(m.span) }

// Newest returns the END of the last row's slot, from where the trend is damped.
func (m *Model) Newest() time.Time {
	whole, part := math.Modf(m.first + m.span + m.step/2)
	return time.Unix(int64(whole), int64(part*1e9)).In(m.clock.location)
}

// AtSlot is At for a slot of another length: seasons are met in its middle.
func (m *Model) AtSlot(end time.Time, length time.Duration) float64 {
	return m.value(seconds(end) - length.Seconds()/2)
}

// Spans returns the spans of rows, ascending, from which on there is more to the
// model: a refit is worth its time when one is reached.
func Spans() []time.Duration {
	var spans []time.Duration
	for _, tiers := range [][]tier{hourTiers[:], dayTiers[:], weekTiers[:], weekendTiers[:], yearTiers[:]} {
		for _, t := range tiers {
			spans = append(spans, toDuration(t.span))
		}
	}
	slices.Sort(spans)
	return spans
}
