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

func (w wide) plus(b wide) wide {
	lo, carry := bits.Add64(w.lo, b.lo, 0)
	hi, _ := bits.Add64(w.hi, b.hi, carry)
	return wide{hi, lo}
}

// minus returns a−b. b must not exceed a.
func (w wide) minus(b wide) wide {
	lo, borrow := bits.Sub64(w.lo, b.lo, 0)
	hi, _ := bits.Sub64(w.hi, b.hi, borrow)
	return wide{hi, lo}
}

func (w wide) less(b wide) bool { return w.hi < b.hi || w.hi == b.hi && w.lo < b.lo }

func (w wide) zero() bool { return w.hi|w.lo == 0 }

func (w wide) float() float64 { return float64(w.hi)*(1<<64) + float64(w.lo) }

func (w wide) times(m uint64) wider {
	h1, l1 := bits.Mul64(w.hi, m)
	h0, l0 := bits.Mul64(w.lo, m)
	mid, carry := bits.Add64(l1, h0, 0)
	return wider{h1 + carry, mid, l0}
}

// div returns the quotient a/m, rounded down, and the remainder.
func (w wide) div(m uint64) (wide, uint64) {
	hi, r := bits.Div64(0, w.hi, m)
	lo, r := bits.Div64(r, w.lo, m)
	return wide{hi, lo}, r
}

// over returns the quotient a/b, rounded down, at most 2⁶⁴−1. b must not be zero.
func (w wide) over(b wide) uint64 {
	if b.hi == 0 {
		q, _ := w.div(b.lo)
		if q.hi > 0 {
			return math.MaxUint64
		}
		return q.lo
	}
	q := uint64(w.float() / b.float())
	for q > 0 && w.less(b.times(q).narrow()) {
		q--
	}
	for !w.less(b.times(q + 1).narrow()) {
		q++
	}
	return q
}

// narrow returns a without its first word, which must be zero.
func (w wider) narrow() wide { return wide{w[1], w[2]} }

func (w wider) less(b wider) bool {
	if w[0] != b[0] {
		return w[0] < b[0]
	}
	return wide{w[1], w[2]}.less(wide{b[1], b[2]})
}

// div returns the quotient a/m, rounded down, and the remainder. The quotient must fit.
func (w wider) div(m uint64) (wide, uint64) {
	_, r := bits.Div64(0, w[0], m)
	hi, r := bits.Div64(r, w[1], m)
	lo, r := bits.Div64(r, w[2], m)
	return wide{hi, lo}, r
}
