package closedloop

import "math"

// A histogram counts spans of seconds in cells one part in 64 of an octave wide,
// read off the bits of the number: so fine that no percentile is wrong by more
// than 1.6 %.
type histogram struct {
	cells [cellCount]uint32
	n     int
}

const (
	cellBits  = 6
	octaveMin = -10 // about a millisecond; below: counted as that
	octaveMax = 5   // 32 s; above: counted as that
	cellCount = (octaveMax - octaveMin) << cellBits
	cellShift = 52 - cellBits
	cellFirst = (1023 + octaveMin) << cellBits
)

func (h *histogram) add(seconds float64) {
	cell := int(math.Float64bits(seconds)>>cellShift) - cellFirst
	h.cells[min(max(cell, 0), cellCount-1)]++
	h.n++
}

// quantile returns the span below which a share of all lies; 0 of nothing.
func (h *histogram) quantile(share float64) float64 {
	rank := share * float64(h.n)
	below := 0.0
	for cell, n := range h.cells {
		if n > 0 && below+float64(n) >= rank {
			low := math.Float64frombits(uint64(cell+cellFirst) << cellShift)
			high := math.Float64frombits(uint64(cell+1+cellFirst) << cellShift)
			return low + (high-low)*(rank-below)/float64(n)
		}
		below += float64(n)
	}
	return 0
}
