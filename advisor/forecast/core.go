package forecast

import (
	"math"
	"time"

	"weir/advisor/season"
	"weir/advisor/series"
)

const (
	refitEvery = 600.0 // seconds of snapshots' time
	refitPause = 60.0  // at least, also after an alarm
	curveStep  = 300.0
	curveN     = 26 * 12
	curveBack  = 6 // steps of the curve that lie in the past
)

// blocksAt are the ages, in seconds, at which a core gains a season.
var blocksAt = [...]float64{6 * hour, 2 * day, 7 * day, 14 * day, 21 * day, 28 * day, 730 * day}

// refits says when a core is to be fitted anew.
type refits struct {
	at    float64 // of the last job
	age   float64 // of the history then
	alarm bool
}

func (r *refits) due(now, age float64) bool {
	if age < blocksAt[0] || (r.at != 0 && now-r.at < refitPause) {
		return false
	}
	if r.alarm || now-r.at >= refitEvery {
		return true
	}
	for _, b := range blocksAt {
		if r.age < b && age >= b {
			return true
		}
	}
	return false
}

// A curve is what a fitted core says of the coming day, so that it can be kept and
// read in no time. It ends: a core that nobody renews is not believed for longer.
type curve struct {
	start  float64
	offset float64
	z      []float64
}

// value is z with offset c for the slot that ends at t; NaN outside.
func (u *curve) value(t, c float64) float64 {
	x := (t - u.start) / curveStep
	if !(x >= 0) || x >= float64(len(u.z)-1) {
		return math.NaN()
	}
	i := int(x)
	w := x - float64(i)
	z := (1-w)*u.z[i] + w*u.z[i+1]
	return math.Log(max(0, math.Exp(z)-u.offset) + c)
}

func (u *curve) walk(c *codec) {
	c.f64(&u.start, &u.offset)
	c.slice(&u.z, curveN)
}

// A Job is a refit of the core with its own copy of the data.
type Job struct {
	rows   []season.Row
	shifts []time.Time
	set    season.Settings
}

// Run fits; it may run on any goroutine.
func (j *Job) Run() (*season.Model, error) { return season.Fit(j.rows, j.shifts, j.set) }

// Refit hands out a job when one is due: every ten minutes, on an alarm, when the
// history has become long enough for another season. It is due again only after that.
func (f *Forecaster) Refit() (job *Job, due bool) {
	age := f.hist.Age().Seconds()
	if f.eng == nil || !f.refits.due(f.now, age) {
		return nil, false
	}
	f.refits = refits{at: f.now, age: age}
	job = &Job{set: season.Settings{Location: f.set.Location, Events: f.set.Events}}
	newest, _ := f.hist.Newest()
	for _, r := range f.hist.Rows(series.FiveMinutes, newest.Add(-series.FiveMinutes.Span()), newest) {
		job.rows = append(job.rows, season.Row{At: r.At, Rate: r.Rate, Weight: r.Coverage})
	}
	for _, s := range f.shifts.times {
		job.shifts = append(job.shifts, instant(s))
	}
	return job, true
}

// Adopt takes over a fitted core, from the next observation on.
func (f *Forecaster) Adopt(m *season.Model) {
	if m == nil || f.eng == nil {
		return
	}
	u := curve{start: (math.Floor(f.now/curveStep) - curveBack) * curveStep, offset: m.Offset(), z: make([]float64, curveN)}
	for i := range u.z {
		z := m.At(instant(u.start + float64(i)*curveStep))
		if math.IsNaN(z) || math.Abs(z) > 50 {
			return // a core that says such things is worse than none
		}
		u.z[i] = z
	}
	f.cal.core = u
}
