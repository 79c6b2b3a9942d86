package record

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"weir/internal/data/number"
)

var t0 = time.Unix(1000, 0)

func at(d time.Duration) time.Time { return t0.Add(d) }

const ms = time.Millisecond

func ExampleTally() {
	t := NewTally()
	end := at(time.Second)
	t.Start(2*ms, 2*ms, -time.Second, false)
	o := Outcome{Status: 200}
	o.Due, o.Start, o.Done = at(0), at(2*ms), at(10*ms)
	t.Finish(&o, end)
	fmt.Println(t.Sent(), t.Class[Success], number.Duration(t.Latency().Summary().Max),
		number.Duration(t.ServiceTime.Summary().Max), number.Duration(t.Lag.Summary().Max))
	// Output: 1 1 10.0 ms 8.00 ms 2.00 ms
}

func TestOutcomeClass(t *testing.T) {
	for _, c := range []struct {
		o     Outcome
		class Class
		cause Reason
	}{
		{Outcome{Status: 200}, Success, NoError},
		{Outcome{Status: 304}, Success, NoError},
		{Outcome{Status: 399}, Success, NoError},
		{Outcome{Status: 400}, Failed, HTTP4xx},
		{Outcome{Status: 429}, RateLimited, NoError},
		{Outcome{Status: 503}, Failed, HTTP5xx},
		{Outcome{Status: 503, Gate: true}, Shed, NoError},
		{Outcome{Status: 499}, Failed, HTTP4xx},
		{Outcome{Status: 500}, Failed, HTTP5xx},
		{Outcome{Status: 599}, Failed, HTTP5xx},
		{Outcome{Reason: Timeout}, Failed, Timeout},
		{Outcome{Reason: QueueFull}, Failed, QueueFull},
	} {
		if got := c.o.Class(); got != c.class {
			t.Errorf("%+v is %s, want %s", c.o, got, c.class)
		}
		if got := c.o.Cause(); got != c.cause {
			t.Errorf("%+v is counted under %q, want %q", c.o, got, c.cause)
		}
	}
}

// Every reason has a name and words of its own.
func TestReasonsAreNamed(t *testing.T) {
	seen := map[string]bool{}
	for r := NoError + 1; r < Reasons; r++ {
		if r.String() == "" || r.Words() == "" || seen[r.String()] || seen[r.Words()+" "] {
			t.Errorf("reason %d is called %q, %q", r, r.String(), r.Words())
		}
		seen[r.String()], seen[r.Words()+" "] = true, true
	}
}

func TestStartCounts(t *testing.T) {
	for _, c := range []struct {
		lag, pacerLag, sinceEnd time.Duration
		late, behind            uint64
	}{
		{0, 0, -time.Second, 0, 0},
		{LateThreshold, LateThreshold, LateThreshold, 0, 0},
		{LateThreshold + 1, LateThreshold + 1, LateThreshold + 1, 1, 1},
		{time.Second, 0, 0, 0, 0}, // it waited for a connection
	} {
		tally := NewTally()
		tally.Start(c.lag, c.pacerLag, c.sinceEnd, false)
		if tally.Sent() != 1 || tally.SentLate != c.late || tally.SentBehind != c.behind {
			t.Errorf("%+v: sent %d, late %d, behind %d", c, tally.Sent(), tally.SentLate, tally.SentBehind)
		}
	}
}

// A request for which connecting failed was not sent; one that was given up before was not started.
func TestUnconnected(t *testing.T) {
	tally := NewTally()
	tally.Start(60*ms, 0, -ms, true)
	tally.Unconnect(&Outcome{Reason: ConnectRefused, Due: at(0), Done: at(60 * ms)}, at(0))
	tally.Finish(&Outcome{Reason: QueueFull, Due: at(0), Done: at(ms)}, at(0))
	if tally.Started != 1 || tally.Unconnected != 1 || tally.Sent() != 0 || tally.Dropped() != 1 ||
		tally.Class[Failed] != 2 {
		t.Errorf("started %d, unconnected %d, sent %d, dropped %d, failed %d", tally.Started, tally.Unconnected,
			tally.Sent(), tally.Dropped(), tally.Class[Failed])
	}
	if wait := tally.DialLag.Summary(); wait.Count != 1 || tally.Lag.Summary().Max < 0.059 {
		t.Errorf("its wait for a connection is %+v", wait)
	}
}

func TestFinishInSpan(t *testing.T) {
	end := at(time.Second)
	for _, c := range []struct {
		done time.Time
		o    Outcome
		want uint64
	}{
		{end.Add(-1), Outcome{Status: 200}, 1},
		{end.Add(-1), Outcome{Status: 503}, 1},
		{end, Outcome{Status: 200}, 0},
		{end.Add(-1), Outcome{Reason: Timeout}, 0},
	} {
		tally := NewTally()
		c.o.Due, c.o.Done = at(0), c.done
		tally.Finish(&c.o, end)
		if tally.InSpan != c.want {
			t.Errorf("%+v: %d in the span, want %d", c.o, tally.InSpan, c.want)
		}
	}
}

