package forecast

import (
	"math"
	"weir/advisor/codec"
)

// A ridge is a linear regression that learns one row at a time with exponential
// forgetting:
//
//	minimise over θ:  Σ_t decay^(now-t) w_t (y_t - θ·x_t)² + σ² Σ_i θ_i²/τ_i²
//
// It keeps the sums of squares, not θ, so forgetting never makes it unstable: without
// data the prior holds θ_i near 0. σ² is its own mean squared error.
type ridge struct {
	p       int
	decay   float64
	overlap float64   // rows that count as one, because targets of an hour overlap
	tau     []float64 // prior standard deviation of each coefficient
	a       []float64 // Σ w x xᵀ, lower triangle by rows
	b       []float64 // Σ w x y
	n       float64   // Σ w
	rows    int       // rows ever learnt
	err     float64   // Σ w r², with r the error before learning
	theta   []float64
	factor  []float64 // scratch of solve
}

func newRidge(tau []float64, decay, overlap float64) *ridge {
	p := len(tau)
	return &ridge{
		p: p, decay: decay, tau: tau, overlap: overlap,
		a: make([]float64, p*(p+1)/2), b: make([]float64, p),
		theta: make([]float64, p), factor: make([]float64, p*(p+1)/2),
	}
}

// predict returns θ·x.
func (r *ridge) predict(x []float64) float64 {
	sum := 0.0
	for i, v := range r.theta {
		sum += v * x[i]
	}
	return sum
}

// learn adds a row.
func (r *ridge) learn(x []float64, y, w float64) {
	e := y - r.predict(x)
	r.n = r.n*r.decay + w
	r.rows++
	r.err = r.err*r.decay + w*e*e
	k := 0
	for i := range r.p {
		wx := w * x[i]
		row := r.a[k : k+i+1]
		for j := range row {
			row[j] = row[j]*r.decay + wx*x[j]
		}
		r.b[i] = r.b[i]*r.decay + wx*y
		k += i + 1
	}
}

// solve computes θ by Cholesky factorisation. It keeps the old θ if the matrix is not
// positive definite.
func (r *ridge) solve() {
	if r.n <= 0 {
		return
	}
	noise := max(r.err/r.n, 1e-9) * r.overlap
	l := r.factor
	for i := range r.p {
		ri := i * (i + 1) / 2
		for j := range i {
			rj := j * (j + 1) / 2
			l[ri+j] = without(r.a[ri+j], l[ri:ri+j], l[rj:rj+j]) / l[rj+j]
		}
		own := without(r.a[ri+i]+noise/(r.tau[i]*r.tau[i]), l[ri:ri+i], l[ri:ri+i])
		if !(own > 1e-300) {
			return
		}
		l[ri+i] = math.Sqrt(own)
	}
	r.back(l)
}

// without returns s minus the product of two rows.
func without(s float64, a, b []float64) float64 {
	b = b[:len(a)]
	for k, v := range a {
		s -= v * b[k]
	}
	return s
}

// back solves L Lᵀ θ = b.
func (r *ridge) back(l []float64) {
	for i := range r.p {
		ri := i * (i + 1) / 2
		s := r.b[i]
		for k := range i {
			s -= l[ri+k] * r.theta[k]
		}
		r.theta[i] = s / l[ri+i]
	}
	for i := r.p - 1; i >= 0; i-- {
		s := r.theta[i]
		for k := i + 1; k < r.p; k++ {
			s -= l[k*(k+1)/2+i] * r.theta[k]
		}
		r.theta[i] = s / l[i*(i+1)/2+i]
	}
}

func (r *ridge) walk(c *codec.Codec) {
	c.Floats(r.a)
	c.Floats(r.b)
	c.Floats(r.theta)
	c.Float(&r.n, &r.err)
	c.Int(&r.rows)
}
