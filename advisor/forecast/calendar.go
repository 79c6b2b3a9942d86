package forecast

import (
	"math"
	"time"

	"weir/advisor/series"
)

// How much history a season needs before it is asked, in seconds.
const (
	fineAfter = 30 * hour
	hourAfter = 3 * hour
	dayAfter  = 30 * hour
	weekAfter = 8 * day
)

// A calendar is what the clock on the wall tells of a rate: the courses of the day
// and of the week, in several ways, and what was there a day and a week ago.
type calendar struct {
	location *time.Location
	hist     *series.History
	day      *profile
	week     *profile
	fine     *profile // the day by the minute, for spikes that a schedule makes
	hour     *profile // the hour by the minute
	course   *course
	core     curve
}

func newCalendar(location *time.Location, hist *series.History) calendar {
	if location == nil {
		location = time.UTC
	}
	return calendar{
		location: location, hist: hist,
		day: newProfile(day, binWidth, 7*day), week: newProfile(week, binWidth, 4*week),
		fine: newProfile(day, 60, 4*day), hour: newProfile(hour, 60, day/2),
		course: newCourse(14 * day),
	}
}

// learn takes in z of the slot of width dt that ended at t.
func (k *calendar) learn(t, dt, z float64) {
	local := k.local(t)
	k.day.learn(local-dt, local, z)
	k.week.learn(local-dt, local, z)
	k.course.learn(local-dt, local, z)
	if dt < binWidth {
		k.fine.learn(local-dt, local, z)
		k.hour.learn(local-dt, local, z)
	}
}

// local is the reading of the local clock, in seconds since its epoch.
func (k *calendar) local(t float64) float64 {
	if k.location == time.UTC {
		return t
	}
	_, offset := time.Unix(int64(math.Floor(t)), 0).In(k.location).Zone()
	return t + float64(offset)
}

// fill writes z of each season for the slot of width dt that ends at t.
func (k *calendar) fill(s *[seasonsN]float64, t, dt, c float64) {
	for j := range s {
		s[j] = math.NaN()
	}
	mid := t - dt/2
	local := k.local(mid)
	age := k.hist.Age().Seconds()
	s[seasonYesterday] = k.ago(mid, local, day, max(dt, 900), c)
	if age > week {
		s[seasonLastWeek] = k.ago(mid, local, week, max(dt, 900), c)
	}
	if age > dayAfter {
		s[seasonDay] = k.day.value(local)
	}
	if age > weekAfter {
		s[seasonWeek] = k.week.value(local)
	}
	if age > fineAfter && dt < binWidth {
		s[seasonFine] = k.fine.exact(local)
	}
	if age > hourAfter && dt < binWidth {
		s[seasonHour] = k.hour.exact(local)
	}
	s[seasonCourse] = k.course.value(local)
	s[seasonCore] = k.core.value(t, c)
}

// ago is z around the same local time a whole period before, over a width.
func (k *calendar) ago(mid, local, period, width, c float64) float64 {
	then := mid - period
	if k.location != time.UTC {
		then += local - period - k.local(then) // the clocks may have changed between
	}
	rate, coverage := k.hist.MeanSeconds(series.FiveMinutes, then-width/2, then+width/2)
	if coverage < .5 {
		return math.NaN()
	}
	return math.Log(rate + c)
}

func (k *calendar) walk(c *codec) {
	for _, p := range []*profile{k.day, k.week, k.fine, k.hour} {
		p.walk(c)
	}
	k.course.walk(c)
	k.core.walk(c)
}
