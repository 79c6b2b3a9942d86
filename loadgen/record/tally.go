package record

import (
	"time"
)

// LateThreshold is how much later than due a request may be sent before it counts as late: the length of a
// short pause of the scheduler or the garbage collector. Late requests are sent, too.
const LateThreshold = 10 * time.Millisecond

// The range of the histograms: nanoseconds with three digits, from a microsecond to more than the
// longest wait for a connection plus the longest timeout. Greater values are recorded as the
// greatest.
const (
	spanMin = int64(time.Microsecond)
	spanMax = int64(400 * time.Second)
	digits  = 3
)

// Counts are the counters of a Tally.
type Counts struct {
	Started     uint64 // sent, or attempted without getting a connection
	Unconnected uint64 // of these, not sent, because connecting failed or their heads are too large
	SentLate    uint64 // missed their time: a pacer lag beyond LateThreshold
	SentBehind  uint64 // later than LateThreshold after the end of the schedule
	Retried     uint64 // sent again because the target had closed an idle connection, or not processed them
	Abandoned   uint64 // started and cut off without an outcome
	Unsent      uint64 // due but not sent when the run was stopped
	InSpan      uint64 // answered before the end of the schedule
	Received    uint64 // bytes

	Class  [Classes]uint64
	Reason [Reasons]uint64
	Status [StatusMax + 1]uint64

	Opened      uint64 // connections
	DialsFailed uint64
}

// Completed returns the number of outcomes.
func (c *Counts) Completed() (n uint64) {
	for _, of := range c.Class {
		n += of
	}
	return n
}

// Sent returns the number of requests that were sent. While connecting takes long, it includes those
// that may still turn out Unconnected.
func (c *Counts) Sent() uint64 { return c.Started - c.Unconnected }

// Dropped returns the number of requests that waited too long and were never sent.
func (c *Counts) Dropped() uint64 { return c.Reason[QueueFull] }

// Add adds the counts of d.
func (c *Counts) Add(d *Counts) {
	c.Started += d.Started
	c.Unconnected += d.Unconnected
	c.SentLate += d.SentLate
	c.SentBehind += d.SentBehind
	c.Retried += d.Retried
	c.Abandoned += d.Abandoned
	c.Unsent += d.Unsent
	c.InSpan += d.InSpan
	c.Received += d.Received
	c.Opened += d.Opened
	c.DialsFailed += d.DialsFailed
	addAll(c.Class[:], d.Class[:])
	addAll(c.Reason[:], d.Reason[:])
	addAll(c.Status[:], d.Status[:])
}

func addAll(into, from []uint64) {
	for i, n := range from {
		into[i] += n
	}
}

// A Tally counts what happens on one loop. When its numbers are needed, the loop hands it over and
// continues with another one.
//
// Owned by its loop, and then by the receiver.
type Tally struct {
	Counts
	Histograms
	Keep bool // each outcome in Kept as well, in the order of their ends
	Kept []Outcome
}

// NewTally returns an empty Tally; it holds less than two megabytes.
func NewTally() *Tally {
	t := &Tally{}
	for _, h := range t.all() {
		*h = newHistogram()
	}
	return t
}

// Start counts a request that was sent with a lag, of which pacerLag is due to the generator. For
// the rest it waited for a busy connection, or, if fresh, for one that was being opened. sinceEnd is
// the time since the end of the schedule, negative before it.
func (t *Tally) Start(lag, pacerLag, sinceEnd time.Duration, fresh bool) {
	t.Started++
	if pacerLag > LateThreshold {
		t.SentLate++
	}
	if sinceEnd > LateThreshold {
		t.SentBehind++
	}
	t.Lag.observe(lag)
	t.PacerLag.observe(pacerLag)
	switch {
	case lag <= pacerLag:
	case fresh:
		t.DialLag.observe(lag - pacerLag)
	default:
		t.BusyLag.observe(lag - pacerLag)
	}
}

// Unconnect counts a started request that was not sent, because connecting failed or its head is too large, and its
// outcome.
func (t *Tally) Unconnect(o *Outcome, end time.Time) {
	t.Unconnected++
	t.Finish(o, end)
}

// Finish counts the outcome of a request; end is the end of the schedule.
func (t *Tally) Finish(o *Outcome, end time.Time) {
	if t.Keep {
		t.Kept = append(t.Kept, *o)
	}
	class := o.Class()
	t.Class[class]++
	t.Reason[o.Cause()]++
	if o.Reason == NoError {
		t.Status[min(max(o.Status, 0), StatusMax)]++
		if o.Done.Before(end) {
			t.InSpan++
		}
	}
	t.latencyOf(class).observe(o.Done.Sub(o.Due))
	if !o.Start.IsZero() {
		t.ServiceTime.observe(o.Done.Sub(o.Start))
	}
}

// Merge adds the counts of u, but not its kept outcomes.
func (t *Tally) Merge(u *Tally) {
	t.Counts.Add(&u.Counts)
	from := u.all()
	for i, h := range t.all() {
		if !from[i].empty() { // merging is slow even for few values
			h.counts.Merge(from[i].counts)
		}
	}
}

// Reset empties t.
func (t *Tally) Reset() {
	t.Counts, t.Kept = Counts{}, t.Kept[:0]
	for _, h := range t.all() {
		h.counts.Reset()
	}
}

// A Summary describes a distribution of spans, in seconds.
type Summary struct {
	Count uint64  `json:"count"`
	Mean  float64 `json:"mean"`
	Min   float64 `json:"min"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p999"`
	Max   float64 `json:"max"`
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

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
	lat, lag := s.second.Latency().Summary(), s.second.Lag.Summary()
	s.series.add(SeriesRow{
		T: t.Seconds(), Due: due - s.due, Sent: s.second.Started, SentLate: s.second.SentLate,
		Success: s.second.Class[Success], RateLimited: s.second.Class[RateLimited], Shed: s.second.Class[Shed],
		Errors:     s.second.Class[Failed],
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
func (s *Totals) Pending() bool { return s.second.Started > 0 || s.second.Completed() > 0 }
