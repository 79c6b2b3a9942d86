// Package fit solves penalised least squares of at most a few dozen
// columns: the regression under package prophetref.
//
// The rows are read once, into a Gram; everything after that costs by columns
// only. Over the coefficients θ and the noise σ, Solve minimises
//
//	RSS(θ)/2σ² + n ln σ + σ²/2s² + Σ λ_j θ_j²/2 + Σ μ_j |θ_j|
//
// which is the most probable θ when the n rows are y ~ N(Xθ, σ²), σ ~ half-N(0, s) and
// θ_j ~ N(0, 1/λ_j) or Laplace(0, 1/μ_j).
package fit

import (
	"errors"
	"fmt"
	"math"
)

// ColumnsMax bounds the columns of a Gram: a Cholesky of that many takes a
// millisecond or two.
const ColumnsMax = 256

// A Gram is all that a regression needs to know of its rows.
//
// Owned by one goroutine.
type Gram struct {
	n    int       // columns
	rows float64   // how many there were
	xx   []float64 // X'X, lower triangle; row i begins at i·n
	xy   []float64 // X'y
	yy   float64   // y'y
}

// NewGram returns an empty Gram of n columns. It panics when n is below 1 or
// beyond ColumnsMax.
func NewGram(n int) *Gram {
	if n < 1 || n > ColumnsMax {
		panic(fmt.Sprintf("bug: fit: %d columns, must be 1 to %d", n, ColumnsMax))
	}
	return &Gram{n: n, xx: make([]float64, n*n), xy: make([]float64, n)}
}

// Add takes a row: the values of x, one for each column, and y.
func (g *Gram) Add(x []float64, y float64) {
	if len(x) != g.n {
		panic(fmt.Sprintf("bug: fit: a row of %d values for %d columns", len(x), g.n))
	}
	for i, v := range x {
		if v == 0 {
			continue
		}
		row := g.xx[i*g.n : i*g.n+i+1]
		for j := range row {
			row[j] += v * x[j]
		}
		g.xy[i] += v * y
	}
	g.yy += y * y
	g.rows++
}

// at returns X'X[i,j], from the lower triangle.
func (g *Gram) at(i, j int) float64 {
	if j > i {
		i, j = j, i
	}
	return g.xx[i*g.n+j]
}

// RSS returns the sum of squared residuals of theta, at least 0.
func (g *Gram) RSS(theta []float64) float64 {
	rss := g.yy
	for i, v := range theta {
		if v == 0 {
			continue
		}
		row := g.xx[i*g.n : i*g.n+i+1]
		half := 0.0
		for j, a := range row[:i] {
			half += a * theta[j]
		}
		rss += v * (2*half + row[i]*v - 2*g.xy[i])
	}
	return max(0, rss)
}

// A Prior says what is believed of each column before any row is seen. Columns
// beyond the end of a slice have none.
type Prior struct {
	L2 []float64 // 1/s² of a normal prior N(0, s)
	L1 []float64 // 1/τ of a Laplace prior Laplace(0, τ)
}

func (p Prior) l2(j int) float64 {
	if j < len(p.L2) {
		return p.L2[j]
	}
	return 0
}

func (p Prior) l1(j int) float64 {
	if j < len(p.L1) {
		return p.L1[j]
	}
	return 0
}

// check returns what is wrong with p for g.
func (p Prior) check(g *Gram) error {
	if len(p.L2) > g.n || len(p.L1) > g.n {
		return fmt.Errorf("fit: priors of %d and %d columns for %d", len(p.L2), len(p.L1), g.n)
	}
	for j := range g.n {
		if a, b := p.l2(j), p.l1(j); !(a >= 0) || !(b >= 0) || math.IsInf(a, 1) || math.IsInf(b, 1) {
			return fmt.Errorf("fit: column %d: prior precisions must be finite and at least 0, are %g and %g", j, a, b)
		}
	}
	return nil
}

// errValues is what a Gram of NaN or infinite values is refused with.
var errValues = errors.New("fit: rows hold values that are not finite, or too large to be squared")

// finite says whether all sums of g are.
func (g *Gram) finite() bool {
	s := g.yy
	for i := range g.n {
		s += math.Abs(g.xy[i]) + math.Abs(g.xx[i*g.n+i])
	}
	return !math.IsNaN(s) && !math.IsInf(s, 0)
}
