package pace

import (
	"math/bits"
	"math/rand/v2"

	"weir/loadgen/profile"
)

// A Process is the distribution of arrivals along the cumulative rate.
type Process uint8

const (
	Uniform Process = iota // evenly spaced: arrival k is at k + ½
	// Poisson arrivals are independent of each other, like those of many users: the gaps
	// are exponential with a mean of one arrival.
	Poisson
)

// String returns the name used in configurations.
func (p Process) String() string { return [...]string{"uniform", "poisson"}[p] }

// arrivalStream separates the random numbers for gaps from others with the same seed.
const arrivalStream = 0x61727269

// A walk moves along the arrivals of the whole schedule. It is a value: a copy continues
// from the same place.
type walk struct {
	process Process
	index   uint64        // of the arrival
	at      profile.Count // where it stands
	source  rand.PCG
}

func newWalk(process Process, seed int64) walk {
	w := walk{process: process, at: profile.Half, source: *rand.NewPCG(uint64(seed), arrivalStream)}
	if process == Poisson {
		w.at = exponential(&w.source)
	}
	return w
}

func (w *walk) step(n uint64) {
	w.index += n
	if w.process == Uniform {
		w.at += profile.Arrivals(n)
		return
	}
	for range n {
		w.at += exponential(&w.source)
	}
}

// seek moves by strides until it is at limit or beyond, and returns the number of
// strides.
func (w *walk) seek(limit profile.Count, stride uint64) (strides uint64) {
	if w.process == Uniform {
		if w.at < limit {
			width := profile.Arrivals(stride)
			strides = uint64((limit - w.at + width - 1) / width)
			w.step(strides * stride)
		}
		return strides
	}
	for w.at < limit {
		w.step(stride)
		strides++
	}
	return strides
}

// ln2 is the natural logarithm of 2 in units of 2⁻⁶⁴.
const ln2 = 0xb17217f7d1cf79ab

// series holds ln2 + ln2²/2! + … + ln2ᵏ/k! for k from 2, in units of 2⁻⁶⁴: the
// probabilities that the minimum of fewer than k numbers is sufficient.
var series = [...]uint64{
	0xeef193f6d75a96fc, 0xfd27186259aaf6c2, 0xff9d6dd050f4c5a7, 0xfff4cfcfef1e626b,
	0xfffee81886e1c62f, 0xffffe7fe850e0bb5, 0xfffffe2a8731b17d, 0xffffffdfac6eeadc,
	0xfffffffdf9640067, 0xffffffffe22ec79c, 0xfffffffffe6a9ded, 0xffffffffffebff81,
	0xffffffffffff1417, 0xfffffffffffff5ce, 0xffffffffffffff95, 0xfffffffffffffffb,
}

// exponential draws a number with the density e⁻ˣ. It uses Knuth's algorithm S (The Art
// of Computer Programming 3.4.1, after M. Sibuya and J. H. Ahrens and U. Dieter): the
// number of halvings that a uniform number survives gives the multiple of ln 2, the
// minimum of a few uniform numbers the rest. It uses integers only, so that every machine
// draws the same numbers.
func exponential(source *rand.PCG) profile.Count {
	u := source.Uint64()
	halvings := uint64(bits.LeadingZeros64(u))
	u <<= halvings + 1
	var rest uint64 // in units of 2⁻⁶⁴
	if u < ln2 {
		rest = u
	} else {
		least := min(source.Uint64(), source.Uint64())
		for _, q := range series {
			if u < q {
				break
			}
			least = min(least, source.Uint64())
		}
		rest, _ = bits.Mul64(least, ln2)
	}
	hi, lo := bits.Mul64(halvings, ln2)
	lo, carry := bits.Add64(lo, rest, 0)
	hi += carry
	lo, carry = bits.Add64(lo, 1<<43, 0) // to the nearest Count
	hi += carry
	return profile.Count(hi<<20 | lo>>44)
}
