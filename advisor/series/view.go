package series

import (
	"math"
	"time"
)

// Rows returns the buckets of a resolution that end in (from, to], the oldest first, without
// gaps.
func (h *History) Rows(r Resolution, from, to time.Time) []Row {
	g := &h.rings[r]
	if h.seen == 0 || !from.Before(to) {
		return nil
	}
	first := max(g.number(seconds(from)), g.oldest)
	last := min(g.number(seconds(to)), g.newest)
	rows := make([]Row, 0, max(0, last-first+1))
	for i := first; i <= last; i++ {
		end := time.Unix((i+1)*int64(g.width), 0)
		if mean, covered := g.at(i); covered > 0 && end.After(from) && !end.After(to) {
			rows = append(rows, Row{At: end, Interval: r.Width(), Rate: mean, Coverage: covered / g.width})
		}
	}
	return rows
}

// Raw returns the rates at full resolution that end in (from, to], the oldest first.
func (h *History) Raw(from, to time.Time) []Row {
	var rows []Row
	for _, s := range h.raw {
		at := time.Unix(0, s.at)
		if at.After(from) && !at.After(to) {
			rows = append(rows, Row{At: at, Interval: time.Duration(s.interval), Rate: s.rate, Coverage: 1})
		}
	}
	return rows
}

// View returns the history over (from, to] in rows of step, gaps with coverage 0. It uses
// the finest buckets that reach back to from, but no finer ones than needed for step. Steps
// are aligned to the Unix epoch, and at least a second long.
func (h *History) View(from, to time.Time, step time.Duration) []Row {
	if h.seen == 0 || step < time.Second {
		return nil
	}
	g := &h.rings[h.resolution(from, step)]
	width := step.Seconds()
	first := math.Floor(seconds(from)/width) * width
	var rows []Row
	for start := first; start+width <= seconds(to)+1e-9; start += width {
		end := start + width
		row := Row{At: time.Unix(0, int64(math.Round(end*1e9))), Interval: step}
		if mean, covered := g.over(start, end); covered > 0 {
			row.Rate, row.Coverage = mean, min(1, covered/width)
		}
		if row.At.After(from) {
			rows = append(rows, row)
		}
	}
	return rows
}

// resolution returns the resolution from which a view is read.
func (h *History) resolution(from time.Time, step time.Duration) Resolution {
	newest := time.Unix(0, h.newest)
	for r := Minute; r < Hour; r++ {
		reaches := !from.Before(newest.Add(-r.Span())) || h.Age() <= r.Span()
		if reaches && step < (r+1).Width() {
			return r
		}
	}
	return Hour
}

func seconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }
