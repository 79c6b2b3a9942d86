package prophetref

import (
	"math"

	"weir/bench/fit"
)

// Widths of the priors of the trend and the noise.
const (
	widthTrend = 5.0
	widthNoise = 0.5
)

// prior is the belief of the columns m, k, δ, β; without k for a flat trend.
func (m *Model) prior() fit.Prior {
	p := fit.Prior{L2: []float64{1 / (widthTrend * widthTrend)}}
	if m.settings.Growth != Flat {
		p.L2 = append(p.L2, 1/(widthTrend*widthTrend))
	}
	p.L1 = make([]float64, len(p.L2))
	for range m.knots {
		p.L2 = append(p.L2, 0)
		p.L1 = append(p.L1, 1/m.settings.ChangepointScale)
	}
	p.L2 = m.terms.appendPriors(p.L2, m.settings)
	return p
}

// pack returns the parameters in the order of the columns.
func (m *Model) pack() []float64 {
	theta := []float64{m.m}
	if m.settings.Growth != Flat {
		theta = append(theta, m.k)
	}
	return append(append(theta, m.delta...), m.beta...)
}

// unpack is the inverse of pack.
func (m *Model) unpack(theta []float64) {
	m.m, theta = theta[0], theta[1:]
	if m.settings.Growth != Flat {
		m.k, theta = theta[0], theta[1:]
	}
	n := copy(m.delta, theta)
	copy(m.beta, theta[n:])
}

// appendTrend appends the columns of a linear or flat trend.
func (m *Model) appendTrend(x []float64, t float64) []float64 {
	x = append(x, 1)
	if m.settings.Growth != Flat {
		x = append(x, t)
	}
	for _, s := range m.knots {
		x = append(x, max(0, t-s))
	}
	return x
}

// batch is how many rows are written out before the Gram takes them.
const batch = 64

// noiseMin is where a perfect fit ends.
const noiseMin = 1e-9

// fitLinear solves the case in which all is linear, in one go.
func (m *Model) fitLinear(h *history) error {
	prior := m.prior()
	g := fit.NewGram(len(prior.L2))
	var x []float64
	for from := 0; from < len(h.t); from += batch {
		to := min(from+batch, len(h.t))
		x = x[:0]
		for i := from; i < to; i++ {
			x = m.appendTrend(x, h.t[i])
			x = m.terms.append(x, h.days[i])
		}
		g.Add(x, h.y[from:to], nil)
	}
	s, err := g.Solve(prior, fit.Options{NoiseScale: widthNoise, NoiseMin: noiseMin})
	if err != nil {
		return err
	}
	m.unpack(s.Theta)
	m.noise = s.Noise
	return nil
}

const (
	turnsMax   = 200
	halvings   = 30
	curvedRest = 1e-10
)

// fitCurved is for what is not linear in the parameters: each turn solves the
// linearised problem, with its priors, exactly, and goes as far towards the
// solution as the true objective falls.
func (m *Model) fitCurved(h *history) error {
	prior := m.prior()
	theta := m.pack()
	now, noise := m.objective(h, prior, theta)
	for range turnsMax {
		s, err := m.linearised(h, prior, theta, noise)
		if err != nil {
			return err
		}
		next, share := make([]float64, len(theta)), 1.0
		best := now
		for range halvings {
			for i := range theta {
				next[i] = theta[i] + share*(s[i]-theta[i])
			}
			if best, noise = m.objective(h, prior, next); best < now {
				break
			}
			share /= 2
		}
		if !(best < now) {
			break
		}
		gain := now - best
		now = best
		copy(theta, next)
		if gain < curvedRest*(1+math.Abs(now)) {
			break
		}
	}
	_, m.noise = m.objective(h, prior, theta)
	return nil
}

// linearised returns the optimum of the model's tangent at theta.
func (m *Model) linearised(h *history, prior fit.Prior, theta []float64, noise float64) ([]float64, error) {
	m.unpack(theta)
	g := fit.NewGram(len(theta))
	var x, y, scratch []float64
	for from := 0; from < len(h.t); from += batch {
		to := min(from+batch, len(h.t))
		x, y = x[:0], y[:0]
		for i := from; i < to; i++ {
			first := len(x)
			var value float64
			x, value, scratch = m.appendTangent(x, scratch, h.t[i], h.days[i])
			aim := h.y[i] - value
			for j, v := range x[first:] {
				aim += v * theta[j]
			}
			y = append(y, aim)
		}
		g.Add(x, y, nil)
	}
	s, err := g.Solve(prior, fit.Options{NoiseScale: widthNoise, Noise: noise, Start: theta})
	return s.Theta, err
}

// appendTangent appends the derivatives of the value at t, and returns it.
func (m *Model) appendTangent(x, scratch []float64, t, at float64) (out []float64, value float64, _ []float64) {
	sum, scratch := m.terms.sum(m.beta, scratch, at)
	g := m.growth(t)
	factor, each := 1.0, 1.0
	value = g + sum
	if m.settings.Multiplicative {
		factor, each = 1+sum, g
		value = g * factor
	}
	if m.settings.Growth == Logistic {
		factor *= g * (1 - g/m.cap())
		x = append(x, -factor*m.k, factor*(t-m.m))
		for _, s := range m.knots {
			x = append(x, factor*max(0, t-s))
		}
	} else {
		first := len(x)
		x = m.appendTrend(x, t)
		for i := range x[first:] {
			x[first+i] *= factor
		}
	}
	for _, v := range scratch[:len(m.beta)] {
		x = append(x, each*v)
	}
	return x, value, scratch
}

// objective returns the true objective at theta, with the best noise for it.
func (m *Model) objective(h *history, p fit.Prior, theta []float64) (objective, noise float64) {
	m.unpack(theta)
	rss := 0.0
	var scratch []float64
	for i, t := range h.t {
		var sum float64
		sum, scratch = m.terms.sum(m.beta, scratch, h.days[i])
		d := h.y[i] - m.join(m.growth(t), sum)
		rss += d * d
	}
	n := float64(len(h.t))
	v := max(1e-12, 2*rss/(n+math.Sqrt(n*n+4*rss/(widthNoise*widthNoise))))
	objective = rss/(2*v) + n*math.Log(v)/2 + v/(2*widthNoise*widthNoise)
	for j, value := range theta {
		objective += p.L2[j] * value * value / 2
		if j < len(p.L1) {
			objective += p.L1[j] * math.Abs(value)
		}
	}
	if math.IsNaN(objective) {
		objective = math.Inf(1)
	}
	return objective, math.Sqrt(v)
}