// Spans beyond what a histogram holds count as the longest, negative ones as
// none: nothing is left out.
func TestSpansOutOfRange(t *testing.T) {
	tally := NewTally()
	tally.Start(time.Hour, -ms, 0, false)
	if got := tally.Lag.Summary(); got.Count != 1 || got.Max < 400 || got.Max > 401 {
		t.Errorf("a lag of an hour: %+v", got)
	}
	if got := tally.PacerLag.Summary(); got.Count != 1 || got.Max > 1e-6 {
		t.Errorf("a negative lag: %+v", got)
	}
}

// However outcomes are dealt to tallies and however these are merged, the sum
// is that of one tally that saw them all.
func TestMergeLaws(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	whole := NewTally()
	parts := []*Tally{NewTally(), NewTally(), NewTally()}
	for range 2000 {
		part := parts[r.IntN(len(parts))]
		o := randomOutcome(r)
		lag := time.Duration(r.ExpFloat64() * float64(ms))
		for _, tally := range []*Tally{whole, part} {
			tally.Start(lag, lag/2, lag-5*ms, false)
			tally.Finish(&o, at(time.Second))
			tally.Opened++
			tally.Received += uint64(o.Status)
		}
	}
	left, right := NewTally(), NewTally()
	for i := range parts {
		left.Merge(parts[i])
		right.Merge(parts[len(parts)-1-i])
	}
	for name, merged := range map[string]*Tally{"in order": left, "in reverse": right} {
		if !reflect.DeepEqual(merged, whole) {
			t.Errorf("merged %s: %+v differs from %+v", name, merged.Counts, whole.Counts)
		}
	}
	left.Reset()
	if !reflect.DeepEqual(left, NewTally()) {
		t.Error("a tally is not as new after Reset")
	}
}

func randomOutcome(r *rand.Rand) Outcome {
	o := Outcome{Status: []int{200, 302, 404, 429, 500}[r.IntN(5)]}
	if r.IntN(5) == 0 {
		o = Outcome{Reason: HTTP5xx + 1 + Reason(r.IntN(int(Reasons-HTTP5xx-1)))}
	}
	o.Due = at(time.Duration(r.Int64N(int64(time.Second))))
	o.Start = o.Due.Add(time.Duration(r.Int64N(int64(ms))))
	o.Done = o.Start.Add(time.Duration(r.Int64N(int64(10 * ms))))
	return o
}

// Counts.Add knows of every field.
func TestAddCoversAllCounts(t *testing.T) {
	var one Counts
	v := reflect.ValueOf(&one).Elem()
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Uint64:
			v.SetUint(1)
		case reflect.Struct:
			for i := range v.NumField() {
				fill(v.Field(i))
			}
		case reflect.Array:
			for i := range v.Len() {
				fill(v.Index(i))
			}
		default:
			t.Fatalf("a count of kind %s", v.Kind())
		}
	}
	fill(v)
	var sum Counts
	sum.Add(&one)
	if sum != one {
		t.Errorf("nothing plus %+v is %+v", one, sum)
	}
}

func TestRecordingAllocatesNothing(t *testing.T) {
	tally := NewTally()
	o := Outcome{Status: 200}
	o.Due, o.Start, o.Done = at(0), at(ms), at(2*ms)
	n := testing.AllocsPerRun(1000, func() {
		tally.Start(ms, ms, -1, false)
		tally.Finish(&o, at(time.Second))
	})
	if n != 0 {
		t.Errorf("recording allocates %v times", n)
	}
}

// A series never has more rows than its bound, and merging rows loses nothing.
func TestSeriesBound(t *testing.T) {
	for _, c := range []struct {
		seconds, rows int
		step          float64
	}{
		{1, 1, 1}, {rowsMax, rowsMax, 1}, {rowsMax + 1, rowsMax/2 + 1, 2}, {2 * rowsMax, rowsMax, 2},
		{5*rowsMax + 1, 5*rowsMax/8 + 1, 8},
	} {
		var s Series
		for i := range c.seconds {
			s.add(SeriesRow{T: float64(i), Sent: 1, LatencyP99: float64(i)})
		}
		var sent uint64
		for _, r := range s.Rows {
			sent += r.Sent
		}
		if len(s.Rows) != c.rows || s.Step != c.step || sent != uint64(c.seconds) {
			t.Errorf("%d seconds: %d rows of %v s with %d sent, want %d of %v s", c.seconds, len(s.Rows), s.Step, sent,
				c.rows, c.step)
		}
		if last := s.Rows[len(s.Rows)-1]; last.LatencyP99 != float64(c.seconds-1) || math.Mod(last.T, c.step) != 0 {
			t.Errorf("%d seconds: the last row is %+v", c.seconds, last)
		}
	}
}

