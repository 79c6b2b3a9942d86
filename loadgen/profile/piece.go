package profile

import (
	"math"
	"math/bits"
	"time"
)

// Amounts within a profile are counted in grains. A grain is so small that both
// a Count and what a whole rate yields in a whole number of nanoseconds are
// whole numbers of grains:
//
//	1 arrival = 2²⁰ · 5¹⁵ grains = 2⁵ · 10¹⁵ grains
//	1 Count   = 5¹⁵ grains
//	1 millionth of an arrival per second, for 1 ns = 2⁵ grains
const (
	grainsPerCount   = 30_517_578_125 // 5¹⁵
	grainsPerArrival = grainsPerCount << countBits
	grainsPerFlow    = 32 // of a millionth per second in a nanosecond
)

// A piece is a part of a profile, up to the start of the next piece, in which the rate is
// linear. With d the length of the piece, in grains
//
//	Λ(τ) = 32·from·τ + 16·(to − from)·τ²/d     Λ(d) = 16·(from + to)·d
//
// is the amount up to τ. The whole piece is a whole number of grains, so that
// amounts of pieces add up without rounding.
//
// A piece whose amount was given rather than its rate has from and to zero; the
// amount is spread evenly.
type piece struct {
	start    time.Duration
	base     wide   // amount before the start, in grains
	from, to uint64 // rates, in millionths of an arrival per second
}

// A stretch is a piece together with where it ends.
type stretch struct {
	piece
	length uint64 // in nanoseconds
	amount wide   // in grains
}

// scaled returns Λ(τ)·d, which is an integer.
func (s *stretch) scaled(tau uint64) wider {
	if s.from|s.to == 0 {
		return s.amount.times(tau)
	}
	// 32·from·τ·d + 16·(to − from)·τ² = 16·τ·(from·(2d − τ) + to·τ)
	rates := product(s.from, 2*s.length-tau).plus(product(s.to, tau))
	return rates.times(tau * (grainsPerFlow / 2))
}

// when returns the last nanosecond at which no more than r grains are reached. r must not
// exceed the amount, which must not be zero.
func (s *stretch) when(r wide) uint64 {
	if s.from == s.to && s.from > 0 {
		q, _ := r.div(s.from * grainsPerFlow)
		return q.lo
	}
	tau := s.guess(r)
	whole := r.times(s.length)
	for tau > 0 && whole.less(s.scaled(tau)) {
		tau--
	}
	for tau < s.length && !whole.less(s.scaled(tau+1)) {
		tau++
	}
	return tau
}

// guess returns when r grains are reached, to within a few nanoseconds. It solves a
// quadratic equation, in the form and from that end of the piece that avoid cancellation.
func (s *stretch) guess(r wide) uint64 {
	d := float64(s.length)
	if s.from|s.to == 0 {
		return clamp(r.float()/s.amount.float()*d, s.length)
	}
	low, high := float64(s.from), float64(s.to)
	falls := s.from > s.to
	if falls {
		r = s.amount.minus(r)
		low, high = high, low
	}
	if r.zero() {
		return boolean(falls) * s.length
	}
	x := r.float() / grainsPerFlow
	tau := clamp(2*x/(low+math.Sqrt(low*low+2*(high-low)*x/d)), s.length)
	if falls {
		return s.length - tau
	}
	return tau
}

// clamp returns v as an integer number of nanoseconds from 0 to most.
func clamp(v float64, most uint64) uint64 {
	if !(v > 0) {
		return 0
	}
	return min(uint64(min(v, math.MaxInt64)), most)
}

// rate returns the rate at τ in arrivals per second.
func (s *stretch) rate(tau uint64) float64 {
	if s.from|s.to == 0 {
		return s.amount.float() / grainsPerArrival / (float64(s.length) / nanos)
	}
	from, to := float64(s.from), float64(s.to)
	return (from + (to-from)*(float64(tau)/float64(s.length))) / micros
}

// A builder appends pieces to a profile.
type builder struct {
	pieces []piece
	at     time.Duration
	base   wide
}

// slope appends a piece of the given length in which the rate changes linearly.
func (b *builder) slope(length time.Duration, from, to uint64) {
	if length <= 0 {
		return
	}
	b.pieces = append(b.pieces, piece{start: b.at, base: b.base, from: from, to: to})
	b.at += length
	b.base = b.base.plus(product(uint64(length)*(grainsPerFlow/2), from+to))
}

// even appends a piece of the given length with the given amount.
func (b *builder) even(length time.Duration, amount Count) {
	b.pieces = append(b.pieces, piece{start: b.at, base: b.base})
	b.at += length
	b.base = b.base.plus(product(uint64(amount), grainsPerCount))
}

// finish returns the pieces, followed by a mark at their end.
func (b *builder) finish() []piece {
	return append(b.pieces, piece{start: b.at, base: b.base})
}

// sum returns a+b, or the greatest Duration if that is exceeded.
func sum(a, b uint64) time.Duration {
	s, carry := bits.Add64(a, b, 0)
	if carry > 0 {
		return math.MaxInt64
	}
	return time.Duration(min(s, math.MaxInt64))
}
