package profile

import (
	"math"
	"slices"
	"sort"
	"time"
)

// A Peak is a part of a run in which the profile's rate is far above normal. It is the ground
// truth for evaluating a limiter or a detector.
type Peak struct {
	Start, End time.Duration
	RPS        float64 // the highest rate in it, in arrivals per second
}

// peaksMax bounds the peaks of a list.
const peaksMax = 10_000

// What counts as a peak if the shape does not define it: at least twice the mean rate,
// and chanceSigmas standard deviations more than chance would bring at the mean rate in
// the same time, since recorded traffic varies by chance.
const (
	peakFactor   = 2
	chanceSigmas = 4
)

// PeakFrom returns the first peak that starts at t or later; ok is false if there is
// none. The peaks of a burst are its spikes, those of a sinusoidal profile the quarters
// of its periods around the crests, those of ddos its spikes. Steps and recorded rates
// have a peak where they are at least twice their mean.
func (p *Profile) PeakFrom(t time.Duration) (Peak, bool) {
	if len(p.peaks) == 0 {
		return Peak{}, false
	}
	var past time.Duration
	if p.repeat {
		period := p.end().start
		past = max(t, 0) / period * period
	}
	i := sort.Search(len(p.peaks), func(i int) bool { return p.peaks[i].Start >= t-past })
	if i == len(p.peaks) {
		if !p.repeat || past > math.MaxInt64-2*p.end().start {
			return Peak{}, false
		}
		past += p.end().start
		i = 0
	}
	peak := p.peaks[i]
	return Peak{past + peak.Start, past + peak.End, peak.RPS}, true
}

// Peaks returns the peaks of a run of the given length, cut off at its end, the first ten
// thousand at most.
func (p *Profile) Peaks(length time.Duration) []Peak {
	peaks := []Peak{}
	for t := time.Duration(0); len(peaks) < peaksMax; {
		peak, ok := p.PeakFrom(t)
		if !ok || peak.Start >= length {
			break
		}
		t = peak.Start + 1
		peak.End = min(peak.End, length)
		peaks = append(peaks, peak)
	}
	return peaks
}

// findPeaks finds the peaks of pieces of steady rates.
func (p *Profile) findPeaks() {
	end := p.end()
	mean := end.base.float() / grainsPerArrival / end.start.Seconds()
	var open *Peak
	for i := range len(p.pieces) - 1 {
		s := p.stretch(i)
		rate := s.rate(0)
		switch {
		case rate < peakFactor*mean:
			open = nil
		case open == nil:
			p.peaks = append(p.peaks, Peak{Start: s.start})
			open = &p.peaks[len(p.peaks)-1]
			fallthrough
		default:
			open.End, open.RPS = s.start+time.Duration(s.length), max(open.RPS, rate)
		}
	}
	p.peaks = slices.DeleteFunc(p.peaks, func(peak Peak) bool {
		usual := mean * (peak.End - peak.Start).Seconds()
		amount := (p.Cumulative(peak.End) - p.Cumulative(peak.Start)).Float()
		return amount < usual+chanceSigmas*math.Sqrt(usual)
	})
}
