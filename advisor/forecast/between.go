package forecast

import "time"

// shapeMax bounds how much the calendar may raise or lower values between horizons.
const shapeMax = 10.0

// An outline has what an outlook needs at one moment, computed once: the current values,
// and the shares of the experts for every horizon.
type outline struct {
	moment moment
	shares [][expertsN]float64
}

func (f *Forecaster) outline() *outline {
	e := f.eng
	o := &outline{moment: newMoment(&e.levels, &e.seasons, f.offset()), shares: make([][expertsN]float64, len(e.classes))}
	for i, k := range e.classes {
		o.shares[i] = k.mixer.shares(k.now.experts[:], &k.now.ways)
	}
	return o
}

// between returns the quantiles at a time ahead between horizons. They are interpolated
// linearly between those of the neighbouring horizons, and multiplied by what the experts
// predict for this slot relative to that line, such as a spike that comes every day at
// that minute.
func (f *Forecaster) between(o *outline, ahead float64) [quantilesN]float64 {
	e := f.eng
	first, last := e.classes[0], e.classes[len(e.classes)-1]
	if ahead <= first.ahead {
		return e.underway(ahead)
	}
	if ahead >= last.ahead {
		return last.now.quantiles
	}
	i := 1
	for e.classes[i].ahead < ahead {
		i++
	}
	a, b := e.classes[i-1], e.classes[i]
	if ahead == b.ahead {
		return b.now.quantiles
	}
	w := (ahead - a.ahead) / (b.ahead - a.ahead)
	m := &o.moment
	c := m.c
	m.most = mostFactor * f.most
	f.cal.fill(&m.then, f.now+ahead, e.dt, c)
	there := (1-w)*a.guess(m, &o.shares[i-1]) + w*b.guess(m, &o.shares[i])
	line := (1-w)*mean(&o.shares[i-1], &a.now.experts) + w*mean(&o.shares[i], &b.now.experts)
	by := min(max((there+c)/(line+c), 1/shapeMax), shapeMax)
	q := b.now.quantiles
	for j := range q {
		q[j] = max(0, ((1-w)*a.now.quantiles[j]+w*q[j]+c)*by-c)
	}
	return q
}

// guess returns the mean of the experts' forecasts for a moment, weighted by the shares
// of a horizon.
func (k *class) guess(m *moment, shares *[expertsN]float64) float64 {
	var p promise
	k.ask(&p, m)
	return mean(shares, &p.experts)
}

// mean returns the weighted mean of the available forecasts.
func mean(shares, forecasts *[expertsN]float64) float64 {
	return dotOr(shares[:], forecasts[:], forecasts[expertLast])
}

// underway returns the quantiles of a slot of which a part is over.
func (e *engine) underway(ahead float64) [quantilesN]float64 {
	first := e.classes[0]
	q := first.now.quantiles
	shift := (e.levels.recent[0] - q[1]) * (1 - ahead/first.ahead)
	for i := range q {
		q[i] = max(0, q[i]+shift)
	}
	return q
}

// Outlook returns the forecast for the slots that end step, 2 step … horizon after the newest
// observation, and nothing before the first. Beyond an hour it is constant.
func (f *Forecaster) Outlook(horizon, step time.Duration) []Point {
	if f.eng == nil || step <= 0 || horizon < step {
		return nil
	}
	points := make([]Point, min(int(horizon/step), pointsMax))
	o := f.outline()
	for i := range points {
		q := f.between(o, (time.Duration(i+1) * step).Seconds())
		points[i] = Point{q[0], q[1], q[2], q[3], q[4]}
	}
	return points
}
