package prophetref

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Draw returns one possible course of the values at these instants, ascending:
// with changes of slope to come and noise, as Prophet draws its intervals from.
func (m *Model) Draw(at []time.Time, r *rand.Rand) []float64 {
	drawn := *m
	if n := len(at); n > 0 && m.settings.Growth != Flat {
		drawn.bend(max(0, (days(at[n-1])-m.start)/m.span-1), r)
	}
	values := make([]float64, len(at))
	for i, t := range at {
		values[i] = drawn.At(t) + m.Noise()*r.NormFloat64()
	}
	return values
}

// bend adds changes of slope over h histories beyond the rows.
func (m *Model) bend(h float64, r *rand.Rand) {
	b := m.change()
	m.knots, m.delta = slices.Clone(m.knots), slices.Clone(m.delta)
	rate := float64(max(1, m.changepoints()))
	for at := r.ExpFloat64() / rate; at < h; at += r.ExpFloat64() / rate {
		size := b * r.ExpFloat64()
		if r.IntN(2) == 0 {
			size = -size
		}
		m.knots, m.delta = append(m.knots, 1+at), append(m.delta, size)
	}
}

// changepoints returns the number of candidates within the rows.
func (m *Model) changepoints() int { return len(m.knots) }

// DrawnInterval is Interval by n draws, at each of the instants.
func (m *Model) DrawnInterval(at []time.Time, share float64, n int, r *rand.Rand) (low, high []float64) {
	draws := make([][]float64, len(at))
	for range n {
		for i, v := range m.Draw(at, r) {
			draws[i] = append(draws[i], v)
		}
	}
	for _, d := range draws {
		slices.Sort(d)
		low = append(low, quantile(d, (1-share)/2))
		high = append(high, quantile(d, (1+share)/2))
	}
	return low, high
}

// quantile interpolates in sorted values.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := int(math.Floor(at))
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}
