package fit

import (
	"errors"
	"math"
)

// A Solution is the minimum that Solve found.
type Solution struct {
	Theta     []float64
	Noise     float64 // σ
	Objective float64
}

const (
	noiseScale = 0.5  // s, the width of the prior of σ
	noiseMin   = 1e-6 // σ is never estimated below: its square would be lost in the sums
	epsFirst   = 1e-2 // annealing of majorise: |θ| below eps is treated as eps
	epsLast    = 1e-7
	epsFactor  = 0.3
	stepsMax   = 60  // of majorise
	exactMax   = 400 // alternations of exact θ and σ
	settled    = 1e-9
)

// Solve returns the θ and σ that minimise the objective of the package comment.
//
// Absolute values are majorised by parabolas, |θ| ≤ θ²/2w + w/2 with w the last
// |θ|, which leaves a system of linear equations per step; σ has a closed form.
// An active set then makes the result exact: the optimality conditions hold to
// rounding and coefficients that are zero are exactly 0.
// Collinear columns without prior: the first gets all.
func (g *Gram) Solve(p Prior) (Solution, error) {
	if err := p.check(g); err != nil {
		return Solution{}, err
	}
	if !g.finite() {
		return Solution{}, errValues
	}
	if g.rows == 0 {
		return Solution{}, errors.New("fit: no row")
	}
	s := &solver{g: g, p: p, theta: make([]float64, g.n), system: make([]float64, g.n*g.n)}
	s.estimateNoise()
	s.majorise()
	s.exact()
	for _, v := range s.theta {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return Solution{}, errValues
		}
	}
	return Solution{Theta: s.theta, Noise: s.noise, Objective: s.objective()}, nil
}

// solver is one call of Solve.
type solver struct {
	g      *Gram
	p      Prior
	theta  []float64
	noise  float64
	system []float64 // scratch: the matrix of the equations
}

// estimateNoise sets σ to its best given θ: the root of
// n/σ − RSS/σ³ + σ/s² = 0, in the form that does not cancel.
func (s *solver) estimateNoise() {
	rss, n, b := s.g.RSS(s.theta), s.g.rows, noiseScale*noiseScale
	s.noise = max(noiseMin, math.Sqrt(2*rss/(n+math.Sqrt(n*n+4*rss/b))))
}

// objective returns what Solve minimises, at the present θ and σ.
func (s *solver) objective() float64 {
	v := s.noise * s.noise
	sum := s.g.RSS(s.theta)/(2*v) + s.g.rows*math.Log(s.noise) + v/(2*noiseScale*noiseScale)
	for j, t := range s.theta {
		sum += s.p.l2(j)*t*t/2 + s.p.l1(j)*math.Abs(t)
	}
	return sum
}

// majorise alternates parabolas and σ until the objective rests.
func (s *solver) majorise() {
	eps := epsFirst
	last := s.objective()
	for range stepsMax {
		s.parabolas(eps)
		s.estimateNoise()
		now := s.objective()
		rests := math.Abs(now-last) <= settled*(1+math.Abs(now))
		if rests && eps < 1e-4 {
			return
		}
		last, eps = now, max(epsLast, eps*epsFactor)
	}
}

// parabolas solves (X'X + σ²P) θ = X'y with the absolute values replaced.
func (s *solver) parabolas(eps float64) {
	n, v := s.g.n, s.noise*s.noise
	for i := range n {
		copy(s.system[i*n:i*n+i+1], s.g.xx[i*n:i*n+i+1])
		s.system[i*n+i] += v * (s.p.l2(i) + s.p.l1(i)/max(math.Abs(s.theta[i]), eps))
	}
	cholesky(s.system, n)
	copy(s.theta, s.g.xy)
	solve(s.system, n, s.theta)
}
