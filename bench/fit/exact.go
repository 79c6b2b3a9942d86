package fit

import "math"

// activeMin is the size from which a coefficient of majorise counts as not zero.
const activeMin = 1e-6

// exact alternates the exact θ for σ and σ for θ until σ rests.
func (s *solver) exact() {
	a := &active{solver: s, in: make([]bool, s.g.n), sign: make([]float64, s.g.n)}
	for j, t := range s.theta {
		switch {
		case s.p.l1(j) == 0:
			a.in[j] = true
		case math.Abs(t) > activeMin:
			a.in[j], a.sign[j] = true, math.Copysign(1, t)
		default:
			s.theta[j] = 0
		}
	}
	for range exactMax {
		a.descend()
		last := s.noise
		s.estimateNoise()
		if math.Abs(s.noise-last) <= 1e-12*last {
			return
		}
	}
}

// active is the set of coefficients that are not zero, with their signs. On it
// the objective is smooth, so that its minimum is one system of equations.
type active struct {
	*solver
	in   []bool
	sign []float64 // of those in with a Laplace prior; 0 for the others
	cols []int     // scratch: those in, ascending
	next []float64 // scratch: the minimum over them
}

// descend finds the minimum for the present σ. Every turn lowers the objective
// or changes the set; the bound is only a guard against rounding.
func (a *active) descend() {
	for range 8 * a.g.n {
		a.minimum()
		if a.step() {
			continue // one left the set
		}
		if !a.enter() {
			return
		}
	}
}

// minimum solves for the columns in the set, with their signs held.
func (a *active) minimum() {
	a.cols = a.cols[:0]
	for j, in := range a.in {
		if in {
			a.cols = append(a.cols, j)
		}
	}
	m, v := len(a.cols), a.noise*a.noise
	if cap(a.next) < m {
		a.next = make([]float64, a.g.n)
	}
	a.next = a.next[:m]
	for i, c := range a.cols {
		row := a.system[i*m : i*m+i+1]
		for j := range row {
			row[j] = a.g.xx[c*a.g.n+a.cols[j]]
		}
		row[i] += v * a.p.l2(c)
		a.next[i] = a.g.xy[c] - v*a.p.l1(c)*a.sign[c]
	}
	cholesky(a.system, m)
	solve(a.system, m, a.next)
}

// step goes towards the minimum as far as no sign changes. It says whether a
// coefficient got to zero on the way and left.
func (a *active) step() bool {
	share, leaves := 1.0, -1
	for i, c := range a.cols {
		if a.sign[c] == 0 || a.next[i]*a.sign[c] > 0 {
			continue
		}
		at := 0.0
		if d := a.theta[c] - a.next[i]; d != 0 {
			at = a.theta[c] / d
		}
		if leaves < 0 || at < share {
			share, leaves = at, c
		}
	}
	for i, c := range a.cols {
		a.theta[c] += share * (a.next[i] - a.theta[c])
	}
	if leaves < 0 {
		return false
	}
	a.theta[leaves], a.sign[leaves], a.in[leaves] = 0, 0, false
	return true
}

// enter takes in the coefficient whose zero is the worst, and says whether there
// was any: zero is right while the slope of the smooth part is at most σ²μ.
func (a *active) enter() bool {
	v := a.noise * a.noise
	worst, at, sign := 1e-9, -1, 0.0
	for j, in := range a.in {
		if in {
			continue
		}
		slope := a.g.xy[j]
		for _, c := range a.cols {
			slope -= a.g.at(j, c) * a.theta[c]
		}
		bound := v * a.p.l1(j)
		if over := math.Abs(slope)/bound - 1; over > worst {
			worst, at, sign = over, j, math.Copysign(1, slope)
		}
	}
	if at < 0 {
		return false
	}
	a.in[at], a.sign[at] = true, sign
	return true
}
