package scenario

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/bench/lab/result"
	"weir/bench/lab/result/resulttest"
	"weir/bench/lab/rig"
	"weir/bench/lab/rig/rigtest"
	"weir/internal/program/service"
	"weir/internal/test/testkit"
	"weir/loadgen/record"
)

func TestRateRepeats(t *testing.T) {
	s := find("bursts")
	for _, c := range []struct {
		at   time.Duration
		want float64
	}{{0, limit}, {45*time.Minute - 1, limit}, {45 * time.Minute, 3 * limit}, {time.Hour, limit}, {-1, 3 * limit},
		{-16 * time.Minute, limit}, {-61 * time.Minute, 3 * limit}, {-25 * time.Hour, limit}} {
		if got := s.rateAt(c.at); got != c.want {
			t.Errorf("at %v: %v, want %v", c.at, got, c.want)
		}
	}
}

func TestCompression(t *testing.T) {
	bursts, failure := find("bursts"), find("failure")
	if got := bursts.steps(180)[:2]; !slices.Equal(got,
		[]rig.RateStep{{For: 15 * time.Second, Rate: 1000}, {For: 5 * time.Second, Rate: 3000}}) {
		t.Errorf("compressed: %v", got)
	}
	if got := bursts.peakEnds(180); !slices.Equal(got, []time.Duration{20 * time.Second}) {
		t.Errorf("peaks end at %v", got)
	}
	if got := failure.steps(180)[0].For; got != 36*time.Second {
		t.Errorf("a failure is not compressed: %v", got)
	}
}

func TestMatrix(t *testing.T) {
	names := func(cases []Case) (list []string) {
		for _, c := range cases {
			list = append(list, c.String())
		}
		return list
	}
	got := names(Matrix([]string{"steady", "failure"}, []string{"off", "token"}, stores, []bool{false, true}))
	want := []string{"steady-off-simulated", "steady-off-simulated-gate", "steady-token-simulated",
		"steady-token-simulated-advisor", "steady-token-redis", "steady-token-redis-advisor",
		"failure-off-simulated", "failure-off-simulated-gate", "failure-token-redis", "failure-token-redis-advisor"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if n := len(All()); n != 3*(2+6*2*2)+2+6*2 {
		t.Errorf("the whole matrix has %d cases", n)
	}
}

func TestPermits(t *testing.T) {
	for _, c := range []struct {
		proxy rig.Metrics
		want  float64
	}{
		{rig.Metrics{"ratelimiter_window_seconds": 2, "ratelimiter_current_limit": 500}, 250},
		{rig.Metrics{"ratelimiter_window_seconds": 0, "ratelimiter_current_limit": 7, "ratelimiter_token_fill_rate": 7}, 7},
		{rig.Metrics{`rate_limit_algorithm{algorithm="off"}`: 1}, math.NaN()},
	} {
		if got := permits(c.proxy); got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("%v: %v, want %v", c.proxy, got, c.want)
		}
	}
}

// TestSamples reads three moments, of which the first is before the load.
func TestSamples(t *testing.T) {
	start := time.Unix(1000, 0)
	read := func(at time.Duration, forwarded, rejected, fast, slow float64) reading {
		return reading{start.Add(at), rig.Metrics{`ratelimiter_requests_total{decision="forwarded"}`: forwarded,
			`ratelimiter_requests_total{decision="rejected"}`:         rejected,
			`ratelimiter_gate_shed_total{target="1",class="default"}`: rejected / 2,
			"ratelimiter_window_seconds":                              1, "ratelimiter_current_limit": 9,
			`ratelimiter_mode{type="failopen"}`:  1,
			"ratelimiter_adaptive_predicted_rps": 8},
			rig.Metrics{"target_queue_length": 3,
				`http_server_requests_seconds_bucket{method="GET",uri="/api/test",status="200",le="0.1"}`:  fast,
				`http_server_requests_seconds_bucket{method="GET",uri="/api/test",status="200",le="+Inf"}`: slow,
				`http_server_requests_seconds_bucket{method="GET",uri="/metrics",status="200",le="+Inf"}`:  1e9}}
	}
	list := samples([]reading{read(-time.Second, 0, 0, 0, 0), read(-100*time.Millisecond, 0, 0, 0, 0),
		read(400*time.Millisecond, 50, 100, 50, 50), read(5*time.Second, 1e6, 0, 0, 0)}, start, time.Second)
	want := Sample{At: 400 * time.Millisecond, Forwarded: 100, Rejected: 200, Shed: 100, Limit: 9, Forecast: 8,
		TargetP95: 0.095, Queue: 3, FailOpen: true}
	if len(list) != 1 || math.Abs(list[0].TargetP95-want.TargetP95) > 1e-9 {
		t.Fatalf("got %+v", list)
	}
	if list[0].TargetP95 = want.TargetP95; list[0] != want {
		t.Fatalf("got %+v, want %+v", list[0], want)
	}
}