func TestResult(t *testing.T) {
	totals := NewTotals()
	tally := NewTally()
	for i := range 4 {
		tally.Start(ms/2, ms/2, -1, false)
		o := Outcome{Status: []int{200, 429, 503, 200}[i]}
		o.Due, o.Start, o.Done = at(0), at(ms), at(2*ms)
		tally.Finish(&o, at(time.Second))
	}
	totals.Add(tally)
	if pending, left := totals.Pending(), tally.Sent(); !pending || left != 0 {
		t.Errorf("after Add: pending %t, %d left in the tally; want true and 0", pending, left)
	}
	totals.Row(0, 4)
	r := totals.Result(Result{Due: 4, Elapsed: 2, End: EndCompleted}, 4, nil)
	if r.Success != 2 || r.RateLimited != 1 || r.Errors != 1 || r.Completed != 4 || r.Throughput != 2 || r.SentRps != 2 {
		t.Errorf("%+v", r)
	}
	if r.ErrorsByReason["http_5xx"] != 1 || r.StatusCodes["200"] != 2 || r.StatusCodes["503"] != 1 ||
		len(r.StatusCodes) != 3 {
		t.Errorf("errors %v, statuses %v", r.ErrorsByReason, r.StatusCodes)
	}
	if r.LatencySuccess.Count != 2 || r.Latency.Count != 4 || r.Verdict != Valid {
		t.Errorf("%d of %d latencies, verdict %s %q", r.LatencySuccess.Count, r.Latency.Count, r.Verdict, r.Reasons)
	}
	if len(r.Series.Rows) != 1 || r.Series.Rows[0].Due != 4 || r.Series.Rows[0].Sent != 4 {
		t.Errorf("series %+v", r.Series)
	}
	if row := r.Series.Rows[0]; len(row.ErrorsByReason) != 1 || row.ErrorsByReason["http_5xx"] != 1 ||
		row.LatencyP95 == 0 || row.SentLate != 0 {
		t.Errorf("the row is %+v", row)
	}
	if len(r.Shards) != 1 || r.Shards[0] != (Shard{Of: 1}) || r.Peaks == nil || !r.Histograms.present() ||
		r.Histograms.Lag.Summary() != r.Lag {
		t.Errorf("shards %v, peaks %v, histograms %+v", r.Shards, r.Peaks, r.Histograms)
	}
}

func BenchmarkRecord(b *testing.B) {
	tally := NewTally()
	o := Outcome{Status: 200}
	o.Due, o.Start, o.Done = at(0), at(ms), at(2*ms)
	end := at(time.Second)
	for b.Loop() {
		tally.Start(ms, ms, -1, false)
		tally.Finish(&o, end)
	}
}

func BenchmarkMerge(b *testing.B) {
	into, from := NewTally(), NewTally()
	o := Outcome{Status: 200}
	o.Due, o.Start, o.Done = at(0), at(ms), at(2*ms)
	from.Start(ms, ms, -1, false)
	from.Finish(&o, at(0))
	for b.Loop() {
		into.Merge(from)
	}
}

func TestAppendLine(t *testing.T) {
	due, start, done := at(2*ms), at(2*ms+500*time.Microsecond), at(7*ms)
	for want, o := range map[string]Outcome{
		"2000,2500,7000,200,\n":         {Status: 200, Due: due, Start: start, Done: done},
		"2000,2500,7000,429,\n":         {Status: 429, Due: due, Start: start, Done: done},
		"2000,2500,7000,503,http_5xx\n": {Status: 503, Due: due, Start: start, Done: done},
		"2000,2500,7000,503,shed\n":     {Status: 503, Gate: true, Due: due, Start: start, Done: done},
		"2000,2500,7000,0,reset\n":      {Reason: Reset, Due: due, Start: start, Done: done},
		"2000,,7000,0,queue_full\n":     {Reason: QueueFull, Due: due, Done: done},
	} {
		if got := string(o.AppendLine(nil, at(0))); got != want {
			t.Errorf("%+v: %q, want %q", o, got, want)
		}
	}
}

func TestTallyKeeps(t *testing.T) {
	tally := NewTally()
	o := Outcome{Status: 200}
	tally.Finish(&o, at(0))
	tally.Keep = true
	tally.Finish(&o, at(0))
	if len(tally.Kept) != 1 {
		t.Errorf("%d outcomes are kept, want that since Keep was set", len(tally.Kept))
	}
	if tally.Reset(); len(tally.Kept) != 0 || !tally.Keep {
		t.Errorf("after Reset %d are kept, and more: %t", len(tally.Kept), tally.Keep)
	}
}
