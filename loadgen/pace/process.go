package pace

import (
	"math/bits"
	"math/rand/v2"

	"weir/loadgen/profile"
)

// A Process says how arrivals lie along the cumulative rate: what is random
// about a schedule besides its rate.
type Process uint8

const (
	// Uniform arrivals are one arrival apart: k stands at k + ½.
	Uniform Process = iota
	// Poisson arrivals are independent of each other, as those of many users
	// are who do not know of each other: the gaps are exponential, of one
	// arrival on average.
	Poisson
)

// String is the process as configurations name it.
func (p Process) String() string { return [...]string{"uniform", "poisson"}[p] }

// arrivalStream keeps the draws for gaps apart from others with the same seed.
const arrivalStream = 0x61727269

// A walk goes along the arrivals of the whole schedule. It is a value: a copy
// goes on from where the original was.
type walk struct {
	process Process
	index   uint64        // of the arrival
	at      profile.Count // where it stands
	source  rand.PCG
}

// newWalk returns a walk that stands at arrival 0.
func newWalk(process Process, seed int64) walk {
	w := walk{process: process, at: profile.Half, source: *rand.NewPCG(uint64(seed), arrivalStream)}
	if process == Poisson {
		w.at = exponential(&w.source)
	}
	return w
}

// step goes n arrivals on.
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

// seek goes on by strides until it stands at limit or beyond, and returns how
// many strides that took.
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

// series holds ln2 + ln2²/2! + … + ln2ᵏ/k! from k = 2 on, in units of 2⁻⁶⁴: the
// probabilities that the least of fewer than k numbers will do.
var series = [...]uint64{
	0xeef193f6d75a96fc, 0xfd27186259aaf6c2, 0xff9d6dd050f4c5a7, 0xfff4cfcfef1e626b,
	0xfffee81886e1c62f, 0xffffe7fe850e0bb5, 0xfffffe2a8731b17d, 0xffffffdfac6eeadc,
	0xfffffffdf9640067, 0xffffffffe22ec79c, 0xfffffffffe6a9ded, 0xffffffffffebff81,
	0xffffffffffff1417, 0xfffffffffffff5ce, 0xffffffffffffff95, 0xfffffffffffffffb,
}

// exponential draws a number with the density e⁻ˣ. It is Knuth's algorithm S
// (The Art of Computer Programming 3.4.1, after M. Sibuya and J. H. Ahrens and
// U. Dieter): the number of halvings that a uniform number survives gives the
// multiple of ln 2, the least of a few uniform numbers the rest. It needs
// integers only, so that every machine draws the same.
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
