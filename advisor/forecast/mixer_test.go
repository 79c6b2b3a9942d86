package forecast

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The weights are those of least squares among all that are not negative and sum to 1. For
// uncorrelated errors they are proportional to the inverse of the variances.
func TestStack(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	s := newStack(4, 1e6)
	s.shrink = 0
	awake := make([]float64, 4)
	sd := []float64{1, 2, 4, 1}
	for range 20000 {
		e := []float64{sd[0] * r.NormFloat64(), sd[1] * r.NormFloat64(), sd[2] * r.NormFloat64(), 0}
		e[3] = e[0] + r.NormFloat64() // worse than the first, and nothing new
		s.learn(e, 1)
		s.solve(5, awake)
	}
	s.solve(200, awake)
	total := 1/1. + 1/4. + 1/16.
	for i, want := range []float64{1 / total, .25 / total, .0625 / total, 0} {
		if math.Abs(s.w[i]-want) > .02 {
			t.Errorf("weight %d is %.3f, want %.3f", i, s.w[i], want)
		}
	}
}

// The weights are never negative and always sum to 1.
func TestStackStaysAMixture(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	s, awake := newStack(9, 30), make([]float64, 9)
	for i := range 3000 {
		e := make([]float64, 9)
		for j := range e {
			e[j] = math.Exp(5*r.NormFloat64()) * float64(r.IntN(3)-1)
		}
		s.learn(e, r.Float64())
		awake[1+i%8] = math.NaN() // one more has no forecast
		if i%8 == 7 {
			clear(awake)
		}
		s.solve(20, awake)
		sum := 0.0
		for _, w := range s.w {
			if w < 0 || w != w {
				t.Fatalf("after %d: weights %v", i, s.w)
			}
			sum += w
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Fatalf("after %d the weights sum to %g", i, sum)
		}
	}
}

// play lets a mixer with a memory of halfLife combine two experts; the others make no forecast.
// It returns the mean errors of the mixture and of the two.
func play(n int, halfLife float64, known func(i int) (a, b, y float64)) (mix, one, two float64) {
	m := newMixer(expertsN, halfLife)
	for i := range n {
		a, b, y := known(i)
		p := promise{c: .01}
		for k := range p.experts {
			p.experts[k] = math.NaN()
		}
		p.experts[expertLast], p.experts[1] = a, b
		p.mix = m.blend(p.experts[:], &p.ways)
		m.learn(y, &p)
		if i%4 == 0 {
			m.stack.solve(20, p.experts[:])
		}
		mix += math.Abs(p.mix-y) / float64(n)
		one += math.Abs(a-y) / float64(n)
		two += math.Abs(b-y) / float64(n)
	}
	return mix, one, two
}

// The mixture is nearly as good as the best expert, follows when another becomes the best,
// and is better than both if their errors cancel.
func TestMixture(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	noise := func(sd float64) float64 { return sd * r.NormFloat64() }
	const n = 1600
	if mix, good, bad := play(n, 50, func(int) (a, b, y float64) {
		y = 100 + noise(10)
		return y + noise(1), y + noise(8), y
	}); mix > 1.05*good {
		t.Errorf("one good, one bad: error %.3f, of the good one %.3f, of the bad one %.3f", mix, good, bad)
	}
	mix, one, two := play(n, 50, func(i int) (a, b, y float64) {
		y = 100 + noise(10)
		a, b = y+noise(1), y+noise(8)
		if i >= n/2 {
			a, b = b, a
		}
		return a, b, y
	})
	if mix > .5*min(one, two) {
		t.Errorf("the better one changes: error %.3f, of either %.3f and %.3f", mix, one, two)
	}
	if mix, one, two := play(n, 50, func(int) (a, b, y float64) {
		y = 100
		e := noise(5)
		return y + e + noise(1), y - e + noise(1), y
	}); mix > .35*min(one, two) {
		t.Errorf("errors that cancel: error %.3f, of either %.3f and %.3f", mix, one, two)
	}
}

