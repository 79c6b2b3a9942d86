package fit

import (
	"errors"
	"math"
)

// Options say how a Gram is solved. The zero value is the usual way.
type Options struct {
	Noise      float64   // σ when it is known; 0: to be estimated
	NoiseScale float64   // s of the half-normal prior on σ; 0: 0.5
	NoiseMin   float64   // σ is never estimated below; 0: 1e-6
	Start      []float64 // coefficients to begin at, of a similar problem; nil: none
	Rough      bool      // enough when the objective hardly moves; zeros are then only nearly 0
}

// A Solution is the minimum that Solve found.
type Solution struct {
	Theta     []float64
	Noise     float64 // σ
	Objective float64
	Steps     int // systems of equations solved
}

const (
	epsFirst  = 1e-2 // annealing of majorise: |θ| below eps is treated as eps
	epsLast   = 1e-7
	epsFactor = 0.3
	stepsMax  = 60  // of majorise
	exactMax  = 400 // alternations of exact θ and σ
	settled   = 1e-9
	roughly   = 1e-6
)

// Solve returns the θ and σ that minimise the objective of the package comment.
//
// Absolute values are majorised by parabolas, |θ| ≤ θ²/2w + w/2 with w the last
// |θ|, which leaves a system of linear equations per step; σ has a closed form.
// Unless Rough, an active set then makes the result exact: the optimality
// conditions hold to rounding and coefficients that are zero are exactly 0.
// Collinear columns without prior: the first gets all.
func (g *Gram) Solve(p Prior, o Options) (Solution, error) {
	if err := p.check(g); err != nil {
		return Solution{}, err
	}
	if !g.finite() {
		return Solution{}, errValues
	}
	if !(g.W > 0) {
		return Solution{}, errors.New("fit: no row with a weight above 0")
	}
	if o.NoiseScale == 0 {
		o.NoiseScale = 0.5
	}
	if o.NoiseMin == 0 {
		o.NoiseMin = 1e-6
	}
	s := &solver{g: g, p: p, o: o, theta: make([]float64, g.N), system: make([]float64, g.N*g.N)}
	s.begin()
	s.majorise()
	if !o.Rough {
		s.exact()
	}
	for _, v := range s.theta {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return Solution{}, errValues
		}
	}
	return Solution{Theta: s.theta, Noise: s.noise, Objective: s.objective(), Steps: s.steps}, nil
}

// solver is one call of Solve.
type solver struct {
	g      *Gram
	p      Prior
	o      Options
	theta  []float64
	noise  float64
	system []float64 // scratch: the matrix of the equations
	steps  int
}

// begin sets the start: the caller's, or zero with the noise of y itself.
func (s *solver) begin() {
	copy(s.theta, s.o.Start)
	s.estimateNoise()
}

// estimateNoise sets σ to its best given θ: the root of
// W/σ − RSS/σ³ + σ/s² = 0, in the form that does not cancel.
func (s *solver) estimateNoise() {
	if s.o.Noise > 0 {
		s.noise = s.o.Noise
		return
	}
	rss, w, b := s.g.RSS(s.theta), s.g.W, s.o.NoiseScale*s.o.NoiseScale
	s.noise = max(s.o.NoiseMin, math.Sqrt(2*rss/(w+math.Sqrt(w*w+4*rss/b))))
}

// objective returns what Solve minimises, at the present θ and σ.
func (s *solver) objective() float64 {
	v := s.noise * s.noise
	sum := s.g.RSS(s.theta)/(2*v) + s.g.W*math.Log(s.noise) + v/(2*s.o.NoiseScale*s.o.NoiseScale)
	for j, t := range s.theta {
		sum += s.p.l2(j)*t*t/2 + s.p.l1(j)*math.Abs(t)
	}
	return sum
}

// majorise alternates parabolas and σ until the objective rests.
func (s *solver) majorise() {
	tolerance := settled
	if s.o.Rough {
		tolerance = roughly
	}
	eps := epsFirst
	if s.o.Start != nil {
		eps = epsLast // a warm start knows which are small
	}
	last := s.objective()
	for range stepsMax {
		s.parabolas(eps)
		s.estimateNoise()
		now := s.objective()
		rests := math.Abs(now-last) <= tolerance*(1+math.Abs(now))
		if rests && (eps <= epsLast || !s.o.Rough && eps < 1e-4) {
			return
		}
		last, eps = now, max(epsLast, eps*epsFactor)
	}
}

// parabolas solves (X'WX + σ²P) θ = X'Wy with the absolute values replaced.
func (s *solver) parabolas(eps float64) {
	n, v := s.g.N, s.noise*s.noise
	for i := range n {
		copy(s.system[i*n:i*n+i+1], s.g.XX[i*n:i*n+i+1])
		s.system[i*n+i] += v * (s.p.l2(i) + s.p.l1(i)/max(math.Abs(s.theta[i]), eps))
	}
	cholesky(s.system, n)
	copy(s.theta, s.g.XY)
	solve(s.system, n, s.theta)
	s.steps++
}
