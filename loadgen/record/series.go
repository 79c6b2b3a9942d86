package record

import (
	"maps"
	"math"
	"slices"
	"sort"
)

// rowsMax bounds the rows of a Series. A run of up to an hour has a row for
// every second; a longer one has rows of two seconds, of four, and so on.
const rowsMax = 3600

// A SeriesRow is one step of a run, which starts T seconds after the start of the run. Percentiles of a
// step longer than a second are those of its worst second; those of several generators are those of
// the worst one.
type SeriesRow struct {
	T           float64 `json:"t"`
	Due         uint64  `json:"due"`
	Sent        uint64  `json:"sent"`     // including those for which connecting failed then or later
	SentLate    uint64  `json:"sentLate"` // missed their time through the generator's fault
	Success     uint64  `json:"success"`
	RateLimited uint64  `json:"rateLimited"`
	Shed        uint64  `json:"shed"`
	Errors      uint64  `json:"errors"`
	LatencyP50  float64 `json:"latencyP50"`
	LatencyP95  float64 `json:"latencyP95"`
	LatencyP99  float64 `json:"latencyP99"`
	LagP99      float64 `json:"lagP99"`

	ErrorsByReason map[string]uint64 `json:"errorsByReason,omitempty"`
}

// merge adds the next step, or the same step of another generator. It does not change maps that
// are shared with others.
func (r *SeriesRow) merge(next *SeriesRow) {
	r.Due += next.Due
	r.Sent += next.Sent
	r.SentLate += next.SentLate
	r.Success += next.Success
	r.RateLimited += next.RateLimited
	r.Shed += next.Shed
	r.Errors += next.Errors
	r.LatencyP50 = max(r.LatencyP50, next.LatencyP50)
	r.LatencyP95 = max(r.LatencyP95, next.LatencyP95)
	r.LatencyP99 = max(r.LatencyP99, next.LatencyP99)
	r.LagP99 = max(r.LagP99, next.LagP99)
	r.ErrorsByReason = addCounts(r.ErrorsByReason, next.ErrorsByReason)
}

// addCounts returns the sum of two maps of counts and changes neither.
func addCounts(a, b map[string]uint64) map[string]uint64 {
	switch {
	case len(b) == 0:
		return a
	case len(a) == 0:
		return b
	}
	sum := maps.Clone(a)
	for k, n := range b {
		sum[k] += n
	}
	return sum
}

// A Series is the course of a run in steps of equal length.
//
// Owned by one goroutine.
type Series struct {
	Step float64     `json:"step"` // seconds
	Rows []SeriesRow `json:"rows"`

	pending int // seconds already in the last row when Step is more than one
}

// add appends a row of one second.
func (s *Series) add(r SeriesRow) {
	if s.Step == 0 {
		s.Step = 1
	}
	if s.pending > 0 {
		s.Rows[len(s.Rows)-1].merge(&r)
	} else {
		if len(s.Rows) == rowsMax {
			*s = s.coarser(2)
		}
		s.Rows = append(s.Rows, r)
	}
	if s.pending++; s.pending >= int(s.Step) {
		s.pending = 0
	}
}

// coarser returns the series with each k rows merged into one.
func (s Series) coarser(k int) Series {
	c := Series{Step: s.Step * float64(k), Rows: make([]SeriesRow, 0, len(s.Rows)/k+1)}
	for i := range s.Rows {
		if i%k == 0 {
			c.Rows = append(c.Rows, s.Rows[i])
		} else {
			c.Rows[len(c.Rows)-1].merge(&s.Rows[i])
		}
	}
	return c
}

// AtMost returns the series in at most n rows, by merging neighbours.
func (s Series) AtMost(n int) Series {
	if len(s.Rows) <= n {
		return s
	}
	return s.coarser((len(s.Rows) + n - 1) / n)
}

// After returns the part of the series that starts later than t.
func (s Series) After(t float64) Series {
	i := sort.Search(len(s.Rows), func(i int) bool { return s.Rows[i].T > t })
	return Series{Step: s.Step, Rows: s.Rows[i:]}
}

func (s Series) clone() Series {
	s.Rows = slices.Clone(s.Rows)
	return s
}

// plus returns the sum with the series of another generator on the same schedule. If the steps
// differ, the longer is a multiple of the shorter.
func (s Series) plus(other Series) Series {
	if s.Step == 0 || other.Step == 0 {
		if s.Step == 0 {
			return other.clone()
		}
		return s.clone()
	}
	step := max(s.Step, other.Step)
	sum, more := s.coarser(int(math.Round(step/s.Step))), other.coarser(int(math.Round(step/other.Step)))
	if len(more.Rows) > len(sum.Rows) {
		sum, more = more, sum
	}
	for i := range more.Rows {
		sum.Rows[i].merge(&more.Rows[i])
	}
	return sum
}
