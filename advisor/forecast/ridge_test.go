package forecast

import (
	"math"
	"math/rand/v2"
	"testing"
)

// obvious solves (Σ d^(n-t) w x xᵀ + noise/τ²) θ = Σ d^(n-t) w x y by elimination.
func obvious(xs [][]float64, ys, ws, tau []float64, decay, noise float64) []float64 {
	p := len(tau)
	m := make([][]float64, p)
	for i := range m {
		m[i] = make([]float64, p+1)
		m[i][i] = noise / (tau[i] * tau[i])
	}
	for t, x := range xs {
		w := ws[t] * math.Pow(decay, float64(len(xs)-1-t))
		for i := range p {
			for j := range p {
				m[i][j] += w * x[i] * x[j]
			}
			m[i][p] += w * x[i] * ys[t]
		}
	}
	for i := range p {
		for j := range p {
			if j == i {
				continue
			}
			by := m[j][i] / m[i][i]
			for k := i; k <= p; k++ {
				m[j][k] -= by * m[i][k]
			}
		}
	}
	out := make([]float64, p)
	for i := range p {
		out[i] = m[i][p] / m[i][i]
	}
	return out
}

// The regression agrees with its definition.
func TestRidgeAgainstElimination(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	tau := []float64{.1, .5, 1, 2, .5}
	fit := newRidge(tau, .99, 3)
	var xs [][]float64
	var ys, ws []float64
	for i := range 300 {
		x := make([]float64, len(tau))
		for j := range x {
			x[j] = r.NormFloat64()
		}
		x[0] = 1
		y := .3 + x[1] - .5*x[2] + .1*r.NormFloat64()
		w := .2 + r.Float64()
		xs, ys, ws = append(xs, x), append(ys, y), append(ws, w)
		fit.learn(x, y, w)
		if i%10 == 0 {
			fit.solve()
		}
	}
	fit.solve()
	want := obvious(xs, ys, ws, tau, .99, 3*max(fit.err/fit.n, 1e-9))
	for i, v := range fit.theta {
		if math.Abs(v-want[i]) > 1e-9 {
			t.Errorf("coefficient %d is %g, want %g", i, v, want[i])
		}
	}
}

// Coefficients that the data do not determine stay near the prior, and all are finite, also
// with columns of zeros, of copies, and of enormous numbers.
func TestRidgeWithoutInformation(t *testing.T) {
	fit := newRidge([]float64{.5, .5, .5, .5}, .9, 1)
	for i := range 500 {
		v := float64(i % 7)
		fit.learn([]float64{v, v, 0, 1e6}, v, 1)
		fit.solve()
		for j, c := range fit.theta {
			if math.IsNaN(c) || math.Abs(c) > 10 {
				t.Fatalf("after %d rows coefficient %d is %v", i, j, c)
			}
		}
	}
	if fit.theta[2] != 0 {
		t.Errorf("a column of zeros has coefficient %g", fit.theta[2])
	}
	if math.Abs(fit.theta[0]-fit.theta[1]) > 1e-6 {
		t.Errorf("equal columns have coefficients %g and %g", fit.theta[0], fit.theta[1])
	}
}
