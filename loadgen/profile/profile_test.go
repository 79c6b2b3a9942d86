package profile

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"
)

func ExampleConstant() {
	steady, err := NewConstant(4)
	if err != nil {
		panic(err)
	}
	for k := range uint64(3) {
		fmt.Println(steady.Inverse(Arrivals(k) + Half))
	}
	fmt.Println(steady)
	// Output:
	// 125ms
	// 375ms
	// 625ms
	// constant (rps=4)
}

func TestNewConstantBounds(t *testing.T) {
	for _, c := range []struct {
		rps  float64
		good bool
	}{
		{RateMin, true},
		{RateMax, true},
		{33.333333, true},
		{RateMin / 2, false},
		{RateMax + 1, false},
		{0, false},
		{-1, false},
		{math.NaN(), false},
		{math.Inf(1), false},
	} {
		_, err := NewConstant(c.rps)
		if (err == nil) != c.good {
			t.Errorf("NewConstant(%v): error %v, want good=%v", c.rps, err, c.good)
		}
	}
}

func TestConstantGolden(t *testing.T) {
	for _, c := range []struct {
		rps  float64
		at   Count
		want time.Duration
	}{
		{1, 0, 0},
		{1, Half, 500 * time.Millisecond},
		{1, One, time.Second},
		{1000, Half, 500 * time.Microsecond},
		{1000, Arrivals(1_000_000_000) + Half, 1_000_000*time.Second + 500*time.Microsecond},
		{3, Arrivals(1), 333_333_333},
		{3, Arrivals(3_000_000_000), 1_000_000_000 * time.Second},
		{0.001, Half, 500 * time.Second},
		{RateMax, Half, 50},
		{RateMax, Arrivals(1_000_000_000) + Half, 100*time.Second + 50},
		{RateMin, math.MaxUint64, math.MaxInt64},
	} {
		p := must(t, c.rps)
		if got := p.Inverse(c.at); got != c.want {
			t.Errorf("Λ⁻¹ of %d units at %v/s is %d ns, want %d ns", c.at, c.rps, got, c.want)
		}
	}
}

// Both directions are the exact quotient rounded down, compared with numbers
// of any size.
func TestConstantIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		p := must(t, RateMin+math.Exp(r.Float64()*math.Log(RateMax/RateMin))*RateMin)
		s := Count(r.Uint64() >> (r.UintN(50)))
		d := time.Duration(r.Uint64() >> (1 + r.UintN(50)))

		den := new(big.Int).Mul(big.NewInt(two5), new(big.Int).SetUint64(p.rate))
		at := new(big.Int).Mul(new(big.Int).SetUint64(uint64(s)), big.NewInt(five15))
		at.Div(at, den)
		if want := least(at, math.MaxInt64); uint64(p.Inverse(s)) != want {
			t.Fatalf("Λ⁻¹(%d) at %v/s is %d ns, want %d ns", s, p.Rate(0), p.Inverse(s), want)
		}
		n := new(big.Int).Mul(big.NewInt(int64(d)), den)
		n.Div(n, big.NewInt(five15))
		if want := least(n, math.MaxUint64); uint64(p.Cumulative(d)) != want {
			t.Fatalf("Λ(%d ns) at %v/s is %d units, want %d", d, p.Rate(0), p.Cumulative(d), want)
		}
	}
}

// Inverse and Cumulative undo each other up to their rounding: the amount
// reached at the moment when s is reached is not more than s.
func TestInverseUndoesCumulative(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		p := must(t, RateMin+r.Float64()*1000)
		s := Count(r.Uint64N(1 << 50))
		at := p.Inverse(s)
		if at == math.MaxInt64 {
			continue
		}
		if got := p.Cumulative(at); got > s {
			t.Fatalf("at %v/s: Λ(Λ⁻¹(%d)) = %d, more than was asked for", p.Rate(0), s, got)
		}
		if got := p.Cumulative(at + 1); got < s {
			t.Fatalf("at %v/s: one nanosecond after Λ⁻¹(%d) only %d is reached", p.Rate(0), s, got)
		}
	}
}

func TestCumulativeBeforeTheStartIsZero(t *testing.T) {
	if got := must(t, 5).Cumulative(-time.Second); got != 0 {
		t.Errorf("Λ(-1s) = %d, want 0", got)
	}
}

func must(t testing.TB, rps float64) Constant {
	t.Helper()
	p, err := NewConstant(rps)
	if err != nil {
		t.Fatalf("profile of %v/s: %v", rps, err)
	}
	return p
}

func least(v *big.Int, top uint64) uint64 {
	if !v.IsUint64() || v.Uint64() > top {
		return top
	}
	return v.Uint64()
}

func BenchmarkInverse(b *testing.B) {
	p := must(b, 12_345.678)
	var k uint64
	for b.Loop() {
		k++
		p.Inverse(Arrivals(k) + Half)
	}
}
