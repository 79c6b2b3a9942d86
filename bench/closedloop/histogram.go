package closedloop

import "github.com/HdrHistogram/hdrhistogram-go"

// A histogram counts spans of seconds by the microsecond, to two digits. The zero value is
// empty.
type histogram struct{ counts *hdrhistogram.Histogram }

// spanMax is the longest span in microseconds. Longer ones count as this.
const spanMax = 32e6

func (h *histogram) add(seconds float64) {
	if h.counts == nil {
		h.counts = hdrhistogram.New(1, spanMax, 2)
	}
	_ = h.counts.RecordValue(int64(min(seconds*1e6, spanMax))) // fails only above spanMax
}

// quantile returns a quantile of the spans; 0 if there are none.
func (h *histogram) quantile(share float64) float64 {
	if h.counts == nil {
		return 0
	}
	return float64(h.counts.ValueAtQuantile(100*share)) / 1e6
}