// course makes samples a second apart.
func course(queue ...float64) (list []Sample) {
	for i, q := range queue {
		list = append(list, Sample{At: time.Duration(i+1) * time.Second, Queue: q, TargetP95: 0.01, Forwarded: 1000,
			Rejected: 1000, Limit: math.NaN(), Forecast: math.NaN()})
	}
	return list
}

func TestRecovery(t *testing.T) {
	for _, c := range []struct {
		queue []float64
		end   time.Duration
		want  time.Duration
	}{
		{[]float64{0, 500, 500, 0, 0}, 3 * time.Second, time.Second},
		{[]float64{0, 500, 500, 0, 400, 0, 0}, 3 * time.Second, 3 * time.Second},
		{[]float64{0, 500, 500, 300, 300}, 3 * time.Second, -1},
		{[]float64{0, 0, 0, 0, 0}, 2500 * time.Millisecond, 500 * time.Millisecond},
	} {
		if got := recovery(course(c.queue...), c.end); got != c.want {
			t.Errorf("%v after %v: %v, want %v", c.queue, c.end, got, c.want)
		}
	}
	slow := course(0, 0, 0)
	slow[1].TargetP95, slow[2].TargetP95 = 1, 1
	if got := recovery(slow, time.Second); got != -1 {
		t.Errorf("slow answers pass for recovered: %v", got)
	}
}

// sampleRun is a run of a hundred requests per second of which a fifth each was
// refused, answered 503, and lost.
func sampleRun(c Case, queue ...float64) *Run {
	return &Run{Case: c, Compress: 180, Samples: course(queue...),
		Load: &rig.LoadResult{Result: record.Result{Sent: 2000, Success: 800, RateLimited: 400, Shed: 100, Errors: 700,
			StatusCodes: map[string]uint64{"200": 800, "429": 400, "503": 400}, Verdict: "VALID"}}}
}

