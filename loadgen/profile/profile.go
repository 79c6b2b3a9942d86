// Package profile describes how the rate of a load test changes over time.
//
// A profile is defined by its cumulative rate Λ(t): the number of arrivals in the first t
// of the run. The rate is its slope. Arrival k (from 0) is due where Λ passes k + ½, that
// is at Λ⁻¹(k + ½), so the first arrival of a constant rate comes half a gap after the
// start and the last one half a gap before the end. Random arrivals are due at Λ⁻¹ of
// random amounts.
//
// Every shape is a sequence of pieces with a linear rate, which may repeat; so Λ consists
// of parabolas. A sine is approximated by so many of them that the difference is
// negligible (see sine.go).
//
// Amounts of arrivals are integers (Count), rates integer millionths per second, and
// times integer nanoseconds. The arithmetic is exact: no error accumulates however long a
// run is, and every machine computes the same schedule. Floating point is used only for
// guesses that integers then correct.
package profile

import (
	"encoding/binary"
	"math"
	"slices"
	"sort"
	"time"
)

// A Count is an amount of arrivals in units of 2⁻²⁰ arrival. The fraction leaves room for
// arrivals at halves and at random amounts; up to 2⁴³ whole arrivals fit.
type Count uint64

const (
	countBits = 20

	One  Count = 1 << countBits // a single arrival
	Half       = One / 2        // the position of a uniform arrival within its unit
)

// Arrivals returns n whole arrivals.
func Arrivals(n uint64) Count { return Count(n) << countBits }

// Float returns c in arrivals.
func (c Count) Float() float64 { return float64(c) / float64(One) }

const (
	micros = 1_000_000     // rate units in one arrival per second
	nanos  = 1_000_000_000 // nanoseconds in a second
)

// A Profile is the shape of a rate.
//
// Immutable after New….
type Profile struct {
	text   string
	pieces []piece // the last one only marks the end
	repeat bool    // the pieces are one period
	tail   uint64  // rate after the pieces if they are not; millionths per second
	most   float64 // highest rate, in arrivals per second
	listed bool    // the pieces lie between single arrivals
	peaks  []Peak  // by start; those of one period if there are periods
}

// String returns the profile as in the log: "constant (rps=100)".
func (p *Profile) String() string { return p.text }

// RateMax returns the highest rate of the profile, in arrivals per second.
func (p *Profile) RateMax() float64 { return p.most }

// Rate returns the rate at t in arrivals per second. For a profile of single arrivals it
// is that of the second around t.
func (p *Profile) Rate(t time.Duration) float64 {
	if p.listed {
		from := max(0, t-time.Second/2)
		return (p.Cumulative(from+time.Second) - p.Cumulative(from)).Float()
	}
	_, s, tau := p.find(max(t, 0))
	if s.length == 0 {
		return float64(p.tail) / micros
	}
	return s.rate(tau)
}

// Cumulative returns Λ(t), rounded down to a Count. It is 0 before the start.
func (p *Profile) Cumulative(t time.Duration) Count {
	grains, _ := p.reached(t)
	c, _ := p.count(grains)
	return c
}

// Before returns the bound of the amounts reached before t: Inverse(s) < t exactly if s <
// Before(t).
func (p *Profile) Before(t time.Duration) Count {
	if t <= 0 {
		return 0
	}
	grains, more := p.reached(t)
	c, exact := p.count(grains)
	// Where Λ rises up to t, the amount Λ(t) is reached at t and not before;
	// where it is flat it was reached before.
	if more || !exact || !p.risesTo(t) {
		return c + 1
	}
	return c
}

// count returns grains as a Count, rounded down, and whether that is exact. If they are
// too many it returns the greatest Count but one.
func (p *Profile) count(grains wide) (c Count, exact bool) {
	q, r := grains.div(grainsPerCount)
	if q.hi > 0 || q.lo == math.MaxUint64 {
		return math.MaxUint64 - 1, true
	}
	return Count(q.lo), r == 0
}

// Inverse returns Λ⁻¹(s): when the amount s of arrivals is first reached, rounded down to
// a nanosecond. Amounts that are never reached, or after some 292 years, give the
// greatest Duration.
func (p *Profile) Inverse(s Count) time.Duration {
	if s == 0 {
		return 0
	}
	grains := product(uint64(s), grainsPerCount)
	end := p.end()
	if p.repeat {
		// Whole periods belong to the period that completes them.
		laps := grains.minus(wide{0, 1}).over(end.base)
		past := product(laps, uint64(end.start))
		if past.hi > 0 {
			return math.MaxInt64
		}
		return sum(past.lo, p.within(grains.minus(end.base.times(laps).narrow())))
	}
	if !end.base.less(grains) {
		return sum(0, p.within(grains))
	}
	if p.tail == 0 {
		return math.MaxInt64
	}
	q, _ := grains.minus(end.base).div(p.tail * grainsPerFlow)
	if q.hi > 0 {
		return math.MaxInt64
	}
	return sum(uint64(end.start), q.lo)
}

// within returns when the pieces first reach grains, which must be possible and not 0.
func (p *Profile) within(grains wide) uint64 {
	i := sort.Search(len(p.pieces)-2, func(i int) bool { return !p.pieces[i+1].base.less(grains) })
	s := p.stretch(i)
	return uint64(s.start) + s.when(grains.minus(s.base))
}

// reached returns Λ(t) in grains, rounded down, and whether that is less than Λ(t).
func (p *Profile) reached(t time.Duration) (wide, bool) {
	if t <= 0 {
		return wide{}, false
	}
	before, s, tau := p.find(t)
	if s.length == 0 {
		return before.plus(product(tau, p.tail*grainsPerFlow)), false
	}
	grains, rest := s.scaled(tau).div(s.length)
	return before.plus(grains), rest > 0
}

// risesTo reports whether the rate is above zero just before t.
func (p *Profile) risesTo(t time.Duration) bool {
	_, s, _ := p.find(t - 1)
	if s.length == 0 {
		return p.tail > 0
	}
	return !s.amount.zero()
}

// find returns the stretch that contains t, the amount reached before it, and the
// position of t in it. After the last piece the stretch is empty, and both count from
// there.
func (p *Profile) find(t time.Duration) (before wide, s stretch, tau uint64) {
	end := p.end()
	if p.repeat {
		laps := uint64(t / end.start)
		before = end.base.times(laps).narrow()
		t %= end.start
	} else if t >= end.start {
		return end.base, stretch{}, uint64(t - end.start)
	}
	i := sort.Search(len(p.pieces)-1, func(i int) bool { return p.pieces[i+1].start > t })
	s = p.stretch(i)
	return before.plus(s.base), s, uint64(t - s.start)
}

func (p *Profile) end() *piece { return &p.pieces[len(p.pieces)-1] }

func (p *Profile) stretch(i int) stretch {
	next := &p.pieces[i+1]
	s := stretch{piece: p.pieces[i]}
	s.length = uint64(next.start - s.start)
	s.amount = next.base.minus(s.base)
	return s
}

// AppendShape appends bytes that are equal for two profiles exactly if their rates are
// equal at all times and made in the same way.
func (p *Profile) AppendShape(b []byte) []byte {
	b = slices.Grow(b, 16+40*len(p.pieces))
	for i := range p.pieces {
		piece := &p.pieces[i]
		for _, v := range [...]uint64{uint64(piece.start), piece.base.hi, piece.base.lo, piece.from, piece.to} {
			b = binary.BigEndian.AppendUint64(b, v)
		}
	}
	b = binary.BigEndian.AppendUint64(b, p.tail)
	return binary.BigEndian.AppendUint64(b, boolean(p.repeat))
}

func boolean(v bool) uint64 {
	if v {
		return 1
	}
	return 0
}
