package record

import "time"

// Totals sum the tallies of all loops of a run.
//
// Owned by one goroutine.
type Totals struct {
	all    *Tally
	second *Tally // since the last row of the series
	due    uint64 // at the last row
	series Series
	course Series // as of the last row, for others
}

// NewTotals returns empty Totals.
func NewTotals() *Totals { return &Totals{all: NewTally(), second: NewTally()} }

// Add adds the counts of t and empties it.
func (s *Totals) Add(t *Tally) {
	s.all.Merge(t)
	s.second.Merge(t)
	t.Reset()
}

// All returns the sum so far. It is valid until the next Add.
func (s *Totals) All() *Tally { return s.all }

// Row ends a second of the series, which began at t; due is how many requests
// were due since the start.
func (s *Totals) Row(t time.Duration, due uint64) {
	lat, lag := s.second.Latency().Spread(), s.second.Lag.Spread()
	s.series.add(Row{
		T: t.Seconds(), Due: due - s.due, Sent: s.second.Sent, SentLate: s.second.SentLate,
		Success: s.second.Class[Success], RateLimited: s.second.Class[RateLimited], Errors: s.second.Class[Failed],
		LatencyP50: lat.P50, LatencyP95: lat.P95, LatencyP99: lat.P99, LagP99: lag.P99,
		ErrorsByReason: s.second.errorsByReason(),
	})
	s.course = s.series.clone()
	s.due = due
	s.second.Reset()
}

// Course returns the series up to the last Row. It is immutable, so other goroutines may read it.
func (s *Totals) Course() Series { return s.course }

// Pending reports whether something was counted since the last Row.
func (s *Totals) Pending() bool { return s.second.Sent > 0 || s.second.Completed() > 0 }
