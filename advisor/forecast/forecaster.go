package forecast

import (
	"math"
	"time"

	"weir/advisor/series"
)

const (
	gapLong    = hour  // seconds of a gap after which levels are moved by the calendar
	gapWide    = 600.0 // … and after which larger errors are expected
	gapSteps   = 10.0  // most slots that a gap counts as
	pointsMax  = 3600  // of an outlook
	mostFactor = 10.0  // bounds forecasts by the largest rate of about the last week
	rateMax    = 1e12  // largest plausible rate, per second
	// idleFrom is how many requests must have been expected since the last one for a slot to
	// count as idle. That none of ten comes by chance happens once in 22,000.
	idleFrom = 10
	// heftLeast and heftMost bound the weight of errors: the level relative to its mean.
	heftLeast, heftMost = .1, 5
)

// Settings are inputs other than the rates. The zero value is UTC without events.
type Settings struct {
	Location *time.Location
	Events   []Event
}

// A Point is the forecast for one slot, as wide as the observations: quantiles of its mean
// rate, ascending, finite, none negative.
type Point struct {
	Q05 float64 `json:"q05"`
	Q50 float64 `json:"q50"`
	Q80 float64 `json:"q80"`
	Q95 float64 `json:"q95"`
	Q99 float64 `json:"q99"`
}

// A Forecaster learns from every rate that it observes and forecasts the next hour.
//
// Owned by one goroutine.
type Forecaster struct {
	hist    *series.History
	cal     calendar
	eng     *engine // nil before the first observation
	shifts  detector
	mean    float64 // of the rate over about a day
	meanN   float64 // seconds of data behind mean
	most    float64 // the largest rate of about the last week
	now     float64 // end of the newest slot, seconds since the epoch
	refused int
	quiet   float64 // requests expected by the mean since the last request
}

// New returns a forecaster without history.
func New(s Settings) *Forecaster { return over(s, series.New()) }

func over(s Settings, h *series.History) *Forecaster {
	return &Forecaster{hist: h, cal: newCalendar(s, h)}
}

// Observe processes a mean rate over the interval that ended at at. One that is not newer
// than the newest, or invalid, is counted and ignored.
func (f *Forecaster) Observe(at time.Time, interval time.Duration, rate float64) {
	if rate > rateMax || !f.hist.Add(at, interval, rate) {
		f.refused++
		return
	}
	t, dt := seconds(at), interval.Seconds()
	steps := 1.0
	if f.eng == nil {
		f.eng = newEngine(dt)
		f.now = t - dt
	} else {
		steps = min(max((t-f.now)/f.eng.dt, .1), gapSteps)
	}
	if math.Abs(steps-1) < oddShare {
		steps = 1 // jitter
	}
	if width, changed := f.eng.settled(dt); changed {
		f.eng = f.eng.retimed(width)
	}
	f.quiet += dt * f.mean
	if rate > 0 {
		f.quiet = 0
	}
	f.settle(t, rate)
	f.bridge(t, dt)
	f.learn(t, dt, rate, steps)
	f.predict(t)
}

// settle scores the forecasts for the slot that has ended.
func (f *Forecaster) settle(t, rate float64) {
	e := f.eng
	idle := f.quiet >= idleFrom || rate == 0 && f.mean == 0
	for i, k := range e.classes {
		p := k.settle(t, e.dt, rate, idle)
		if i > 0 || p == nil || k.band.n < 30 {
			continue
		}
		deviation := p.sigma * math.Sqrt(math.Pi/2) // of a normal distribution with that mean error
		if f.shifts.learn(t, (rate-p.point)/deviation) {
			for _, k := range e.classes {
				k.band.widen(widenBy)
			}
		}
	}
	e.solve()
}

// bridge carries the state over a gap.
func (f *Forecaster) bridge(t, dt float64) {
	gap := t - dt - f.now
	if gap <= gapWide {
		return
	}
	for _, k := range f.eng.classes {
		k.band.widen(math.Sqrt(1 + gap/gapWide))
	}
	if gap <= gapLong {
		return
	}
	var before, after [seasonsN]float64
	c := f.offset()
	f.cal.fill(&before, f.now, f.eng.dt, c)
	f.cal.fill(&after, t, f.eng.dt, c)
	for _, j := range [...]int{seasonWeek, seasonDay, seasonCourse} {
		if d := after[j] - before[j]; d == d {
			f.eng.levels.scale(math.Exp(min(max(d, -growthMost), growthMost)))
			return
		}
	}
}

// learn updates levels and calendar with the slot.
func (f *Forecaster) learn(t, dt, rate, steps float64) {
	f.most = max(rate, f.most*math.Exp2(-min(t-f.now, day)/week))
	f.meanN = min(f.meanN+dt, day)
	f.mean += (rate - f.mean) * min(1, dt/f.meanN)
	f.now = t
	c := f.offset()
	f.cal.learn(t, dt, math.Log(rate+c))
	var s [seasonsN]float64
	f.cal.fill(&s, t, f.eng.dt, c)
	f.eng.seasons.learn(&s, steps)
	f.eng.levels.learn(rate, c, steps)
}

// predict makes the forecast of every horizon.
func (f *Forecaster) predict(t float64) {
	e, c := f.eng, f.offset()
	m := &e.moment
	*m = newMoment(&e.levels, &e.seasons, c)
	m.heft, m.most = min(max((e.levels.ses[levelBase]+c)/(f.mean+c), heftLeast), heftMost), mostFactor*f.most
	for _, k := range e.classes {
		f.cal.fill(&m.then, t+k.ahead, e.dt, c)
		k.forecast(m, t, e.dt)
		if f.hist.Seen()%int64(k.stride) == 0 {
			k.keep()
		}
	}
}

// offset returns c of z = log(rate + c). It keeps small rates from having too much
// weight.
func (f *Forecaster) offset() float64 { return max(1/f.eng.dt, .05*f.mean, 1e-9) }

// Shift returns when the rate last left its forecasts for good, and in which direction;
// known is false if it never did.
func (f *Forecaster) Shift() (at time.Time, up, known bool) {
	return instant(f.shifts.last), f.shifts.up, f.shifts.last != 0
}

func seconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }

func instant(s float64) time.Time { return time.Unix(0, int64(math.Round(s*1e9))) }
