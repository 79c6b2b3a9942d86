package record

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"weir/internal/data/number"
	"weir/internal/test/testkit"
)

func ExampleMerge() {
	a, b := shardResult(0, 2, 100*ms), shardResult(1, 2, 300*ms)
	both, err := Merge(a, b)
	fmt.Println(both.Sent, number.Duration(both.Latency.P50), number.Duration(both.Latency.Max), both.Verdict, err)
	_, err = Merge(a, a)
	fmt.Println(err)
	// Output:
	// 2 100 ms 300 ms VALID <nil>
	// merge results: result 2 (test t0) contains shard 0, which another result contains too
}

// shardResult is the result of a shard that sent one request.
func shardResult(index, of int, latency time.Duration) *Result {
	totals, tally := NewTotals(), NewTally()
	tally.Start(0, 0, -time.Second, false)
	o := Outcome{Status: 200}
	o.Due, o.Start, o.Done = at(0), at(0), at(latency)
	tally.Finish(&o, at(time.Second))
	totals.Add(tally)
	totals.Row(0, 1)
	return totals.Result(shardFacts(index, of, 1), 1, nil)
}

func shardFacts(index, of int, due uint64) Result {
	return Result{
		TestID: fmt.Sprintf("t%d", index), Profile: "constant (rps=2)", StartedAt: t0.UTC(), Duration: 1, Elapsed: 1,
		End: EndCompleted, Due: due, TargetRps: float64(due), Loops: 1, Connections: Connections{Max: 10, Peak: 1},
		Shards: []Shard{{Index: index, Of: of}}, ScheduleHash: "5a7e", Peaks: []Peak{{0.5, 1, 20}},
	}
}

// reread is a result that was written to a file and read again.
func reread(t *testing.T, r *Result) *Result {
	t.Helper()
	text := testkit.Must(json.Marshal(r))(t)
	back := new(Result)
	if err := json.Unmarshal(text, back); err != nil {
		t.Fatal(err)
	}
	return back
}

// However requests are dealt to generators, the sum of their results is the
// result of one that sent them all: every count, every percentile, every bit of
// every histogram. Results have been to a file in between.
func TestMergeLaw(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const shards, seconds = 3, 4
	demand := testkit.Must(ParseThreshold("latency.p99", "<1"))(t)
	thresholds := []Threshold{demand}
	one := NewTotals()
	parts := []*Totals{NewTotals(), NewTotals(), NewTotals()}
	var due [shards]uint64
	for second := range time.Duration(seconds) {
		all := NewTally()
		for i, part := range parts {
			own := NewTally()
			for range 300 {
				due[i]++
				record(r, all, own)
			}
			part.Add(own)
			part.Row(second*time.Second, due[i])
		}
		one.Add(all)
		one.Row(second*time.Second, due[0]+due[1]+due[2])
	}
	facts := shardFacts(0, 1, due[0]+due[1]+due[2])
	facts.Loops, facts.Connections = shards, Connections{Max: 10 * shards, Peak: shards}
	want := reread(t, one.Result(facts, facts.Due, thresholds))
	var results []*Result
	for i, part := range parts {
		results = append([]*Result{reread(t, part.Result(shardFacts(i, shards, due[i]), due[i], thresholds))}, results...)
	}
	before := reread(t, results[0])
	got := testkit.Must(Merge(results...))(t)
	if !reflect.DeepEqual(before, results[0]) {
		t.Error("merging changed what it was given")
	}
	if got.TestID != "t0+t1+t2" || len(got.Shards) != shards || got.Verdict != want.Verdict {
		t.Errorf("test %s of shards %v is %s, want %s", got.TestID, got.Shards, got.Verdict, want.Verdict)
	}
	// What belongs to each generator alone.
	got.TestID, got.Shards, got.Reasons = want.TestID, want.Shards, want.Reasons
	for i := range got.Series.Rows {
		a, b := &got.Series.Rows[i], &want.Series.Rows[i]
		a.LatencyP50, a.LatencyP95, a.LatencyP99, a.LagP99 = b.LatencyP50, b.LatencyP95, b.LatencyP99, b.LagP99
	}
	if !reflect.DeepEqual(reread(t, got), want) {
		t.Errorf("the sum is\n%+v\nwant\n%+v", got, want)
	}
}

