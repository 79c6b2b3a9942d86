package forecast

import (
	"cmp"
	"math"
	"time"

	"weir/advisor/codec"
	"weir/advisor/series"
)

// The seasons of a calendar.
const (
	seasonYesterday = iota
	seasonLastWeek
	seasonDay
	seasonWeek
	seasonCourse
	seasonMinuteOfDay
	seasonMinuteOfHour
	seasonsN
)

// agoWidth is the largest width, in seconds, over which the rate a day and a week ago is
// averaged. Shorter slots also have profiles by the minute.
const agoWidth = 900.0

// ownWidth returns that width for slots of width dt: an odd number of them, centred on
// the slot, so that a step between two slots stays a step.
func ownWidth(dt float64) float64 {
	return dt * max(1, 2*math.Floor((agoWidth/dt+1)/2)-1)
}

// seasons are z of each season: of the newest slot, and smoothed like the base level.
type seasons struct{ now, bar [seasonsN]float64 }

func newSeasons() (s seasons) {
	for j := range s.now {
		s.now[j], s.bar[j] = math.NaN(), math.NaN()
	}
	return s
}

// learn updates with z of the seasons now, k slots after the previous call.
func (s *seasons) learn(now *[seasonsN]float64, k float64) {
	s.now = *now
	for j, z := range now {
		if s.bar[j] != s.bar[j] || z != z {
			s.bar[j] = z
			continue
		}
		s.bar[j] += share(alphas[levelBase], k) * (z - s.bar[j])
	}
}

func (s *seasons) walk(c *codec.Codec) {
	c.Floats(s.now[:])
	c.Floats(s.bar[:])
}

// A calendar predicts from local time: profiles of the day and the week of several kinds,
// and the rate a day and a week ago.
type calendar struct {
	location *time.Location
	hist     *series.History
	day      *profile
	week     *profile
	fine     *profile // the day by the minute, for scheduled spikes
	hour     *profile // the hour by the minute
	course   *course
	events   events
}

func newCalendar(set Settings, hist *series.History) calendar {
	return calendar{
		location: cmp.Or(set.Location, time.UTC), hist: hist,
		day: newProfile(day, binWidth, 7*day), week: newProfile(week, binWidth, 4*week),
		fine: newProfile(day, 60, 4*day), hour: newProfile(hour, 60, day/2),
		course: newCourse(14 * day), events: newEvents(set.Events),
	}
}

// learn updates with z of the slot of width dt that ended at t.
func (k *calendar) learn(t, dt, z float64) {
	local, mid := k.local(t), t-dt/2
	k.events.learn(mid, dt, z-k.course.value(local-dt/2))
	k.day.learn(local-dt, local, z)
	k.week.learn(local-dt, local, z)
	k.course.learn(local-dt, local, z-k.events.effect(mid))
	if dt < agoWidth {
		k.fine.learn(local-dt, local, z)
		k.hour.learn(local-dt, local, z)
	}
}

// local returns the local time in seconds since its epoch.
func (k *calendar) local(t float64) float64 {
	if k.location == time.UTC {
		return t
	}
	_, offset := time.Unix(int64(math.Floor(t)), 0).In(k.location).Zone()
	return t + float64(offset)
}

// fill writes z of each season for the slot of width dt that ends at t, or NaN where it
// is unknown.
func (k *calendar) fill(s *[seasonsN]float64, t, dt, c float64) {
	mid := t - dt/2
	local := k.local(mid)
	width := ownWidth(dt)
	*s = [seasonsN]float64{
		seasonYesterday: k.ago(mid, day, width, c), seasonLastWeek: k.ago(mid, week, width, c),
		seasonDay: k.day.exact(local), seasonWeek: k.week.value(local),
		seasonCourse:      k.course.value(local) + k.events.effect(mid),
		seasonMinuteOfDay: math.NaN(), seasonMinuteOfHour: math.NaN(),
	}
	if dt < agoWidth {
		s[seasonMinuteOfDay], s[seasonMinuteOfHour] = k.fine.exact(local), k.hour.exact(local)
	}
}

// ago returns z around the same local time a whole period earlier, averaged over a width.
func (k *calendar) ago(mid, period, width, c float64) float64 {
	then := mid - period
	if k.location != time.UTC {
		then += k.local(mid) - period - k.local(then) // daylight saving may have changed in between
	}
	rate, coverage := k.hist.Mean(series.FiveMinutes, then-width/2, then+width/2)
	if coverage < .5 {
		return math.NaN()
	}
	return math.Log(rate + c)
}

func (k *calendar) walk(c *codec.Codec) {
	for _, p := range []*profile{k.day, k.week, k.fine, k.hour} {
		p.walk(c)
	}
	k.course.walk(c)
	k.events.walk(c)
}
