package record

import "time"

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

	Histograms
}

// NewTally returns an empty Tally; it holds about a megabyte and a half.
func NewTally() *Tally {
	t := &Tally{}
	for _, h := range t.all() {
		*h = newHistogram()
	}
	return t
}

// Start counts a request that left lag after it was due; pacerLag of it was
// the generator's fault, for the rest the request waited for a connection that
// was busy. sinceEnd is how long the schedule has been over, negative while it
// runs.
func (t *Tally) Start(lag, pacerLag, sinceEnd time.Duration) {
	t.start(lag, pacerLag, sinceEnd)
	if lag > pacerLag {
		t.BusyLag.observe(lag - pacerLag)
	}
}

// StartFresh is Start for a request that left as the first one on its
// connection: what it waited for was the dial.
func (t *Tally) StartFresh(lag, pacerLag, sinceEnd time.Duration) {
	t.start(lag, pacerLag, sinceEnd)
	if lag > pacerLag {
		t.DialLag.observe(lag - pacerLag)
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
	t.Lag.observe(lag)
	t.PacerLag.observe(pacerLag)
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
	t.latencyOf(class).observe(o.Done.Sub(o.Due))
	if !o.Start.IsZero() {
		t.ServiceTime.observe(o.Done.Sub(o.Start))
	}
}

// Merge adds what u counted; what it kept stays there.
func (t *Tally) Merge(u *Tally) {
	t.Counts.Add(&u.Counts)
	from := u.all()
	for i, h := range t.all() {
		if !from[i].empty() { // merging takes time however little there is
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

func seconds(ns int64) float64 { return float64(ns) / 1e9 }
