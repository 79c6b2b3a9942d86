// Package profile describes how the rate of a load test changes over time.
//
// A profile is thought of as its cumulative rate Λ(t): how many arrivals the
// shape wants in the first t of the run. Everything else follows from it. The
// rate is its slope; arrival number k (from 0) is due where Λ passes k + ½,
// that is at Λ⁻¹(k + ½), so that the first arrival of a steady rate comes half
// a gap after the start and the last one half a gap before the end; random
// arrivals are due at Λ⁻¹ of random amounts. A profile therefore offers three
// functions: Rate, Cumulative (Λ) and Inverse (Λ⁻¹).
//
// Amounts of arrivals are whole numbers (Count), rates whole millionths per
// second, and times whole nanoseconds. The arithmetic between them is exact:
// no error gathers however long a run is, and every machine computes the same
// schedule.
//
// There is one shape so far, the constant one.
package profile

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"time"
)

// A Count is an amount of arrivals in units of 2⁻²⁰ arrival. The fraction
// leaves room for arrivals at halves and at random amounts; 2⁴³ whole arrivals
// fit.
type Count uint64

const (
	countBits = 20

	// One is a single arrival.
	One Count = 1 << countBits
	// Half is where within its own arrival a uniform arrival stands.
	Half = One / 2
)

// Arrivals returns n whole arrivals.
func Arrivals(n uint64) Count { return Count(n) << countBits }

// The bounds of a rate, in arrivals per second.
const (
	RateMin = 0.001
	RateMax = 10_000_000
)

// micros is the number of rate units in one arrival per second.
const micros = 1_000_000

// ErrRate says that a rate is out of bounds.
var ErrRate = errors.New("must be a number from 0.001 to 10000000")

// A Constant is the profile of one steady rate r: Λ(t) = r·t.
//
// Immutable after NewConstant.
type Constant struct {
	rate uint64 // millionths of an arrival per second
}

// NewConstant returns the profile of rps arrivals per second, rounded to
// millionths. A rate out of bounds is ErrRate.
func NewConstant(rps float64) (Constant, error) {
	if !(rps >= RateMin && rps <= RateMax) { // NaN is neither
		return Constant{}, ErrRate
	}
	return Constant{rate: uint64(math.Round(rps * micros))}, nil
}

// Rate is the rate at t in arrivals per second.
func (c Constant) Rate(time.Duration) float64 { return float64(c.rate) / micros }

// RateMax is the highest rate that the profile reaches, in arrivals per second.
func (c Constant) RateMax() float64 { return c.Rate(0) }

// Between a Count s, a rate u in millionths per second and a time t in
// nanoseconds
//
//	s / 2²⁰ = u / 10⁶ · t / 10⁹   ⟺   t = s · 5¹⁵ / (2⁵ · u)
//
// since 10¹⁵ / 2²⁰ = 5¹⁵ / 2⁵.
const (
	five15 = 30_517_578_125
	two5   = 32
)

// Cumulative is Λ(t), rounded down to a Count. It is 0 before the start.
func (c Constant) Cumulative(t time.Duration) Count {
	if t <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(t), c.rate*two5)
	if hi >= five15 {
		return math.MaxUint64
	}
	q, _ := bits.Div64(hi, lo, five15)
	return Count(q)
}

// Inverse is Λ⁻¹(s): when the amount s of arrivals is reached, rounded down to
// a nanosecond. Amounts that are reached after some 292 years are never
// reached; they give the greatest Duration.
func (c Constant) Inverse(s Count) time.Duration {
	hi, lo := bits.Mul64(uint64(s), five15)
	u := c.rate * two5
	if hi >= u {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, u)
	return time.Duration(min(q, math.MaxInt64))
}

// String is the profile as the log shows it: "constant (rps=100)".
func (c Constant) String() string {
	return fmt.Sprintf("constant (rps=%s)", strconv.FormatFloat(c.Rate(0), 'f', -1, 64))
}