// With rare crowds the expert that follows them has the weight, although another one is
// slightly better the rest of the time.
func TestMixtureFollowsRareCrowds(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 23))
	mix, quick, calm := play(3000, 50, func(i int) (a, b, y float64) {
		y = 100 + 5*r.NormFloat64()
		a, b = y+5*r.NormFloat64(), y+4*r.NormFloat64()
		if i%300 >= 290 {
			y *= 8
			a *= 8
		}
		return a, b, y
	})
	if mix > 2*quick {
		t.Errorf("error %.2f, of the one that follows crowds %.2f, of the other %.2f", mix, quick, calm)
	}
}

// An expert without a forecast has no weight, and gains none by good forecasts of others: a
// bad one is still bad after a long pause, and one that never made a forecast ranks like the
// last value.
func TestSilentGainNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(37, 37))
	const bad, late = 2, 3
	m := newMixer(expertsN, 50)
	say := func(i int) (p promise) {
		for k := range p.experts {
			p.experts[k] = math.NaN()
		}
		p.c = .01
		p.experts[expertLast], p.experts[1] = 100+20*r.NormFloat64(), 100+3*r.NormFloat64()
		if i < 300 || i > 1500 {
			p.experts[bad] = 100 + 12*r.NormFloat64()
		}
		if i > 1500 {
			p.experts[late] = 100
		}
		p.mix = m.blend(p.experts[:], &p.ways)
		return p
	}
	shares := func(p *promise) (of [expertsN]float64) { return m.shares(p.experts[:], &p.ways) }
	var before [expertsN]float64
	for i := range 1501 {
		p := say(i)
		m.stack.solve(stackSteps, p.experts[:])
		if i == 299 {
			before = shares(&p)
		}
		silent := 0.0
		for k, w := range m.stack.w {
			if f := p.experts[k]; f != f {
				silent += w
			}
		}
		if silent > 0 {
			t.Fatalf("after %d: %.2f of the stack's weight sits on those who say nothing", i, silent)
		}
		m.learn(100, &p)
	}
	p := say(1501)
	if w := shares(&p); w[bad] > before[bad]+.01 || w[late] > w[1] {
		t.Errorf("woken, the bad one has %.3f, had %.3f; the new one has %.3f, the good one %.3f", w[bad], before[bad],
			w[late], w[1])
	}
}

// Worse experts have less weight, and the less the longer losses are remembered.
func TestRankingWeighs(t *testing.T) {
	for _, c := range []struct{ halfLife, ratio float64 }{{600, math.Exp(-2)}, {sharpFrom, math.Exp(-2)},
		{sharpFrom / 16, math.Exp(-.5)}} {
		r := newRanking(3, c.halfLife)
		r.learn([]float64{1, 1.05, .5})
		w := make([]float64, 3)
		r.weigh(w, []float64{7, 8, math.NaN()})
		if math.Abs(w[1]/w[0]-c.ratio) > 1e-9 || w[2] != 0 || math.Abs(w[0]+w[1]-1) > 1e-9 {
			t.Errorf("half-life %g: weights %v, want the second %.3f of the first and none for who knows nothing",
				c.halfLife, w, c.ratio)
		}
	}
}

// With the short memory of hourly slots the mixture still learns which expert is better, if
// both err to the same side.
func TestMixtureRemembersLong(t *testing.T) {
	r := rand.New(rand.NewPCG(29, 29))
	mix, good, bad := play(1500, 11, func(int) (a, b, y float64) {
		e := r.NormFloat64()
		return 100 + e*math.Exp(.8*r.NormFloat64()), 100 + 1.4*e*math.Exp(.8*r.NormFloat64()), 100
	})
	if mix > 1.03*good {
		t.Errorf("error %.3f, of the better one %.3f, of the other %.3f", mix, good, bad)
	}
}
