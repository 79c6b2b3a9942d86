package record

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// CatchUp is how much later than due a request may leave before it is counted
// as late: ten milliseconds, the length of a short pause of the scheduler or
// the garbage collector. A late request is sent all the same.
const CatchUp = 10 * time.Millisecond

// What the histograms hold: nanoseconds with three digits, from a microsecond
// to more than the longest wait for a connection and the longest timeout
// together. A greater value is recorded as the greatest.
const (
	spanMin = int64(time.Microsecond)
	spanMax = int64(400 * time.Second)
	digits  = 3
)

// Counts are what a Tally counts. They add up.
type Counts struct {
	Sent       uint64 // started, or tried to: a refused connection counts
	SentLate   uint64 // missed their time: a pacer lag beyond CatchUp
	SentBehind uint64 // later than CatchUp after the end of the schedule
	Retried    uint64 // sent again because a kept connection had been closed
	Abandoned  uint64 // started, and cut off without an outcome
	Unsent     uint64 // due but not sent when the run was stopped
	InSpan     uint64 // answered before the end of the schedule
	Received   uint64 // bytes

	Class  [Classes]uint64
	Reason [Reasons]uint64
	Status [StatusMax + 1]uint64

	Opened      uint64 // connections
	DialsFailed uint64
}

// Completed is the number of outcomes.
func (c *Counts) Completed() uint64 { return c.Class[Success] + c.Class[RateLimited] + c.Class[Failed] }

// Dropped is the number of requests that waited too long to be sent at all.
func (c *Counts) Dropped() uint64 { return c.Reason[QueueFull] }

// Add adds what d counts.
func (c *Counts) Add(d *Counts) {
	c.Sent += d.Sent
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

// A Tally counts what happens on one loop. When the numbers are wanted the loop
// goes on with a fresh one and gives this one away.
//
// Owned by its loop, then by whom it was given to.
type Tally struct {
	Counts
	// Keep says that outcomes are kept one by one as well; Kept are these, in
	// the order of their ends.
	Keep bool
	Kept []Outcome

	latency  [Classes]*hdrhistogram.Histogram
	service  *hdrhistogram.Histogram
	lag      *hdrhistogram.Histogram
	pacerLag *hdrhistogram.Histogram
	busyLag  *hdrhistogram.Histogram
	dialLag  *hdrhistogram.Histogram
}

// NewTally returns an empty Tally; it holds about a megabyte and a half.
func NewTally() *Tally {
	t := &Tally{}
	for _, h := range t.histograms() {
		*h = hdrhistogram.New(spanMin, spanMax, digits)
	}
	return t
}

func (t *Tally) histograms() [Classes + 5]**hdrhistogram.Histogram {
	return [...]**hdrhistogram.Histogram{
		&t.latency[Success], &t.latency[RateLimited], &t.latency[Failed], &t.service, &t.lag, &t.pacerLag, &t.busyLag, &t.dialLag,
	}
}

// Start counts a request that left lag after it was due; pacerLag of it was
// the generator's fault, for the rest the request waited for a connection that
// was busy. sinceEnd is how long the schedule has been over, negative while it
// runs.
func (t *Tally) Start(lag, pacerLag, sinceEnd time.Duration) {
	t.start(lag, pacerLag, sinceEnd)
	if lag > pacerLag {
		observe(t.busyLag, lag-pacerLag)
	}
}

// StartFresh is Start for a request that left as the first one on its
// connection: what it waited for was the dial.
func (t *Tally) StartFresh(lag, pacerLag, sinceEnd time.Duration) {
	t.start(lag, pacerLag, sinceEnd)
	if lag > pacerLag {
		observe(t.dialLag, lag-pacerLag)
	}
}

func (t *Tally) start(lag, pacerLag, sinceEnd time.Duration) {
	t.Sent++
	if pacerLag > CatchUp {
		t.SentLate++
	}
	if sinceEnd > CatchUp {
		t.SentBehind++
	}
	observe(t.lag, lag)
	observe(t.pacerLag, pacerLag)
}

// Refuse counts a request for which there is no connection, o.Reason says why.
// Unless it has waited too long it counts as sent: it was tried in time, and
// what became of it is the target's doing.
func (t *Tally) Refuse(o *Outcome, end time.Time) {
	if o.Reason != QueueFull {
		t.Sent++
	}
	t.Finish(o, end)
}

// Finish counts how a request ended; end is when the schedule is over.
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
	observe(t.latency[class], o.Done.Sub(o.Due))
	if !o.Start.IsZero() {
		observe(t.service, o.Done.Sub(o.Start))
	}
}

func observe(h *hdrhistogram.Histogram, d time.Duration) {
	// A value in range cannot fail, and there are never 2⁶³ of them.
	_ = h.RecordValue(min(max(int64(d), 0), spanMax))
}

// Merge adds what u counted; what it kept stays there.
func (t *Tally) Merge(u *Tally) {
	t.Counts.Add(&u.Counts)
	from := u.histograms()
	for i, h := range t.histograms() {
		if (*from[i]).TotalCount() > 0 { // merging takes time however little there is
			(*h).Merge(*from[i])
		}
	}
}

// Reset empties t.
func (t *Tally) Reset() {
	t.Counts, t.Kept = Counts{}, t.Kept[:0]
	for _, h := range t.histograms() {
		(*h).Reset()
	}
}

// Latency summarises the latencies of all outcomes.
func (t *Tally) Latency() Spread {
	all := t.latency[Success]
	if t.Class[RateLimited]+t.Class[Failed] > 0 {
		all = hdrhistogram.New(spanMin, spanMax, digits)
		for _, h := range t.latency {
			if h.TotalCount() > 0 {
				all.Merge(h)
			}
		}
	}
	return spreadOf(all)
}

// LatencyOf summarises the latencies of the outcomes of one class.
func (t *Tally) LatencyOf(c Class) Spread { return spreadOf(t.latency[c]) }

// Service summarises the service times of everything that was started.
func (t *Tally) Service() Spread { return spreadOf(t.service) }

// Lag summarises how late requests left.
func (t *Tally) Lag() Spread { return spreadOf(t.lag) }

// PacerLag summarises the part of the lag that was the generator's fault.
func (t *Tally) PacerLag() Spread { return spreadOf(t.pacerLag) }

// BusyLag summarises how long requests waited for a connection that was busy,
// of those that did.
func (t *Tally) BusyLag() Spread { return spreadOf(t.busyLag) }

// DialLag summarises how long requests waited for a connection to be opened, of
// those that did.
func (t *Tally) DialLag() Spread { return spreadOf(t.dialLag) }

// A Spread describes a distribution of spans, in seconds.
type Spread struct {
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

func spreadOf(h *hdrhistogram.Histogram) Spread {
	if h.TotalCount() == 0 {
		return Spread{}
	}
	q := h.ValueAtPercentilesSlice([]float64{50, 90, 95, 99, 99.9})
	return Spread{
		Count: uint64(h.TotalCount()), Mean: h.Mean() / 1e9, Min: seconds(h.Min()),
		P50: seconds(q[0]), P90: seconds(q[1]), P95: seconds(q[2]), P99: seconds(q[3]), P999: seconds(q[4]),
		Max: seconds(h.Max()),
	}
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }
