package fit

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func Example() {
	g := NewGram(2)
	for i := range 4 {
		g.Add([]float64{1, float64(i)}, float64(1+2*i))
	}
	s, err := g.Solve(Prior{L2: []float64{1e-9, 1e-9}})
	fmt.Printf("%.3f %v\n", s.Theta, err)
	// Output: [1.000 2.000] <nil>
}

func BenchmarkSolve(b *testing.B) {
	g := draw(rand.New(rand.NewPCG(1, 1)), 4000, 75, 1).gram()
	l1 := make([]float64, 75)
	for j := range 25 {
		l1[3*j] = 20
	}
	for b.Loop() {
		if _, err := g.Solve(Prior{L1: l1}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCholesky(b *testing.B) {
	g := draw(rand.New(rand.NewPCG(1, 1)), 4000, 75, 1).gram()
	a := make([]float64, 75*75)
	for b.Loop() {
		copy(a, g.xx)
		cholesky(a, 75)
	}
}
