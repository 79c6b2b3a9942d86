package serve

import (
	"slices"
	"time"

	"weir/advisor/forecast"
	"weir/advisor/policy"
	"weir/advisor/series"
)

const (
	hoursSpan = 4 * time.Hour
	daysSpan  = 14 * 24 * time.Hour
	limitSpan = 24 * time.Hour
)

// A look is what the page shows, copied out of the core.
type look struct {
	newest   time.Time
	age      time.Duration
	rounds   uint64
	minutes  []series.Row // the last hours
	days     []series.Row
	ahead    []forecast.Point // by the minute for an hour
	track    []mark           // the last hours
	daily    []mark           // the last days
	advice   advice
	believed policy.State
	mixtures []forecast.Mixture
	shifts   []shift
	proxies  []instance
	changes  []change // the newest first
	fitting  bool
}

// look copies what the page shows.
func (c *core) look() *look {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.now
	h := m.future.History()
	l := &look{
		newest: m.newest(), age: h.Age(), rounds: m.rounds, advice: m.advice, believed: m.policy.State(), mixtures: m.future.Weights(),
		shifts: slices.Clone(m.shifts), proxies: m.instances(), ahead: m.future.Outlook(forecastMax, forecastStep), fitting: c.refit != nil,
	}
	for i := len(m.changes) - 1; i >= 0; i-- {
		l.changes = append(l.changes, m.changes[i])
	}
	newest, ok := h.Newest()
	if !ok {
		return l
	}
	// No error is possible: the spans and steps are ours.
	l.minutes, _ = h.View(newest.Add(-min(hoursSpan, l.age)), newest, time.Minute)
	l.days, _ = h.View(newest.Add(-min(daysSpan, l.age)), newest, daysStep(l.age))
	l.track = m.track.since(newest.Add(-limitSpan))
	l.daily = m.track.quarters.since(newest.Add(-daysSpan).Unix())
	return l
}

// daysStep is how fine the days are drawn.
func daysStep(age time.Duration) time.Duration {
	if age > 4*24*time.Hour {
		return 15 * time.Minute
	}
	return 5 * time.Minute
}
