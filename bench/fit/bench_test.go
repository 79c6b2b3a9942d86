package fit

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func Example() {
	g := NewGram(2)
	g.Add([]float64{1, 0, 1, 1, 1, 2, 1, 3}, []float64{1, 3, 5, 7}, nil)
	s, err := g.Solve(Prior{L2: []float64{1e-9, 1e-9}}, Options{})
	fmt.Printf("%.3f %v\n", s.Theta, err)
	// Output: [1.000 2.000] <nil>
}

func BenchmarkAdd(b *testing.B) {
	p := draw(rand.New(rand.NewPCG(1, 1)), 4000, 53, 1)
	var flat []float64
	for _, row := range p.x {
		flat = append(flat, row...)
	}
	g := NewGram(53)
	for b.Loop() {
		g.Add(flat, p.y, p.w)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(4000*53*54/2), "ns/product")
}

func BenchmarkSolve(b *testing.B) {
	g := draw(rand.New(rand.NewPCG(1, 1)), 4000, 75, 1).gram()
	l1 := make([]float64, 75)
	for j := range 25 {
		l1[3*j] = 20
	}
	for b.Loop() {
		if _, err := g.Solve(Prior{L1: l1}, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCholesky(b *testing.B) {
	g := draw(rand.New(rand.NewPCG(1, 1)), 4000, 75, 1).gram()
	a := make([]float64, 75*75)
	for b.Loop() {
		copy(a, g.XX)
		cholesky(a, 75)
	}
}
