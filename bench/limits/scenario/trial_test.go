package scenario

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-json"

	"weir/bench/lab/result"
	"weir/bench/lab/result/resulttest"
	"weir/bench/lab/rig"
	"weir/bench/lab/rig/rigtest"
	"weir/loadgen/record"
)

func TestExact(t *testing.T) {
	load := func(sent, ok, limited, failed uint64) *rig.LoadResult {
		return &rig.LoadResult{Result: record.Result{Sent: sent, Success: ok, RateLimited: limited, Errors: failed}}
	}
	for _, c := range []struct {
		name     string
		load     *rig.LoadResult
		admitted uint64
		missed   int
	}{
		{"exact", load(10, 4, 6, 0), 1000, 0},
		{"at the bound", load(10, 4, 6, 0), 1005, 0},
		{"above it", load(10, 4, 6, 0), 1006, 1},
		{"below it", load(10, 4, 6, 0), 994, 1},
		{"a failure", load(10, 4, 5, 1), 1000, 2},
		{"one without an answer", load(10, 4, 5, 0), 1000, 1},
	} {
		o := outcome{loads: []*rig.LoadResult{c.load}}
		for n := 1; n < accuracySeconds; n++ {
			s := second{n: n, admitted: c.admitted}
			if n <= accuracyFrom || n > accuracyTo {
				s.admitted = 5000 // which is not counted
			}
			o.seconds = append(o.seconds, s)
		}
		var e result.Expectations
		if o.exact(&e, "fixed"); len(e.Missed()) != c.missed {
			t.Errorf("%s: %q", c.name, e.Missed())
		}
	}
}

// In short the load starts in seconds 1 and 2, and Redis is unavailable in second 6.
var short = script{rig.RedisStore, 10, 4, 6}

func good() ([]second, []*rig.LoadResult) {
	seconds := []second{{n: 1, admitted: 1400}, {n: 3, admitted: 1000, refused: 2000},
		{n: 4, admitted: 1000, refused: 2000},
		{n: 5, admitted: 2500, refused: 400}, {n: 6, admitted: 3000}, {n: 9, admitted: 1000, refused: 2000}}
	return seconds, []*rig.LoadResult{{Result: record.Result{Sent: 10}}, {Result: record.Result{Sent: 10}}}
}

func TestShowLost(t *testing.T) {
	for _, c := range []struct {
		name, want string
		spoil      func(s []second, l []*rig.LoadResult)
	}{
		{"as promised", "", func([]second, []*rig.LoadResult) {}},
		{"too many", "1006.7 admitted", func(s []second, _ []*rig.LoadResult) { s[1].admitted = 1020 }},
		{"too few", "993.3 admitted", func(s []second, _ []*rig.LoadResult) { s[5].admitted = 980 }},
		{"refused while unavailable", "second 6: 1 refused", func(s []second, _ []*rig.LoadResult) { s[4].refused = 1 }},
		{"failed", "3 requests failed", func(_ []second, l []*rig.LoadResult) { l[1].Errors = 3 }},
		{"late", "after 900 ms", func(_ []second, l []*rig.LoadResult) { l[0].LatencyRateLimited.Max = 0.9 }},
	} {
		seconds, loads := good()
		c.spoil(seconds, loads)
		_, err := rigtest.Run(t, func(l *rig.Lab) { (&outcome{loads: loads, seconds: seconds}).showLost(l, short) })
		resulttest.RequireError(t, c.name, err, c.want)
	}
}

// What is off under a load that was not as planned proves nothing: status 3, no record.
func TestInconclusive(t *testing.T) {
	seconds, loads := good()
	loads[1].Verdict, loads[1].Reasons = "INVALID", []string{"pacer lag p99 20 ms"}
	judge := func() (string, error) {
		return rigtest.Run(t, func(l *rig.Lab) { (&outcome{loads: loads, seconds: seconds}).showLost(l, short) })
	}
	_, err := judge()
	resulttest.RequireError(t, "as promised, though the load was not as planned", err, "")
	seconds[1].admitted, loads[0].Errors = 900, 3
	out, err := judge()
	resulttest.RequireExit(t, "off, and the load was not as planned", err, 3, "pacer lag p99 20 ms")
	if !errors.Is(err, result.ErrNotRecorded) || !strings.Contains(out, "3 requests failed") ||
		!strings.Contains(out, "Inconclusive, as the load was not as planned") {
		t.Errorf("%v, said %s", err, out)
	}
	loads[1].Verdict = "DEGRADED"
	if _, err := judge(); !errors.Is(err, result.ErrMissed) {
		t.Errorf("off under a load that can be judged: %v", err)
	}
}

func TestStates(t *testing.T) {
	var got []string
	for n := 1; n <= 9; n++ {
		got = append(got, script{total: 10, kill: 3, restart: 6}.at(n))
	}
	want := []string{"up (load starts)", "up (load starts)", up, "changing", down, down, "changing", "changing", up}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// outageResult is an outage from second 2 to 4 of a run of 6.
const outageResult = `{"requestsSent":12000,"success":8000,"errors":4000,"statusCodes":{"200":8000,"502":4000},
 "series":{"rows":[{"t":0,"success":2000},{"t":1,"success":2000},{"t":2,"errors":2000},{"t":3,"errors":2000},{"t":4,"success":2000},{"t":5,"success":2000}]}}`

func TestShowOutage(t *testing.T) {
	for _, c := range []struct {
		name, from, to, problem string
	}{
		{"as it should be", "", "", ""},
		{"a failure before", `{"t":0,"success":2000}`, `{"t":0,"success":1999,"errors":1}`, "1 failures in second 0"},
		{"a failure long after", `{"t":5,"success":2000}`, `{"t":5,"errors":1}`, "1 failures in second 5"},
		{"a strange status", `"502":4000`, `"502":3999,"500":1`, "status 500"},
		{"no answer", `"502":4000`, `"502":3990`, "10 requests without an answer"},
		{"too many", `"errors":4000`, `"errors":9000`, "9000 failures"},
	} {
		var l rig.LoadResult
		if err := json.Unmarshal([]byte(strings.Replace(outageResult, c.from, c.to, 1)), &l); err != nil {
			t.Fatal(err)
		}
		o := outcome{loads: []*rig.LoadResult{&l}, events: []FaultEvent{{2 * time.Second, killTarget},
			{4 * time.Second, restartTarget}}}
		_, err := rigtest.Run(t, o.showOutage)
		resulttest.RequireError(t, c.name, err, c.problem)
	}
}
