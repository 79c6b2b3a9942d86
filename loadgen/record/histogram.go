package record

import (
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A Histogram counts how often each span came, exactly enough to be added to
// others later. As text it is the compressed V2 form of HdrHistogram in base64,
// which the tools of that project read; its values are nanoseconds. The zero
// value is a histogram that is not there; its text is empty.
//
// Immutable: who makes one gives the counts away.
type Histogram struct{ counts *hdrhistogram.Histogram }

// histogramTextMax bounds the text of a histogram: the longest that ours can
// have is a tenth of it.
const histogramTextMax = 4 << 20

// Present says whether there is anything to add or to draw.
func (h Histogram) Present() bool { return h.counts != nil }

// Spread summarises the histogram.
func (h Histogram) Spread() Spread {
	if h.counts == nil {
		return Spread{}
	}
	return spreadOf(h.counts)
}

// Quantiles are the spans in seconds that the given shares of all did not
// exceed.
func (h Histogram) Quantiles(shares []float64) []float64 {
	spans := make([]float64, len(shares))
	if h.counts == nil || h.counts.TotalCount() == 0 {
		return spans
	}
	percent := make([]float64, len(shares))
	for i, p := range shares {
		percent[i] = 100 * p
	}
	for i, ns := range h.counts.ValueAtPercentilesSlice(percent) {
		spans[i] = seconds(ns)
	}
	return spans
}

// Between counts the spans from each edge (in seconds, ascending) to the next.
func (h Histogram) Between(edges []float64) []uint64 {
	n := make([]uint64, max(0, len(edges)-1))
	if h.counts == nil {
		return n
	}
	i := 0
	for _, bar := range h.counts.Distribution() {
		mid := (seconds(bar.From) + seconds(bar.To)) / 2
		for i < len(n) && mid >= edges[i+1] {
			i++
		}
		if i < len(n) && bar.Count > 0 && mid >= edges[i] {
			n[i] += uint64(bar.Count)
		}
	}
	return n
}

// plus is the sum of two histograms; neither is changed.
func (h Histogram) plus(other Histogram) Histogram {
	switch {
	case h.counts == nil:
		return other
	case other.counts == nil:
		return h
	}
	sum := hdrhistogram.New(spanMin, spanMax, digits)
	sum.Merge(h.counts)
	sum.Merge(other.counts)
	return Histogram{sum}
}

// MarshalText is part of encoding.TextMarshaler.
func (h Histogram) MarshalText() ([]byte, error) {
	if h.counts == nil {
		return nil, nil
	}
	text, err := h.counts.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return nil, fmt.Errorf("encode histogram: %w", err)
	}
	return text, nil
}

// UnmarshalText is part of encoding.TextUnmarshaler. It refuses histograms of
// another precision or range than ours, as adding those up would lose counts.
func (h *Histogram) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		h.counts = nil
		return nil
	}
	if len(text) > histogramTextMax {
		return fmt.Errorf("histogram: is longer than %d bytes", histogramTextMax)
	}
	counts, err := hdrhistogram.Decode(text)
	if err != nil {
		return fmt.Errorf("histogram: %w", err)
	}
	low, high, precision := counts.LowestTrackableValue(), counts.HighestTrackableValue(), counts.SignificantFigures()
	if low != spanMin || high != spanMax || precision != digits {
		return fmt.Errorf("histogram: must hold %d to %d ns with %d digits, holds %d to %d with %d", spanMin, spanMax, digits, low, high, precision)
	}
	h.counts = counts
	return nil
}

// Histograms are what the spreads of a Result were made of, so that results of
// several generators can be added up.
type Histograms struct {
	LatencySuccess     Histogram `json:"latencySuccess"`
	LatencyRateLimited Histogram `json:"latencyRateLimited"`
	LatencyErrors      Histogram `json:"latencyErrors"`
	ServiceTime        Histogram `json:"serviceTime"`
	Lag                Histogram `json:"lag"`
	PacerLag           Histogram `json:"pacerLag"`
	BusyLag            Histogram `json:"busyLag"`
	DialLag            Histogram `json:"dialLag"`
}

// all are the histograms in the order of the fields.
func (h *Histograms) all() [8]*Histogram {
	return [...]*Histogram{
		&h.LatencySuccess, &h.LatencyRateLimited, &h.LatencyErrors, &h.ServiceTime, &h.Lag, &h.PacerLag, &h.BusyLag, &h.DialLag,
	}
}

// present says whether all are there.
func (h *Histograms) present() bool {
	for _, one := range h.all() {
		if !one.Present() {
			return false
		}
	}
	return true
}

// Latency is the latency of everything that completed.
func (h *Histograms) Latency() Histogram {
	return h.LatencySuccess.plus(h.LatencyRateLimited).plus(h.LatencyErrors)
}

// plus adds up.
func (h *Histograms) plus(other *Histograms) Histograms {
	var sum Histograms
	mine, theirs := h.all(), other.all()
	for i, one := range sum.all() {
		*one = mine[i].plus(*theirs[i])
	}
	return sum
}

// giveAway makes the counts of t the Result's: t must not be written any more.
func (t *Tally) giveAway() Histograms {
	return Histograms{
		LatencySuccess: Histogram{t.latency[Success]}, LatencyRateLimited: Histogram{t.latency[RateLimited]},
		LatencyErrors: Histogram{t.latency[Failed]}, ServiceTime: Histogram{t.service},
		Lag: Histogram{t.lag}, PacerLag: Histogram{t.pacerLag}, BusyLag: Histogram{t.busyLag}, DialLag: Histogram{t.dialLag},
	}
}
