package record

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A Histogram counts durations, with enough precision to be merged with others later. Its
// text form is the compressed V2 format of HdrHistogram in base64, which the tools of
// that project read; its values are nanoseconds. The zero value is a missing histogram,
// whose text is empty.
//
// Owned by the loop of its Tally; immutable once it belongs to a Result.
type Histogram struct{ counts *hdrhistogram.Histogram }

func newHistogram() Histogram { return Histogram{hdrhistogram.New(spanMin, spanMax, digits)} }

// histogramTextMax bounds the text of a histogram. The longest that we write is a tenth
// of it.
const histogramTextMax = 4 << 20

func (h Histogram) observe(d time.Duration) {
	// A value in range cannot fail, and there are never 2⁶³ of them.
	_ = h.counts.RecordValue(min(max(int64(d), 0), spanMax))
}

// empty reports whether there is nothing to merge or to draw.
func (h Histogram) empty() bool { return h.counts == nil || h.counts.TotalCount() == 0 }

// Summary summarises the histogram.
func (h Histogram) Summary() Summary {
	if h.empty() {
		return Summary{}
	}
	q := h.Quantiles([]float64{0.5, 0.9, 0.95, 0.99, 0.999})
	return Summary{
		Count: uint64(h.counts.TotalCount()), Mean: h.counts.Mean() / 1e9, Min: seconds(h.counts.Min()),
		P50: q[0], P90: q[1], P95: q[2], P99: q[3], P999: q[4], Max: seconds(h.counts.Max()),
	}
}

// Quantiles returns for each share the least duration, in seconds, that at least this share of all
// did not exceed: with n durations that of rank ⌈share·n⌉. The library would round the rank, to
// one that a smaller share did not exceed.
func (h Histogram) Quantiles(shares []float64) []float64 {
	spans := make([]float64, len(shares))
	if h.empty() {
		return spans
	}
	percent := make([]float64, len(shares))
	n := float64(h.counts.TotalCount())
	for i, p := range shares {
		const inexact = 1e-12                             // relative error of p·n
		percent[i] = 100 * math.Ceil(p*n*(1-inexact)) / n // a whole rank is not rounded
	}
	for i, ns := range h.counts.ValueAtPercentilesSlice(percent) {
		spans[i] = seconds(ns)
	}
	return spans
}

// Between counts the durations from each edge (in seconds, ascending) to the next.
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

// plus returns the sum of two histograms and changes neither.
func (h Histogram) plus(other Histogram) Histogram {
	switch {
	case h.counts == nil || !other.empty() && h.empty():
		return other
	case other.empty():
		return h
	}
	sum := newHistogram()
	sum.counts.Merge(h.counts)
	sum.counts.Merge(other.counts)
	return sum
}

// MarshalText implements encoding.TextMarshaler.
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

// UnmarshalText implements encoding.TextUnmarshaler. It refuses histograms of another
// precision or range, since merging those would lose counts.
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
		return fmt.Errorf("histogram: must hold %d to %d ns with %d digits, holds %d to %d with %d", spanMin, spanMax,
			digits, low, high, precision)
	}
	h.counts = counts
	return nil
}

// Histograms are what the spreads of a Tally and of a Result are computed from, so that
// those of several loops and generators can be merged. The latencies are in the order of
// the classes.
type Histograms struct {
	LatencySuccess     Histogram `json:"latencySuccess"`
	LatencyRateLimited Histogram `json:"latencyRateLimited"`
	LatencyShed        Histogram `json:"latencyShed"`
	LatencyErrors      Histogram `json:"latencyErrors"`
	ServiceTime        Histogram `json:"serviceTime"`
	Lag                Histogram `json:"lag"`
	PacerLag           Histogram `json:"pacerLag"`
	BusyLag            Histogram `json:"busyLag"`
	DialLag            Histogram `json:"dialLag"`
}

func (h *Histograms) all() [9]*Histogram {
	return [...]*Histogram{
		&h.LatencySuccess, &h.LatencyRateLimited, &h.LatencyShed, &h.LatencyErrors, &h.ServiceTime, &h.Lag, &h.PacerLag,
		&h.BusyLag, &h.DialLag,
	}
}

func (h *Histograms) latencyOf(c Class) *Histogram {
	return [Classes]*Histogram{&h.LatencySuccess, &h.LatencyRateLimited, &h.LatencyShed, &h.LatencyErrors}[c]
}

func (h *Histograms) present() bool {
	all := h.all()
	return !slices.ContainsFunc(all[:], func(one *Histogram) bool { return one.counts == nil })
}

// Latency returns the latency of everything that completed.
func (h *Histograms) Latency() Histogram {
	return h.LatencySuccess.plus(h.LatencyRateLimited).plus(h.LatencyShed).plus(h.LatencyErrors)
}

func (h *Histograms) plus(other *Histograms) Histograms {
	var sum Histograms
	mine, theirs := h.all(), other.all()
	for i, one := range sum.all() {
		*one = mine[i].plus(*theirs[i])
	}
	return sum
}
