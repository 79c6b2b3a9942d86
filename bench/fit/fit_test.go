package fit

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// twin solves min |Xθ − y|² + Σ λθ² by Householder reflections of the rows
// themselves, without ever forming X'WX: slow, and another way.
func twin(x [][]float64, y, lambda []float64) []float64 {
	n := len(lambda)
	var a [][]float64
	for i, row := range x {
		r := make([]float64, n+1)
		copy(r, row)
		r[n] = y[i]
		a = append(a, r)
	}
	for j, l := range lambda {
		r := make([]float64, n+1)
		r[j] = math.Sqrt(l)
		a = append(a, r)
	}
	for k := range n {
		norm := 0.0
		for i := k; i < len(a); i++ {
			norm = math.Hypot(norm, a[i][k])
		}
		if a[k][k] > 0 {
			norm = -norm
		}
		v := make([]float64, len(a))
		square := 0.0
		for i := k; i < len(a); i++ {
			v[i] = a[i][k]
			if i == k {
				v[i] -= norm
			}
			square += v[i] * v[i]
		}
		for j := k; j <= n && square > 0; j++ {
			s := 0.0
			for i := k; i < len(a); i++ {
				s += v[i] * a[i][j]
			}
			for i := k; i < len(a); i++ {
				a[i][j] -= 2 * s / square * v[i]
			}
		}
	}
	theta := make([]float64, n)
	for k := n - 1; k >= 0; k-- {
		theta[k] = a[k][n]
		for j := k + 1; j < n; j++ {
			theta[k] -= a[k][j] * theta[j]
		}
		theta[k] /= a[k][k]
	}
	return theta
}

// problem draws rows with some true coefficients of zero.
type problem struct {
	x [][]float64
	y []float64
}

func draw(r *rand.Rand, rows, cols int, noise float64) problem {
	var p problem
	truth := make([]float64, cols)
	for j := range truth {
		if j%3 == 0 {
			truth[j] = r.NormFloat64()
		}
	}
	for range rows {
		x, y := make([]float64, cols), noise*r.NormFloat64()
		common := r.NormFloat64()
		for j := range x {
			x[j] = r.NormFloat64() + common // correlated, as trends are
			y += x[j] * truth[j]
		}
		p.x, p.y = append(p.x, x), append(p.y, y)
	}
	return p
}

func (p problem) gram() *Gram {
	g := NewGram(len(p.x[0]))
	for i, row := range p.x {
		g.Add(row, p.y[i])
	}
	return g
}

func TestSolveIsRidgeRegression(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		cols := 1 + r.IntN(40)
		p := draw(r, cols+r.IntN(60), cols, .5)
		l2 := make([]float64, cols)
		for j := range l2 {
			l2[j] = r.Float64() * 3
		}
		s, err := p.gram().Solve(Prior{L2: l2})
		if err != nil {
			t.Fatal(err)
		}
		lambda := make([]float64, cols)
		for j := range lambda {
			lambda[j] = l2[j] * s.Noise * s.Noise
		}
		for j, want := range twin(p.x, p.y, lambda) {
			if math.Abs(s.Theta[j]-want) > 1e-8*(1+math.Abs(want)) {
				t.Errorf("seed %d: coefficient %d is %.12g, the rows themselves say %.12g", seed, j, s.Theta[j], want)
			}
		}
	}
}

// TestSolveIsOptimal checks the conditions of the minimum: no slope at what is
// not zero, a slope within ±μ at what is, and σ at its own root.
func TestSolveIsOptimal(t *testing.T) {
	zeros := 0
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 2))
		cols := 2 + r.IntN(60)
		p := draw(r, 20+r.IntN(200), cols, 1)
		prior := Prior{L2: make([]float64, cols), L1: make([]float64, cols)}
		for j := range cols {
			if j%4 == 3 {
				prior.L2[j] = r.Float64()
			} else {
				prior.L1[j] = 40 * r.Float64()
			}
		}
		g := p.gram()
		s, err := g.Solve(prior)
		if err != nil {
			t.Fatal(err)
		}
		zeros += checkOptimal(t, g, prior, s)
	}
	if zeros < 100 {
		t.Errorf("%d coefficients are zero; the Laplace prior should make many so", zeros)
	}
}

