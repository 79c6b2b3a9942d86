package profile

import (
	"math"
	"math/bits"
)

// A wide is an unsigned number of 128 bits.
type wide struct{ hi, lo uint64 }

// A wider is an unsigned number of 192 bits, the most significant word first.
type wider [3]uint64

func product(a, b uint64) wide {
	hi, lo := bits.Mul64(a, b)
	return wide{hi, lo}
}

func (a wide) plus(b wide) wide {
	lo, carry := bits.Add64(a.lo, b.lo, 0)
	hi, _ := bits.Add64(a.hi, b.hi, carry)
	return wide{hi, lo}
}

// minus returns a−b. b must not exceed a.
func (a wide) minus(b wide) wide {
	lo, borrow := bits.Sub64(a.lo, b.lo, 0)
	hi, _ := bits.Sub64(a.hi, b.hi, borrow)
	return wide{hi, lo}
}

func (a wide) less(b wide) bool { return a.hi < b.hi || a.hi == b.hi && a.lo < b.lo }

func (a wide) zero() bool { return a.hi|a.lo == 0 }

func (a wide) float() float64 { return float64(a.hi)*(1<<64) + float64(a.lo) }

func (a wide) times(m uint64) wider {
	h1, l1 := bits.Mul64(a.hi, m)
	h0, l0 := bits.Mul64(a.lo, m)
	mid, carry := bits.Add64(l1, h0, 0)
	return wider{h1 + carry, mid, l0}
}

// div returns the quotient a/m, rounded down, and the remainder.
func (a wide) div(m uint64) (wide, uint64) {
	hi, r := bits.Div64(0, a.hi, m)
	lo, r := bits.Div64(r, a.lo, m)
	return wide{hi, lo}, r
}

// over returns the quotient a/b, rounded down, at most 2⁶⁴−1. b must not be zero.
func (a wide) over(b wide) uint64 {
	if b.hi == 0 {
		q, _ := a.div(b.lo)
		if q.hi > 0 {
			return math.MaxUint64
		}
		return q.lo
	}
	q := uint64(a.float() / b.float())
	for q > 0 && a.less(b.times(q).narrow()) {
		q--
	}
	for !a.less(b.times(q + 1).narrow()) {
		q++
	}
	return q
}

// narrow returns a without its first word, which must be zero.
func (a wider) narrow() wide { return wide{a[1], a[2]} }

func (a wider) less(b wider) bool {
	if a[0] != b[0] {
		return a[0] < b[0]
	}
	return wide{a[1], a[2]}.less(wide{b[1], b[2]})
}

// div returns the quotient a/m, rounded down, and the remainder. The quotient must fit.
func (a wider) div(m uint64) (wide, uint64) {
	_, r := bits.Div64(0, a[0], m)
	hi, r := bits.Div64(r, a[1], m)
	lo, r := bits.Div64(r, a[2], m)
	return wide{hi, lo}, r
}
