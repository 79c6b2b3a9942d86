package profile

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"
)

// An amount is reached before t also when Λ(t) is above it by less than a grain.
func TestLessThanAGrain(t *testing.T) {
	const length = 1 << 35 // more nanoseconds than a Count has grains
	var b builder
	b.even(length, length+1)
	p := Profile{pieces: b.finish()}
	if at, before := p.Inverse(1), p.Before(1); at != 0 || before != 2 {
		t.Errorf("one unit is reached at %d ns, and those below %d before 1 ns; want 0 and 2", at, before)
	}
}

// Within a piece both directions are the exact quotients rounded down, compared
// with numbers of any size.
func TestPiecesAreExact(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	number := func(w wide) *big.Int {
		v := new(big.Int).SetUint64(w.hi)
		return v.Lsh(v, 64).Add(v, new(big.Int).SetUint64(w.lo))
	}
	random := func(bits uint) uint64 { return r.Uint64N(1<<(1+r.UintN(bits))) + 1 }
	for range 20_000 {
		var b builder
		from, to := min(random(43), RateMax*micros), min(random(43), RateMax*micros)
		switch r.UintN(6) {
		case 0:
			from = 0
		case 1:
			to = 0
		case 2:
			to = from
		}
		length := time.Duration(random(49))
		if r.UintN(5) == 0 {
			b.even(length, Count(random(60)))
		} else {
			b.slope(length, from, to)
		}
		p := Profile{pieces: b.finish()}
		s := p.stretch(0)
		tau := r.Uint64N(s.length + 1)

		// Λ(τ)·d, by the formula of type piece
		d, x := new(big.Int).SetUint64(s.length), new(big.Int).SetUint64(tau)
		exact := new(big.Int).Mul(number(s.amount), x)
		if s.from|s.to > 0 {
			exact.Mul(big.NewInt(32*int64(s.from)), x)
			exact.Mul(exact, d)
			bent := new(big.Int).Mul(big.NewInt(16*(int64(s.to)-int64(s.from))), x)
			exact.Add(exact, bent.Mul(bent, x))
		}
		got, more := s.scaled(tau).div(s.length)
		q, rest := new(big.Int).DivMod(exact, d, new(big.Int))
		if number(got).Cmp(q) != 0 || (more > 0) != (rest.Sign() > 0) {
			t.Fatalf("%+v: %d grains at %d ns, want %d and a rest of %d", s, number(got), tau, q, rest)
		}
		if got.zero() {
			continue
		}
		// The last τ at which no more than got is reached.
		when := s.when(got)
		beyond := func(tau uint64) bool { // Λ(τ) > got
			w := s.scaled(tau)
			v := new(big.Int).SetUint64(w[0])
			v.Lsh(v, 128).Add(v, number(w.narrow()))
			return v.Cmp(new(big.Int).Mul(number(got), d)) > 0
		}
		if beyond(when) || when < s.length && !beyond(when+1) {
			t.Fatalf("%+v: %d grains are reached at %d ns, which is not the last nanosecond before", s, number(got), when)
		}
	}
}

func TestWideDivision(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 20_000 {
		b := wide{r.Uint64() >> (14 + r.UintN(60)), r.Uint64()}
		q := r.Uint64() >> (30 + r.UintN(34))
		if b.hi > 0 && q > 1<<13 {
			q >>= 40
		}
		rest := r.Uint64N(max(b.lo, 1))
		a := b.times(q).narrow().plus(wide{0, rest})
		if b.zero() {
			continue
		}
		if got := a.over(b); got != q {
			t.Fatalf("%v goes into %v %d times, want %d", b, a, got, q)
		}
	}
	if got := (wide{5, 0}).over(wide{0, 3}); got != math.MaxUint64 {
		t.Errorf("a quotient beyond 64 bits is %d, want the greatest", got)
	}
}