// checkOptimal returns the number of zeros.
func checkOptimal(t *testing.T, g *Gram, p Prior, s Solution) (zeros int) {
	t.Helper()
	v := s.Noise * s.Noise
	for j, theta := range s.Theta {
		slope := -g.xy[j]
		for i, other := range s.Theta {
			slope += g.at(j, i) * other
		}
		slope = slope/v + p.l2(j)*theta
		mu := p.l1(j)
		tolerance := 1e-7 * (1 + mu + math.Abs(g.xy[j])/v)
		if theta == 0 {
			zeros++
			if math.Abs(slope) > mu+tolerance {
				t.Errorf("coefficient %d is 0 though the slope there is %g, beyond ±%g", j, slope, mu)
			}
			continue
		}
		if left := slope + math.Copysign(mu, theta); math.Abs(left) > tolerance {
			t.Errorf("coefficient %d = %g: slope %g left", j, theta, left)
		}
	}
	if left := g.rows - g.RSS(s.Theta)/v + 4*v; math.Abs(left) > 1e-6*g.rows {
		t.Errorf("σ = %g leaves %g of %g", s.Noise, left, g.rows)
	}
	return zeros
}

// TestNothingNearIsBetter tries the objective around the minimum.
func TestNothingNearIsBetter(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	p := draw(r, 100, 12, 1)
	prior := Prior{L1: []float64{9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9}}
	g := p.gram()
	s, err := g.Solve(prior)
	if err != nil {
		t.Fatal(err)
	}
	at := &solver{g: g, p: prior}
	for range 2000 {
		at.theta, at.noise = append([]float64(nil), s.Theta...), s.Noise*math.Exp(.01*r.NormFloat64())
		at.theta[r.IntN(12)] += .01 * r.NormFloat64()
		if o := at.objective(); o < s.Objective-1e-9*math.Abs(s.Objective) {
			t.Fatalf("objective %.12g at %v, below the minimum's %.12g", o, at.theta, s.Objective)
		}
	}
}

func TestDegenerate(t *testing.T) {
	cases := []struct {
		name  string
		x     []float64 // two columns
		y     []float64
		prior Prior
		want  [2]float64
	}{
		{"one row", []float64{1, 2}, []float64{3}, Prior{L2: []float64{1, 1}, L1: nil}, [2]float64{.6, 1.2}},
		{"all y zero", []float64{1, 2, 1, 3, 1, 4}, []float64{0, 0, 0}, Prior{L1: []float64{0, 9}}, [2]float64{0, 0}},
		{"same column twice", []float64{1, 1, 2, 2, 3, 3}, []float64{2, 4, 6}, Prior{}, [2]float64{2, 0}},
		{"same column twice, shared by the prior", []float64{1, 1, 2, 2, 3, 3}, []float64{2, 4, 6}, Prior{L2: []float64{1, 1}}, [2]float64{1, 1}},
		{"column of zeros", []float64{1, 0, 2, 0, 3, 0}, []float64{2, 4, 6}, Prior{}, [2]float64{2, 0}},
		{"constant column and its multiple", []float64{1, 5, 1, 5, 1, 5}, []float64{2, 2, 2}, Prior{L1: []float64{0, 10}}, [2]float64{2, 0}},
	}
	for _, c := range cases {
		g := NewGram(2)
		for i, y := range c.y {
			g.Add(c.x[2*i:2*i+2], y)
		}
		s, err := g.Solve(c.prior)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if math.Abs(s.Theta[0]-c.want[0])+math.Abs(s.Theta[1]-c.want[1]) > 1e-3 {
			t.Errorf("%s: coefficients %v, must be %v", c.name, s.Theta, c.want)
		}
	}
}

func TestRefused(t *testing.T) {
	cases := []struct {
		name  string
		x, y  float64
		prior Prior
		want  string
	}{
		{"not a number", math.NaN(), 1, Prior{}, "not finite"},
		{"infinite", 1, math.Inf(1), Prior{}, "not finite"},
		{"too large to be squared", 1, 1e200, Prior{}, "too large"},
		{"negative precision", 1, 1, Prior{L2: []float64{-1}}, "column 0: prior precisions must be"},
		{"infinite precision", 1, 1, Prior{L1: []float64{math.Inf(1)}}, "column 0: prior precisions must be"},
		{"too many priors", 1, 1, Prior{L1: []float64{1, 1}}, "priors of 0 and 2 columns for 1"},
	}
	for _, c := range cases {
		g := NewGram(1)
		g.Add([]float64{c.x}, c.y)
		if _, err := g.Solve(c.prior); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, must say %q", c.name, err, c.want)
		}
	}
	if _, err := NewGram(1).Solve(Prior{}); err == nil || !strings.Contains(err.Error(), "no row") {
		t.Errorf("without a row: error %v", err)
	}
	for _, n := range []int{0, ColumnsMax + 1} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("NewGram(%d) must panic", n)
				}
			}()
			NewGram(n)
		}()
	}
}
