package profile

import (
	"math/bits"
	"time"
)

// A Sinusoid oscillates between two rates:
//
//	rps(t) = (MinRps + MaxRps)/2 + (MaxRps − MinRps)/2 · sin(2πt/Period)
type Sinusoid struct {
	MinRps, MaxRps float64
	Period         float64 // seconds
}

// The sine is drawn with n chords per period. With h = 2π/n, the trapezoids
// under the chords of the sine itself add up to
//
//	(h/2)·cot(h/2) · ∫ sin
//
// up to every vertex. So the vertices are set at A·f·sin with f =
// tan(h/2)/(h/2): then the amount is right at every vertex, and in between off
// by less than A·h²/12 · period/n. n is chosen so that this is less than a
// hundredth of an arrival; the rate differs by less than a millionth of the
// amplitude. The crest would stand out by A·(f−1); it is put at A, which costs
// less than as much again, and only up to the trough, which mirrors it: each
// period yields exactly its mean.
const (
	chordsMin = 2048
	chordsMax = 1 << 16
)

// NewSinusoid returns the profile of s.
func NewSinusoid(s Sinusoid) (*Profile, error) {
	var c checker
	low, high := c.restingRate("minRps", s.MinRps), c.rate("maxRps", s.MaxRps)
	period := c.span("period", s.Period)
	c.Check(c.Count() == 0 && low > high, "minRps", "must not be above maxRps (%g), is %g", s.MaxRps, s.MinRps)
	if err := c.Err(); err != nil {
		return nil, err
	}
	amplitude := (high - low) / 2
	mean := low + amplitude
	quarter := quarterSine(amplitude, chordsOf(amplitude, period)/4)
	chords := 4 * (len(quarter) - 1)
	at := func(k int) uint64 { // the rate at vertex k
		q, r := k/(len(quarter)-1), k%(len(quarter)-1)
		if q%2 == 1 {
			r = len(quarter) - 1 - r
		}
		if q%4 >= 2 {
			return mean - quarter[r]
		}
		return mean + quarter[r]
	}
	period = period / 2 * 2 // both halves are cut up in the same way
	var b builder
	for k := range chords {
		b.slope(time.Duration(fraction(uint64(period), k+1, chords))-b.at, at(k), at(k+1))
	}
	return c.done(&Profile{
		text:   describe("sinusoidal", "minRps", s.MinRps, "maxRps", s.MaxRps),
		pieces: b.finish(), repeat: true, most: s.MaxRps,
		peaks: []Peak{{period / 8, period / 8 * 3, s.MaxRps}},
	})
}

// fraction returns whole·k/n, rounded down.
func fraction(whole uint64, k, n int) uint64 {
	q, _ := product(whole, uint64(k)).div(uint64(n))
	return q.lo
}

// chordsOf returns the number of chords, a power of two.
func chordsOf(amplitude uint64, period time.Duration) int {
	n := chordsMin
	// (2π)²/12 < 3.3; a hundredth of an arrival
	swing := float64(amplitude) / micros * period.Seconds()
	for n < chordsMax && 3.3*swing/(float64(n)*float64(n)*float64(n)) > 0.01 {
		n *= 2
	}
	return n
}

// quarterSine returns n+1 values from 0 to amplitude, as described above.
func quarterSine(amplitude uint64, n int) []uint64 {
	const one = 1 << 62
	const halfPi = 0x6487ed5110b4611a // π/2 · 2⁶²
	// With y = h/2 = π/2 / 2n: tan(y)/y = 1 + y²/3 + 2y⁴/15 + …
	y := uint64(halfPi) / uint64(2*n)
	y2 := mul(y, y)
	factor := one + y2/3 + mul(y2, y2)*2/15

	values := make([]uint64, n+1)
	for k := range values {
		height := mul(sine(fraction(halfPi, k, n)), factor)
		hi, lo := bits.Mul64(amplitude, height)
		lo, carry := bits.Add64(lo, one/2, 0)
		values[k] = (hi+carry)<<2 | lo>>62
	}
	values[n] = amplitude
	return values
}

// mul returns a·b, all in units of 2⁻⁶².
func mul(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi<<2 | lo>>62
}

// sine returns sin(x) for x up to π/2, both in units of 2⁻⁶², by its power series.
func sine(x uint64) uint64 {
	x2 := mul(x, x)
	term, s := x, x
	for i := uint64(2); term > 0; i += 2 {
		term = mul(term, x2) / (i * (i + 1))
		if i%4 == 2 {
			s -= term
		} else {
			s += term
		}
	}
	return s
}