// record writes one random request down in both tallies.
func record(r *rand.Rand, tallies ...*Tally) {
	o := randomOutcome(r)
	lag := time.Duration(r.ExpFloat64() * float64(ms))
	own := lag / time.Duration(1+r.IntN(3))
	fresh := r.IntN(4) == 0
	for _, tally := range tallies {
		tally.Start(lag, own, -time.Second, fresh)
		tally.Finish(&o, at(time.Second))
	}
}

func TestMergeRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r []*Result) []*Result
		want   string
	}{
		"one":  {func(r []*Result) []*Result { return r[:1] }, "at least two are needed, there are 1"},
		"none": {func([]*Result) []*Result { return nil }, "at least two are needed, there are 0"},
		"another schedule": {func(r []*Result) []*Result { r[1].ScheduleHash = "beef"; return r },
			"its hash is beef, that of result 1 is 5a7e"},
		"another length": {func(r []*Result) []*Result { r[1].Duration = 9; return r },
			"for 9 s, result 1 ran constant (rps=2) for 1 s"},
		"another number": {func(r []*Result) []*Result { r[1].Shards[0].Of = 3; return r },
			"shard 1 of 3, result 1 one of 2 shards"},
		"no such shard": {func(r []*Result) []*Result { r[1].Shards[0].Index = 2; return r }, "shard 2 of 2"},
		"twice the same": {func(r []*Result) []*Result { r[1].Shards[0].Index = 0; return r },
			"shard 0, which another result contains too"},
		"another schema": {func(r []*Result) []*Result { r[1].Schema = 2; return r },
			"result 2 has the schema 2, this program writes 1"},
		"no histogram": {func(r []*Result) []*Result { r[1].Histograms.DialLag = Histogram{}; return r },
			"an older program wrote it"},
		"no hash": {func(r []*Result) []*Result { r[0].ScheduleHash = ""; return r },
			"result 1 (test t0) has no schedule hash"},
		"no shard": {func(r []*Result) []*Result { r[0].Shards = nil; return r },
			"result 1 (test t0) has no schedule hash, shard"},
	} {
		_, err := Merge(c.change([]*Result{shardResult(0, 2, ms), shardResult(1, 2, ms)})...)
		if err == nil || !strings.HasPrefix(err.Error(), "merge results: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestMergeVerdict(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r []*Result) []*Result
		want   Validity
		reason string
	}{
		"all well": {func(r []*Result) []*Result { return r }, Valid, ""},
		"one degraded": {func(r []*Result) []*Result {
			r[1].Verdict, r[1].Reasons = Degraded, []string{"it stalled"}
			return r
		}, Degraded, "shard 1: it stalled"},
		"one invalid": {func(r []*Result) []*Result { r[2].Verdict = Invalid; return r }, Invalid, ""},
		"one missing": {func(r []*Result) []*Result { return r[1:] }, Invalid, "the results of shard 0 of 3 are missing"},
		"together":    {func(r []*Result) []*Result { r[1].StartedAt = t0.Add(startSkewMax); return r }, Valid, ""},
		"apart": {func(r []*Result) []*Result { r[1].StartedAt = t0.Add(startSkewMax + 1); return r }, Degraded,
			"the generators started 100 ms apart"},
	} {
		r, err := Merge(c.change([]*Result{shardResult(0, 3, ms), shardResult(1, 3, ms), shardResult(2, 3, ms)})...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if r.Verdict != c.want || !strings.Contains(strings.Join(r.Reasons, "\n"), c.reason) || c.reason == "" &&
			len(r.Reasons) > 0 {
			t.Errorf("%s: %s because %q, want %s because %q", name, r.Verdict, r.Reasons, c.want, c.reason)
		}
	}
}

// One that was stopped early, and what only one of them knows.
func TestMergeDescribes(t *testing.T) {
	a, b := shardResult(0, 2, ms), shardResult(1, 2, ms)
	a.End, a.Elapsed, a.Peaks, a.StartedAt = EndStopped, 0.25, nil, t0.Add(50*ms)
	a.Thresholds = []ThresholdResult{{Name: "latency.max", Demand: "<1"}}
	b.Thresholds = []ThresholdResult{{Name: "latency.max", Demand: "<1"}, {Name: "throughput", Demand: ">9"}}
	b.LastFault = "no route"
	r := testkit.Must(Merge(b, a))(t)
	if r.End != EndStopped || r.Elapsed != 1 || len(r.Peaks) != 1 || !r.StartedAt.Equal(t0) ||
		r.LastFault != "no route" || r.TestID != "t0+t1" {
		t.Errorf("%+v", r)
	}
	if len(r.Thresholds) != 2 || !r.Thresholds[0].Held || r.Thresholds[1].Held || r.Thresholds[1].Value != 2 {
		t.Errorf("thresholds %+v", r.Thresholds)
	}
}

func TestSeriesPlus(t *testing.T) {
	long, short := Series{}, Series{}
	for i := range rowsMax + 3 {
		long.add(SeriesRow{T: float64(i), Sent: 1, ErrorsByReason: map[string]uint64{"timeout": 1}})
	}
	for i := range 5 {
		short.add(SeriesRow{T: float64(i), Sent: 10, LagP99: float64(i),
			ErrorsByReason: map[string]uint64{"timeout": 2, "reset": 1}})
	}
	for name, sum := range map[string]Series{"long and short": long.plus(short), "short and long": short.plus(long)} {
		if sum.Step != 2 || len(sum.Rows) != rowsMax/2+2 {
			t.Fatalf("%s: %d rows of %v s", name, len(sum.Rows), sum.Step)
		}
		for i, want := range []uint64{22, 22, 12, 2} {
			if sum.Rows[i].Sent != want || sum.Rows[i].T != 2*float64(i) {
				t.Errorf("%s: row %d is %+v, want %d sent", name, i, sum.Rows[i], want)
			}
		}
		if got := sum.Rows[0]; got.LagP99 != 1 || got.ErrorsByReason["timeout"] != 6 || got.ErrorsByReason["reset"] != 2 {
			t.Errorf("%s: the first row is %+v", name, got)
		}
	}
	for name, sum := range map[string]Series{"nothing and something": Series{}.plus(short),
		"something and nothing": short.plus(Series{})} {
		if !reflect.DeepEqual(sum.Rows, short.Rows) || &sum.Rows[0] == &short.Rows[0] {
			t.Errorf("%s is %+v", name, sum)
		}
	}
}

func TestSeriesParts(t *testing.T) {
	var s Series
	for i := range 10 {
		s.add(SeriesRow{T: float64(i), Sent: 1})
	}
	for _, c := range []struct {
		n, rows int
		step    float64
	}{
		{20, 10, 1}, {10, 10, 1}, {9, 5, 2}, {3, 3, 4}, {1, 1, 10},
	} {
		got := s.AtMost(c.n)
		var sent uint64
		for _, r := range got.Rows {
			sent += r.Sent
		}
		if len(got.Rows) != c.rows || got.Step != c.step || sent != 10 {
			t.Errorf("at most %d: %d rows of %v s with %d sent", c.n, len(got.Rows), got.Step, sent)
		}
	}
	for after, rows := range map[float64]int{-1: 10, 0: 9, 4.5: 5, 8: 1, 9: 0, 99: 0} {
		if got := s.After(after); len(got.Rows) != rows || got.Step != 1 {
			t.Errorf("after %v there are %d rows, want %d", after, len(got.Rows), rows)
		}
	}
}

// What was given to others does not change when the run goes on, whatever is
// merged into the same rows.
func TestCourseStays(t *testing.T) {
	totals, tally := NewTotals(), NewTally()
	row := func(i int) {
		tally.Finish(&Outcome{Reason: QueueFull}, at(0))
		totals.Add(tally)
		totals.Row(time.Duration(i)*time.Second, uint64(i+1))
	}
	for i := range rowsMax { // an hour, in short
		totals.series.add(SeriesRow{T: float64(i)})
	}
	totals.due = rowsMax
	row(rowsMax)
	course := totals.Course()
	text := fmt.Sprint(course)
	for i := range 3 {
		row(rowsMax + 1 + i)
	}
	if got := fmt.Sprint(course); got != text {
		t.Errorf("a course that was given away has changed: got %s, want %s", got, text)
	}
	last := totals.Course()
	if got := last.Rows[len(last.Rows)-1]; got.ErrorsByReason["queue_full"] != 2 || got.Errors != 2 || got.Due != 2 {
		t.Errorf("the last row is %+v", got)
	}
}