func TestMeasure(t *testing.T) {
	r := sampleRun(Case{Scenario: "overload", Algorithm: "token", Store: "simulated"}, 0, 9, 500, 0, 0, 0, 0, 0, 0, 0,
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	r.Compress = 120
	r.Samples[2].TargetP95 = 0.5
	r.measure(find("overload"), 600)
	m := r.Metrics
	if m.Answered != 40 || m.Goodput != 30 || m.Refused != 0.2 || m.Shed != 0.05 || m.Failed5xx != 0.15 ||
		math.Abs(m.Lost-0.2) > 1e-9 {
		t.Errorf("shares: %+v", m)
	}
	// The target had room for 500 of the 1000 that were refused each second, of
	// 2000 offered.
	if m.Needless != 0.25 || m.QueueMax != 500 || m.TargetP95 != 0.5 || m.Overload != 0.05 {
		t.Errorf("over time: %+v", m)
	}
	if m.Peaks != 1 || m.Recovery != time.Second || m.Resumed != 0 || r.protected() {
		t.Errorf("peaks: %+v", m)
	}
}

func TestResumed(t *testing.T) {
	r := sampleRun(Case{Scenario: "failure", Algorithm: "token", Store: "redis"}, 0, 0, 0, 0, 0, 0)
	r.Events = []FaultEvent{{time.Second, killStore}, {3 * time.Second, restartStore}}
	r.Samples[3].FailOpen = true
	if got := r.resumed(); got != 2*time.Second {
		t.Errorf("limiting was back after %v, want 2s", got)
	}
	for i := range r.Samples {
		r.Samples[i].Rejected = 0
	}
	if got := r.resumed(); got >= 0 {
		t.Errorf("never back, but %v", got)
	}
}

func TestFindings(t *testing.T) {
	runs := []*Run{{Case: Case{Algorithm: "off"}}, {Case: Case{Algorithm: "fixed", Store: "simulated"}},
		{Case: Case{Algorithm: "token", Store: "redis", Advisor: true}}}
	runs[0].Metrics = Metrics{Goodput: 9000}
	runs[1].Metrics = Metrics{Goodput: 2000, Overload: 0.5, Needless: 0.1, Latency: record.Summary{P99: 1}}
	runs[2].Metrics = Metrics{Goodput: 1000, Needless: 0.2, Latency: record.Summary{P99: 2}}
	got := strings.Join(findings(runs), "\n")
	testkit.Contains(t, got, "**token (redis) with advisor** with 1000/s", "**fixed** with 1000.0 ms",
		"**fixed** with 10.0 %")
	gated := &Run{Case: Case{Algorithm: "off", Store: "simulated", Gate: true}, Metrics: Metrics{Goodput: 1500, Shed: 0.5}}
	if got := findings(append(runs, gated))[0]; !strings.Contains(got, "**the gate alone** with 1500/s") {
		t.Errorf("the gate sheds, and nothing fails, but: %s", got)
	}
	runs[2].Metrics.Failed5xx = 0.1
	if got := findings(runs)[0]; !strings.HasPrefix(got, "None protected") {
		t.Errorf("no run protected the target, but: %s", got)
	}
}

func TestReportAndPage(t *testing.T) {
	dir, s := t.TempDir(), find("failure")
	r := sampleRun(Case{Scenario: "failure", Algorithm: "token", Store: "redis", Advisor: true}, 0, 0, 0, 0, 0, 0)
	r.Events = []FaultEvent{{time.Second, killStore}, {3 * time.Second, restartStore}, {4 * time.Second, slowTarget}}
	r.measure(s, 0)
	if cells := table([]*Run{r}); len(cells.Rows[0]) != len(cells.Columns) {
		t.Fatalf("the report is no table:\n%v", cells)
	}
	c, files := newChapter(s, []*Run{r}, dir)
	if len(files) != 1 {
		t.Fatalf("chapter: %v", files)
	}
	page := filepath.Join(dir, "page.html")
	if err := (&result.Page{Chapters: []result.Chapter{c}}).Write(page); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil || bytes.Count(text, []byte("<svg")) != 3 || !bytes.Contains(text, []byte("store killed")) ||
		bytes.Contains(text, []byte("http://www.w3.org/1999/xhtml\" src")) {
		t.Fatalf("the page: %v\n%s", err, text)
	}
}

func TestPlayRefuses(t *testing.T) {
	for _, c := range []struct {
		order Options
		names []string
		want  string
	}{
		{Options{Algorithms: algorithms, Stores: stores, Advisors: []bool{false}, Compress: 1}, []string{"storm"},
			`no scenario "storm"`},
		{Options{Algorithms: []string{"token"}, Stores: []string{"simulated"}, Advisors: []bool{false}, Compress: 1},
			[]string{"failure"}, "nothing to play"},
	} {
		_, err := rigtest.Run(t, func(l *rig.Lab) { c.order.Run(l, c.names) })
		resulttest.RequireExit(t, c.want, err, 2, c.want)
	}
	var o Options
	s := service.NewSettings("bench")
	o.Register(s)
	_, err := s.Parse([]string{"-algorithm", "fixed,best"}, func(string) string { return "" })
	resulttest.RequireError(t, "an unknown algorithm", err, "best")
}
