package prophetref

import (
	"math"
	"slices"
	"time"
)

// terms are the columns beside the trend: seasons, then holidays.
type terms struct {
	seasons  []season
	holidays map[int][]int // columns by day since 1970
	effects  int           // columns of holidays
}

// A season is a Fourier series.
type season struct {
	period float64 // days
	order  int
}

// newTerms switches seasons on by the span of the rows and their distance.
func newTerms(h *history, s Settings) terms {
	span := h.days[len(h.days)-1] - h.days[0]
	step := math.Inf(1)
	for i := 1; i < len(h.days); i++ {
		if d := h.days[i] - h.days[i-1]; d > 0 {
			step = min(step, d)
		}
	}
	var t terms
	add := func(asked, order int, period float64, on bool) {
		if asked != 0 {
			order, on = asked, asked > 0
		}
		if on {
			t.seasons = append(t.seasons, season{period, order})
		}
	}
	const eps = 1e-9 // days are not exact
	add(s.Yearly, 10, 365.25, span >= 730-eps)
	add(s.Weekly, 3, 7, span >= 14-eps && step < 7-eps)
	add(s.Daily, 4, 1, span >= 2-eps && step < 1-eps)
	t.addHolidays(s.Holidays)
	return t
}

// addHolidays gives every holiday, and every distance from it, a column.
func (t *terms) addHolidays(holidays []Holiday) {
	t.holidays = make(map[int][]int)
	for _, h := range holidays {
		for shift := -h.Before; shift <= h.After; shift++ {
			for _, at := range h.Days {
				day := int(math.Floor(days(at))) + shift
				if col := t.fourier() + t.effects; !slices.Contains(t.holidays[day], col) {
					t.holidays[day] = append(t.holidays[day], col)
				}
			}
			t.effects++
		}
	}
}

// fourier returns the number of columns of all seasons.
func (t terms) fourier() int {
	n := 0
	for _, s := range t.seasons {
		n += 2 * s.order
	}
	return n
}

func (t terms) columns() int { return t.fourier() + t.effects }

// append appends the columns at days since 1970.
func (t terms) append(x []float64, at float64) []float64 {
	first := len(x)
	for _, s := range t.seasons {
		turns := at / s.period
		s1, c1 := math.Sincos(2 * math.Pi * (turns - math.Floor(turns)))
		sin, cos := s1, c1
		for range s.order {
			x = append(x, sin, cos)
			sin, cos = sin*c1+cos*s1, cos*c1-sin*s1
		}
	}
	for range t.effects {
		x = append(x, 0)
	}
	for _, col := range t.holidays[int(math.Floor(at))] {
		x[first+col] = 1
	}
	return x
}

// appendPriors appends the precisions of the columns.
func (t terms) appendPriors(l2 []float64, s Settings) []float64 {
	for range t.fourier() {
		l2 = append(l2, 1/(s.SeasonScale*s.SeasonScale))
	}
	for range t.effects {
		l2 = append(l2, 1/(s.HolidayScale*s.HolidayScale))
	}
	return l2
}

// sum returns the columns times beta, and leaves them in scratch.
func (t terms) sum(beta, scratch []float64, at float64) (float64, []float64) {
	if len(beta) == 0 {
		return 0, scratch
	}
	scratch = t.append(scratch[:0], at)
	total := 0.0
	for i, v := range scratch {
		total += v * beta[i]
	}
	return total, scratch
}

// Seasons returns the periods of the seasons that take part.
func (m *Model) Seasons() []time.Duration {
	var periods []time.Duration
	for _, s := range m.terms.seasons {
		periods = append(periods, time.Duration(s.period*24*float64(time.Hour)))
	}
	return periods
}
