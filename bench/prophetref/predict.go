package prophetref

import (
	"math"
	"time"
)

// growth returns the trend at scaled time t, scaled.
func (m *Model) growth(t float64) float64 {
	bends := 0.0
	for i, s := range m.knots {
		if t >= s {
			bends += m.delta[i] * (t - s)
		}
	}
	switch m.settings.Growth {
	case Flat:
		return m.m
	case Logistic:
		// The offsets that keep a logistic trend continuous make its argument
		// a continuous line with the bends δ: the same sum as for a linear one.
		return m.cap() / (1 + math.Exp(-(m.k*(t-m.m) + bends)))
	}
	return m.m + m.k*t + bends
}

// join puts trend and terms together.
func (m *Model) join(trend, terms float64) float64 {
	if m.settings.Multiplicative {
		return trend * (1 + terms)
	}
	return trend + terms
}

// At returns the forecast, or what the model makes of the past.
func (m *Model) At(at time.Time) float64 {
	d := days(at)
	sum, _ := m.terms.sum(m.beta, nil, d)
	return m.floor + m.scale*m.join(m.growth((d-m.start)/m.span), sum)
}

// Trend returns the trend alone.
func (m *Model) Trend(at time.Time) float64 {
	return m.floor + m.scale*m.growth((days(at)-m.start)/m.span)
}

// Noise returns σ, in the unit of the values.
func (m *Model) Noise() float64 { return m.noise * m.scale }

// change returns the mean size of the changes of slope; future ones are thought
// to be like those.
func (m *Model) change() float64 {
	sum := 0.0
	for _, d := range m.delta {
		sum += math.Abs(d)
	}
	return sum/max(1, float64(len(m.delta))) + 1e-8
}

// Deviation returns the standard deviation of the forecast: σ, and beyond the
// rows the changes of slope to come. Those are Poisson with S in a time as long
// as the history, and Laplace(b), so that h histories ahead a linear trend has
// the variance S·2b²·h³/3. Seasons are taken as known, as Prophet does.
func (m *Model) Deviation(at time.Time) float64 {
	h := max(0, (days(at)-m.start)/m.span-1)
	b := m.change()
	bends := 2.0 / 3 * float64(len(m.knots)) * b * b * h * h * h
	if m.settings.Growth == Flat {
		bends = 0
	}
	factor := 1.0
	if m.settings.Growth == Logistic {
		g := m.growth(1 + h)
		factor = g * (1 - g/m.cap())
	}
	if m.settings.Multiplicative {
		sum, _ := m.terms.sum(m.beta, nil, days(at))
		factor *= 1 + sum
	}
	return m.scale * math.Sqrt(m.noise*m.noise+factor*factor*bends)
}

// Interval returns the central interval that should hold this share of values,
// as if the deviation were normal.
func (m *Model) Interval(at time.Time, share float64) (low, high float64) {
	half := math.Sqrt2 * math.Erfinv(share) * m.Deviation(at)
	middle := m.At(at)
	return middle - half, middle + half
}
