package forecast

import (
	"math"
	"math/rand/v2"
	"testing"
)

// follow lets a band learn the errors of the last value in a sequence, and returns the
// share of truths below each quantile, after the first hundred.
func follow(n int, next func(i int) float64) (below [quantilesN]float64, b band) {
	b = newBand(60, 1)
	y, counted := next(0), 0.0
	for i := range n {
		p := promise{point: math.Abs(y), c: 1}
		p.sigma = b.sigma(p.point, 1, 60)
		b.fill(&p.quantiles, p.point, p.sigma)
		y = math.Abs(next(i + 1))
		b.learn(y, &p, false)
		if i < 100 {
			continue
		}
		counted++
		for j, q := range p.quantiles {
			if y <= q {
				below[j]++
			}
		}
	}
	for j := range below {
		below[j] /= counted
	}
	return below, b
}

// For any sequence the share below a quantile is correct in the long run.
func TestBandCovers(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	level := 100.0
	for name, next := range map[string]func(i int) float64{
		"normal noise":           func(int) float64 { return 100 + 10*r.NormFloat64() },
		"noise that grows":       func(i int) float64 { return 1000 + float64(i)/10*r.NormFloat64() },
		"calm and storm":         func(i int) float64 { return 500 + []float64{1, 40}[i/300%2]*r.NormFloat64() },
		"heavy tails":            func(int) float64 { return 200 + 5*r.NormFloat64()/(.05+r.Float64()) },
		"a walk":                 func(int) float64 { level = math.Abs(level + r.NormFloat64()); return level },
		"a ramp with a sawtooth": func(i int) float64 { return float64(i) + 40*r.Float64()*float64(i%17) },
		"skewed":                 func(int) float64 { return 10 * r.ExpFloat64() },
	} {
		below, _ := follow(6000, next)
		for j, tau := range quantiles {
			if tau == .5 {
				continue // moves slowly, since the mixture has found it
			}
			if math.Abs(below[j]-tau) > .02 {
				t.Errorf("%s: %.3f lie below the quantile %g", name, below[j], tau)
			}
		}
	}
}

// Quantiles always ascend and are never negative.
func TestBandAscends(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	_, b := follow(5000, func(i int) float64 { return math.Exp(6*r.NormFloat64()) * float64(r.IntN(2)) })
	var q [quantilesN]float64
	for _, point := range []float64{0, 1e-9, 1, 1e9} {
		b.fill(&q, point, b.sigma(point, 1, 60))
		for i, v := range q {
			if !(v >= 0) || math.IsInf(v, 0) || i > 0 && v < q[i-1] {
				t.Errorf("around %g: %v", point, q)
			}
		}
	}
}

// After a gap the band is wider for a while.
func TestBandWidens(t *testing.T) {
	_, b := follow(500, func(i int) float64 { return 100 + float64(i%5) })
	before := b.sigma(100, 1, 60)
	b.widen(1000)
	if got := b.sigma(100, 1, 60); math.Abs(got-(1+extraMax)*before) > 1e-9 {
		t.Errorf("widened from %g to %g, want %g", before, got, (1+extraMax)*before)
	}
	b.extra *= math.Pow(extraFade, 50)
	if got := b.sigma(100, 1, 60); got > 1.001*before {
		t.Errorf("fifty slots later it is %g, was %g", got, before)
	}
}

// If a rate is mostly 0, quantiles that are cut off at 0 stay there, and the others cover
// their share: a truth of 0 that ties with several is not below all of them.
func TestBandTies(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 33))
	below, b := follow(20000, func(int) float64 { return 10 * float64(r.IntN(5)/4) * r.ExpFloat64() })
	for j, tau := range quantiles {
		if want := max(tau, .8); math.Abs(below[j]-want) > .04 {
			t.Errorf("%.3f lie at or below the quantile %g, want %.2f", below[j], tau, want)
		}
	}
	if b.q[0] < -scoreMax {
		t.Errorf("the quantile %g went to %.1f, far below what any truth says", quantiles[0], b.q[0])
	}
}
