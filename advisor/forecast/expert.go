package forecast

import "math"

// A moment is the input of experts and regression: the current values, and the seasons
// now and in the slot to forecast.
type moment struct {
	levels *levels
	c      float64          // of z = log(rate + c)
	z      [levelsN]float64 // of the smoothings
	past   [recentN]float64 // z of the newest slots
	seasons
	heft float64 // weight of its errors
	most float64 // upper bound of forecasts

	then [seasonsN]float64 // z of the seasons in the slot ahead
}

func newMoment(l *levels, s *seasons, c float64) moment {
	m := moment{levels: l, c: c, seasons: *s}
	for i, y := range l.ses {
		m.z[i] = math.Log(y + c)
	}
	for i, y := range l.recent {
		m.past[i] = math.Log(y + c)
	}
	return m
}

// rate converts z to a rate.
func (m *moment) rate(z float64) float64 { return max(0, math.Exp(z)-m.c) }

// moved returns the newest rate multiplied by the growth of the season until then. A
// steep season may grow by any factor, and a rate may differ from the season by any
// factor, but not both.
func (m *moment) moved(season int) float64 {
	growth, off := m.then[season]-m.now[season], m.past[0]-m.now[season]
	over, overOff := beyond(growth, growthMost), beyond(off, growthMost)
	if math.Abs(overOff) < math.Abs(over) {
		over = overOff
	}
	return m.rate(m.past[0] + growth - over)
}

// growthMost is ln 5: the bound on the growth of a season, or of the rate relative to it.
const growthMost = 1.6094

// An expert makes a forecast from the moment alone. It returns NaN while it has too
// little history.
type expert struct {
	name, formula string
	ask           func(*moment) float64
}

// experts are all experts except the regression. In the formulas y is the newest rate, h
// the slots ahead and s a season of the calendar, as z.
//
// All but last, which stands in where the others are silent, are worth at least half a
// per cent of error in some kind of series that the forecaster was developed on: recorded
// traffic by the second, minute or hour, and generated profiles, crowds and schedules.
var experts = [...]expert{
	{"last", "y", func(m *moment) float64 { return m.levels.recent[0] }},
	{"smooth", "Σ α(1-α)^i y_-i, α .05", func(m *moment) float64 { return m.levels.ses[levelSlow] }},
	{"yesterday_moved", "(y + c) exp(s(h) - s(0)) - c, s a day before",
		func(m *moment) float64 { return m.moved(seasonYesterday) }},
	{"last_week_moved", "(y + c) exp(s(h) - s(0)) - c, s a week before",
		func(m *moment) float64 { return m.moved(seasonLastWeek) }},
	{"day_moved", "(y + c) exp(s(h) - s(0)) - c, s the mean day", func(m *moment) float64 { return m.moved(seasonDay) }},
	{"week", "exp s(h) - c, s the mean week", func(m *moment) float64 { return m.rate(m.then[seasonWeek]) }},
	{"week_moved", "(y + c) exp(s(h) - s(0)) - c, s the mean week",
		func(m *moment) float64 { return m.moved(seasonWeek) }},
	{"day", "exp s(h) - c, s the mean day, with short slots by the minute", func(m *moment) float64 {
		if z := m.then[seasonMinuteOfDay]; z == z {
			return m.rate(z)
		}
		return m.rate(m.then[seasonDay])
	}},
}

const (
	expertLast  = 0
	expertRidge = len(experts) // index of the regression
	expertsN    = expertRidge + 1
)

// expertName returns the name of expert i.
func expertName(i int) string {
	if i == expertRidge {
		return "regression"
	}
	return experts[i].name
}

// levelFeatures are the features of the last slots, the same for every horizon, as
// differences of z.
var levelFeatures = [...]struct {
	name string
	of   func(*moment) float64
}{
	{"constant", func(*moment) float64 { return 1 }},
	{"step", func(m *moment) float64 { return m.past[0] - m.past[1] }},
	{"step_before", func(m *moment) float64 { return m.past[1] - m.past[2] }},
	{"above_fast", func(m *moment) float64 { return m.past[0] - m.z[levelFast] }},
	{"rise_1", func(m *moment) float64 { return m.z[1] - m.z[0] }},
	{"rise_2", func(m *moment) float64 { return m.z[2] - m.z[1] }},
	{"rise_3", func(m *moment) float64 { return m.z[3] - m.z[2] }},
	{"rise_4", func(m *moment) float64 { return m.z[4] - m.z[3] }},
	{"rise_5", func(m *moment) float64 { return m.z[5] - m.z[4] }},
	{"jump", func(m *moment) float64 { return beyond(m.past[0]-m.z[levelBase], 2*m.levels.jump) }},
	{"swing", func(m *moment) float64 { return beyond(m.z[levelBase]-m.z[levelSlow], 2*m.levels.swing) }},
}

const (
	featureConstant = 0
	featuresLevel   = len(levelFeatures)
	featuresN       = featuresLevel + 2*seasonsN
)

// features fills in the features: the last slots, and for each season its change from now
// on, and the distance of the level from it.
func (m *moment) features(x *[featuresN]float64) {
	for i, f := range levelFeatures {
		x[i] = f.of(m)
	}
	for j, z := range m.then {
		at := x[featuresLevel+2*j:]
		at[0], at[1] = 0, 0
		if bar := m.bar[j]; z == z && bar == bar {
			at[0], at[1] = z-bar, bar-m.z[levelBase]
		}
	}
}

// beyond returns how far v lies outside [-bound, bound]: a jump larger than noise counts
// more than a smaller one.
func beyond(v, bound float64) float64 {
	return v - min(max(v, -bound), bound)
}
