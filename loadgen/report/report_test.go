package report

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"weir/internal/data/strict"
	"weir/internal/test/testkit"
	"weir/loadgen/record"
)

// steady is the result of a run without a flaw.
func steady() *record.Result {
	return &record.Result{
		Schema: 1, TestID: "20260119T163000-a1b2c3", Verdict: record.Valid, Reasons: []string{}, End: record.EndCompleted,
		StartedAt: time.Date(2026, 1, 19, 16, 30, 0, 0, time.UTC), Profile: "constant (rps=1000)",
		URL: "http://proxy:8082/api/test", Duration: 60, Elapsed: 60,
		Due: 60_000, Sent: 60_000, Completed: 60_000, Success: 60_000,
		ErrorsByReason: map[string]uint64{}, StatusCodes: map[string]uint64{"200": 60_000},
		TargetRps: 1000, SentRps: 1000, Throughput: 999.98,
		Latency: spread(60_000, 1), LatencySuccess: spread(60_000, 1), ServiceTime: spread(60_000, 0.9),
		Lag:      spread(60_000, 0.05),
		PacerLag: spread(60_000, 0.05), Shards: []record.Shard{{Index: 0, Of: 1}}, ScheduleHash: "9f86d081884c7d65",
		Peaks: []record.Peak{},
		Loops: 1, Connections: record.Connections{Max: 10_000, Peak: 5, Opened: 5},
		Thresholds: []record.ThresholdResult{}, Series: record.Series{Step: 1, Rows: []record.SeriesRow{}},
	}
}

// refused is the result of a run in which every request was rate limited.
func refused() *record.Result {
	r := steady()
	r.Success, r.RateLimited, r.StatusCodes = 0, r.Success, map[string]uint64{"429": r.Success}
	r.LatencySuccess, r.LatencyRateLimited = record.Summary{}, r.LatencySuccess
	return r
}

// troubled is the result of a run in which everything went wrong.
func troubled() *record.Result {
	r := steady()
	r.Verdict, r.End, r.Elapsed = record.Invalid, record.EndStopped, 45.25
	r.Reasons = []string{"only 90.00 % of the due requests were sent in time",
		"the generator was a little late while connections were idle: pacer lag p99 2.00 ms"}
	r.Shards, r.Peaks = []record.Shard{{Index: 0, Of: 3}, {Index: 2, Of: 3}},
		[]record.Peak{{Start: 10, End: 12.5, Rps: 3000}}
	r.PacerLag, r.BusyLag, r.DialLag = spread(40_000, 0.5), spread(30_000, 20), spread(70, 3)
	r.Due, r.Sent, r.Unconnected, r.Dropped, r.Unsent, r.Abandoned = 45_250, 39_506, 494, 5_000, 250, 12
	r.Completed, r.Success, r.RateLimited, r.Shed, r.Errors = 44_988, 1_000, 36_000, 2_000, 5_988
	r.ErrorsByReason = map[string]uint64{"queue_full": 5_000, "timeout": 494, "connect_failed": 494}
	r.LastFault = "dial tcp 10.0.0.1:8082: connect: cannot assign requested address"
	r.Retried, r.SentLate, r.SentRps, r.Throughput = 3, 77, 883.9, 12.34
	r.LatencyRateLimited, r.LatencyShed, r.LatencyErrors = spread(36_000, 0.5), spread(2_000, 300), spread(5_988, 5000)
	r.Loops, r.Connections = 2, record.Connections{Max: 64, Peak: 64, Opened: 70, Failed: 494}
	r.Thresholds = []record.ThresholdResult{
		{Name: "latency.p95", Demand: "<0.05", Value: 0.0123456, Held: true},
		{Name: "errorShare", Demand: "<0.01", Value: 0.1331, Held: false},
	}
	return r
}

// spread is a made-up distribution around milliseconds.
func spread(n uint64, ms float64) record.Summary {
	s := ms / 1000
	plain := strict.RoundTo15Digits
	return record.Summary{Count: n, Mean: plain(s * 1.1), Min: s / 2, P50: s, P90: plain(s * 1.5), P95: s * 2,
		P99: plain(s * 4), P999: plain(s * 9), Max: s * 20}
}

func TestSummary(t *testing.T) {
	for name, r := range map[string]*record.Result{"steady": steady(), "refused": refused(), "troubled": troubled()} {
		t.Run(name, func(t *testing.T) {
			testkit.Golden(t, name+".txt", Summary(r))
		})
	}
}

// A result comes back from its JSON as it was.
func TestJSONRoundTrip(t *testing.T) {
	for name, r := range map[string]*record.Result{"steady": steady(), "troubled": troubled()} {
		text, err := JSON(r)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var back record.Result
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatalf("%s: %v in %s", name, err, text)
		}
		if !reflect.DeepEqual(&back, r) {
			t.Errorf("%s comes back as %+v", name, back)
		}
	}
}

func TestJSONGolden(t *testing.T) {
	text := testkit.Must(JSON(troubled()))(t)
	testkit.Golden(t, "troubled.json", string(text))
}

func TestProgress(t *testing.T) {
	running := record.Status{
		Phase: record.PhaseRunning, Elapsed: 12.34, Duration: 60, Success: 12_000, RateLimited: 340, Errors: 5,
		CurrentRps: 999.6, TargetRps: 1000, InFlight: 3, Verdict: record.Valid,
	}
	running.Latency.P50, running.Latency.P99, running.Lag.P99 = 0.0004, 0.0012, 85e-6
	first := running
	first.Elapsed, first.Latency.P99 = 0.56, 0
	shedding := running
	shedding.Shed, shedding.Latency.P99 = 7000, 0
	finishing := running
	finishing.Phase, finishing.InFlight = record.PhaseFinishing, 1
	for _, c := range []struct {
		status record.Status
		want   string
	}{
		{record.Status{Phase: record.PhaseWaiting}, "waiting for the start"},
		{first, "0.5 s of 60 s  1,000/s of 1,000/s  ok 12,000  limited 340  errors 5"},
		{running, "12 s of 60 s  1,000/s of 1,000/s  ok 12,000  limited 340  errors 5  p50 400 µs  p99 1.20 ms  lag p99 " +
			"85.0 µs  generator valid"},
		{shedding, "12 s of 60 s  1,000/s of 1,000/s  ok 12,000  limited 340  shed 7,000  errors 5"},
		{finishing, "waiting for 1 answer  ok 12,000  limited 340  errors 5  p50 400 µs  p99 1.20 ms  lag p99 85.0 " +
			"µs  generator valid"},
	} {
		if got := Progress(&c.status); got != c.want {
			t.Errorf("%s:\n got %q\nwant %q", c.status.Phase, got, c.want)
		}
	}
}

func TestBar(t *testing.T) {
	for _, c := range []struct {
		share float64
		want  string
	}{
		{-1, "[    ]"}, {0, "[    ]"}, {0.49, "[=   ]"}, {0.5, "[==  ]"}, {1, "[====]"}, {7, "[====]"},
	} {
		if got := Bar(c.share, 4); got != c.want {
			t.Errorf("bar of %v is %q, want %q", c.share, got, c.want)
		}
	}
}

func TestFit(t *testing.T) {
	for _, c := range []struct {
		line  string
		width int
		want  string
	}{
		{"85 µs", 5, "85 µs"}, {"85 µs", 4, "85 µ"}, {"85 µs", 0, "85 µs"}, {"85 µs", -1, "85 µs"},
	} {
		if got := Truncate(c.line, c.width); got != c.want {
			t.Errorf("%q in %d places is %q, want %q", c.line, c.width, got, c.want)
		}
	}
}
