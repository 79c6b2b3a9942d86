package series

import (
	"math"
	"time"
)

const (
	rawSpan = 6 * time.Hour
	rawMax  = 6 * 3600 // one a second for six hours

	intervalMin = time.Millisecond
	intervalMax = 24 * time.Hour
	secondsMax  = 230 * 365 * 86400 // since the epoch: about the year 2200
)

// A Row is the mean rate over the Interval that ended at At. Coverage is the share of the
// interval that was measured. If it is 0, Rate is 0 too.
type Row struct {
	At       time.Time
	Interval time.Duration
	Rate     float64
	Coverage float64
}

// sample is a rate at full resolution.
type sample struct {
	at, interval int64 // nanoseconds
	rate         float64
}

// A History is the history of one rate.
//
// Owned by one goroutine.
type History struct {
	raw    []sample
	first  int64 // start of the oldest ever, nanoseconds
	newest int64 // end of the newest, nanoseconds
	seen   int64 // number ever added
	rings  [len(resolutions)]ring
}

// New returns an empty history.
func New() *History {
	h := &History{}
	for i := range h.rings {
		h.rings[i] = newRing(Resolution(i))
	}
	return h
}

// Add adds the mean rate over the interval that ended at at, and reports whether it did. An
// interval that overlaps the newest known instant is cut there. A rate that is not finite or is
// negative, an implausible interval or time, and a time that is not newer than all before change
// nothing.
func (h *History) Add(at time.Time, interval time.Duration, rate float64) bool {
	end := at.UnixNano()
	switch {
	case !(rate >= 0 && rate <= math.MaxFloat64),
		interval < intervalMin || interval > intervalMax,
		at.Unix() < int64(intervalMax/time.Second) || at.Unix() > secondsMax,
		h.seen > 0 && end <= h.newest:
		return false
	}
	begin := end - int64(interval)
	if h.seen == 0 {
		h.first = begin
	} else {
		begin = max(begin, h.newest)
	}
	h.raw = append(h.raw, sample{at: end, interval: end - begin, rate: rate})
	for h.raw[0].at < end-int64(rawSpan) || len(h.raw) > rawMax { // too old, or too many
		h.raw = h.raw[1:]
	}
	for i := range h.rings {
		h.rings[i].add(float64(begin)/1e9, float64(end)/1e9, rate)
	}
	h.newest = end
	h.seen++
	return true
}

// Newest returns the end of the newest rate; zero if there is none.
func (h *History) Newest() time.Time {
	if h.seen == 0 {
		return time.Time{}
	}
	return time.Unix(0, h.newest)
}

// Seen returns how many rates were ever added.
func (h *History) Seen() int64 { return h.seen }

// Age returns the time from the start of the oldest rate ever added to the end of the
// newest, even if the oldest is no longer kept; 0 if there is none.
func (h *History) Age() time.Duration { return time.Duration(h.newest - h.first) }

// Mean returns the mean rate over (from, to], in seconds since the Unix epoch, at a
// resolution, and which share of the span is known.
func (h *History) Mean(r Resolution, from, to float64) (rate, coverage float64) {
	mean, covered := h.rings[r].over(from, to)
	if covered == 0 {
		return 0, 0
	}
	return mean, min(covered/(to-from), 1)
}
