package closedloop

import "github.com/HdrHistogram/hdrhistogram-go"

// A histogram counts spans of seconds by the microsecond, to two digits. The zero value is
// empty.
type histogram struct{ counts *hdrhistogram.Histogram }

// spanMax is the longest span in microseconds that is told from longer ones.
const spanMax = 32e6

func (h *histogram) add(seconds float64) {
	if h.counts == nil {
		h.counts = hdrhistogram.New(1, spanMax, 2)
	}
	_ = h.counts.RecordValue(int64(min(seconds*1e6, spanMax))) // it has a place for all up to spanMax
}

// quantile returns the span below which a share of all lies; 0 of nothing.
func (h *histogram) quantile(share float64) float64 {
	if h.counts == nil {
		return 0
	}
	return float64(h.counts.ValueAtQuantile(100*share)) / 1e6
}
