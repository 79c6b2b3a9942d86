package report

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/data/chart"
	"weir/internal/data/chart/charttest"
	"weir/internal/test/testkit"
	"weir/loadgen/record"
)

func written(t *testing.T, r *record.Result) string {
	t.Helper()
	b := testkit.Must(HTML(r))(t)
	return string(b)
}

// The page contains the expected information at the expected places.
func TestPage(t *testing.T) {
	for name, c := range map[string]struct {
		result *record.Result
		want   []string
		never  []string
	}{
		"a burst": {burst(t, 30), []string{
			`<span class="badge degraded" id="verdict">Generator: degraded</span>`,
			`<span class="badge failing" id="health">Target failing: `, "40 requests missed their time by more than 10 ms",
			"burst (baseRps=100, spikeRps=500", "http://proxy:8082/api/test", "2026-01-19 16:30:00 UTC", "9f86d081884c7d65",
			"207/s", "4,411", "Shed (503 of a gate)", "shed (503)", "71.15 %", "timeout", "status 503", ">held<", ">MISSED<",
			"rejectedShare", "&lt;0.05",
			"Peaks of the schedule", "22.000 s", "Errors by reason", "waited for a new connection", `&lt;/script&gt;&lt;b&gt;`,
		}, []string{"</script>", "Stopped"}},
		"without a flaw": {steady(), []string{`badge valid" id="verdict">Generator: valid`,
			`badge healthy" id="health">Target healthy: 100.0 % answered<`, "1,000/s"},
			[]string{"Errors by reason", "Thresholds", "Peaks of", `<ul class="reasons`, "Stopped", "Shards"}},
		"troubled": {troubled(), []string{`badge invalid" id="verdict">Generator: invalid`,
			`badge failing" id="health">Target failing: 2.2 % answered, 80.0 % rate limited, 4.4 % shed, 13.3 % failed<`,
			"after 45.2 s", "shards 0, 2 of 3", "queue_full",
			"sent again, because the target",
			"The last connection that failed: dial tcp 10.0.0.1:8082", "Answers by status"}, nil},
		"refused": {refused(),
			[]string{`badge refusing" id="health">Target refusing: 0.0 % answered, 100.0 % rate limited<`,
				`badge valid" id="verdict">Generator: valid`}, nil},
		"nothing at all": {&record.Result{}, []string{"nothing to show", "<dd class=\"violet\">–</dd>"},
			[]string{"Answers by status", "The last connection"}},
	} {
		text := written(t, c.result)
		testkit.Contains(t, text, c.want...)
		for _, never := range c.never {
			if strings.Contains(text, never) {
				t.Errorf("%s: the page has %q", name, never)
			}
		}
	}
}

// The page fetches nothing and runs nothing.
func TestPageSelfContained(t *testing.T) {
	text := written(t, burst(t, 30))
	for _, pattern := range []string{`<script`, `<link[^>]+href="[^d]`, `\ssrc=`, `url\(`, `@import`, `<iframe`,
		`\son\w+=`} {
		if found := regexp.MustCompile(pattern).FindString(text); found != "" {
			t.Errorf("the page has %q", found)
		}
	}
}

// The same result gives the same page and the same JSON, also for concurrent requests.
func TestPageSameBytes(t *testing.T) {
	r := burst(t, 30)
	want := written(t, burst(t, 30))
	wantJSON := testkit.Must(JSON(burst(t, 30)))(t)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if b, err := HTML(r); err != nil || string(b) != want {
				t.Errorf("the same result gives another page, error %v", err)
			}
			if b, err := JSON(r); err != nil || !bytes.Equal(b, wantJSON) {
				t.Errorf("the same result gives another JSON, error %v", err)
			}
		})
	}
	all.Wait()
}

// A day's run makes a page that a browser can carry.
func TestPageOfADay(t *testing.T) {
	r := burst(t, 30)
	r.Elapsed, r.Series.Step = 86400, 32
	rows := r.Series.Rows
	r.Series.Rows = nil
	for i := range 2700 {
		row := rows[i%len(rows)]
		row.T = 32 * float64(i)
		r.Series.Rows = append(r.Series.Rows, row)
	}
	for i := range 5000 {
		r.Peaks = append(r.Peaks, record.Peak{Start: float64(i), End: float64(i) + 0.5, Rps: 500})
	}
	text := written(t, r)
	if len(text) > 1<<20 {
		t.Errorf("the page has %d bytes", len(text))
	}
	if want := fmt.Sprintf("and %d more", len(r.Peaks)-peaksShown); !strings.Contains(text, want) {
		t.Errorf("the page lacks %q", want)
	}
}

// Chromium shows the figures and the plots.
func TestPageInBrowser(t *testing.T) {
	dom := charttest.DOM(t, charttest.File(t, []byte(written(t, burst(t, 30)))), time.Second)
	testkit.Contains(t, dom, ">Generator: degraded<", ">71.1 %<", ">3.52 ms<", "mean 97.7 ms",
		">peak of the schedule</text>", ">99.9 %</text>")
	if n := strings.Count(dom, `class="chart"`); n != 8 {
		t.Errorf("the browser shows %d plots, want 8", n)
	}
}

func TestPlots(t *testing.T) {
	for name, c := range map[string]struct {
		result *record.Result
		titles string
	}{
		"with errors": {burst(t, 30),
			"Rate|Outcomes|Errors by reason|Latency|Latency distribution|Latency by percentile|Lag|Lag by cause"},
		"without": {steady(), "Rate|Outcomes|Latency|Latency distribution|Latency by percentile|Lag|Lag by cause"},
	} {
		var titles []string
		for _, p := range plots(c.result) {
			titles = append(titles, p.Title)
		}
		if got := strings.Join(titles, "|"); got != c.titles {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// Every request has its place in the distribution, and in the curve by cause.
func TestDistribution(t *testing.T) {
	r := burst(t, 30)
	for _, bars := range distribution(r).Bars[:1] { // the one that holds all
		sum := 0.0
		for _, h := range bars.Heights {
			sum += h
		}
		if sum != float64(r.Completed) {
			t.Errorf("the bars hold %v of %d requests", sum, r.Completed)
		}
	}
	lines := lagByCause(r).Lines
	if len(lines) != 3 {
		t.Fatalf("%d causes", len(lines))
	}
	for i, n := range []uint64{r.PacerLag.Count, r.BusyLag.Count, r.DialLag.Count} {
		y := lines[i].Y
		if y[0] != float64(n) || y[len(y)-1] != 0 || len(y) != len(lines[i].X) {
			t.Errorf("%q begins with %v of %d and ends with %v", lines[i].Name, y[0], n, y[len(y)-1])
		}
		for j := 1; j < len(y); j++ {
			if y[j] > y[j-1] {
				t.Errorf("%q rises from %v to %v", lines[i].Name, y[j-1], y[j])
			}
		}
	}
}

func TestIntervals(t *testing.T) {
	for _, c := range []struct{ low, high float64 }{{0, 0}, {1e-6, 1e-6}, {0.001, 0.001}, {0.0012, 0.05}, {1e-4, 10},
		{3, 1}} {
		e := intervals(c.low, c.high)
		if len(e) < 2 || e[0] > max(c.low, 1e-6)*(1+1e-9) || e[len(e)-1] <= c.high {
			t.Errorf("from %v to %v: %v", c.low, c.high, e)
		}
		for i := 1; i < len(e); i++ {
			if math.Abs(e[i]/e[i-1]-math.Pow(10, 0.1)) > 1e-9 {
				t.Errorf("from %v to %v: interval %d is from %v to %v", c.low, c.high, i, e[i-1], e[i])
			}
		}
	}
}

// Of a second in which the schedule ended only the part before it counts.
func TestRateOfPartialSecond(t *testing.T) {
	row := func(at float64, n uint64) record.SeriesRow {
		return record.SeriesRow{T: at, Due: n, Sent: n, Success: n}
	}
	for _, c := range []struct {
		elapsed float64
		last    uint64
		want    float64
	}{
		{1.25, 25, 100}, // a quarter of a second
		{2, 100, 100},   // a whole one
		{1.001, 1, 1},   // too short for a rate
		{0.9, 3, 3},     // sent after the end
		{1.5, 50, 100},
	} {
		r := &record.Result{Elapsed: c.elapsed,
			Series: record.Series{Step: 1, Rows: []record.SeriesRow{row(0, 100), row(1, c.last)}}}
		course := newCourse(r)
		got := course.rate().Lines[0].Y
		if math.Abs(got[1]-c.want) > 1e-9 {
			t.Errorf("%d in the second that ends at %v: %v per second, want %v", c.last, c.elapsed, got[1], c.want)
		}
	}
}

// What came after the end of the schedule is shown when it is worth it.
func TestTail(t *testing.T) {
	for late, rows := range map[uint64]int{0: 1, 9: 1, 10: 3} {
		r := &record.Result{Elapsed: 1, Completed: 1000, Series: record.Series{Step: 1, Rows: []record.SeriesRow{
			{T: 0, Due: 1000, Sent: 1000, Success: 1000 - late}, {T: 1}, {T: 2, Errors: late},
		}}}
		course := newCourse(r)
		if len(course.rows) != rows {
			t.Errorf("with %d late answers of 1000 there are %d rows, want %d", late, len(course.rows), rows)
		}
		for i, v := range course.rate().Lines[0].Y[1:] {
			if v == v {
				t.Errorf("in second %d after the end %v are sent per second", i+1, v)
			}
		}
	}
}

// Seconds in which nothing was measured are gaps, not zeros.
func TestGaps(t *testing.T) {
	r := &record.Result{Elapsed: 2, Series: record.Series{Step: 1, Rows: []record.SeriesRow{{T: 0, LatencyP50: 0.1},
		{T: 1}}}}
	course := newCourse(r)
	for _, line := range course.latency().Lines {
		if line.Name == "p50" && (line.Y[0] != 0.1 || !math.IsNaN(line.Y[1])) {
			t.Errorf("p50 is %v", line.Y)
		}
	}
}

func TestErrorsBeyondTheDrawn(t *testing.T) {
	r := burst(t, 30)
	r.ErrorsByReason = map[string]uint64{}
	row := &r.Series.Rows[0]
	row.ErrorsByReason = map[string]uint64{}
	for i := range uint64(8) {
		reason := fmt.Sprintf("r%d", i)
		r.ErrorsByReason[reason], row.ErrorsByReason[reason] = 10+i, 10+i
	}
	course := newCourse(r)
	stack := course.errors().Stack
	if len(stack) != reasonsDrawn+1 || stack[0].Name != "r7" || stack[reasonsDrawn].Name != "others" ||
		stack[reasonsDrawn].Y[0] != 10+11+12 {
		t.Errorf("%d reasons, the first %q, the last %q with %v", len(stack), stack[0].Name, stack[len(stack)-1].Name,
			stack[len(stack)-1].Y[0])
	}
	if got := stack[reasonsDrawn].Color; got != chart.Grey {
		t.Errorf("the others have the tone %v, want %v", got, chart.Grey)
	}
}

func TestSpark(t *testing.T) {
	course := &record.Series{Step: 1}
	for _, n := range []uint64{900, 0, 100, 350, 700} {
		course.Rows = append(course.Rows, record.SeriesRow{Sent: n})
	}
	for _, c := range []struct {
		course *record.Series
		n      int
		want   string
	}{
		{course, 10, "█▁▁▃▆"}, {course, 4, "▁▂▄█"}, {course, 1, ""}, {&record.Series{}, 5, ""},
		{&record.Series{Rows: make([]record.SeriesRow, 3)}, 5, ""},
	} {
		if got := Sparkline(c.course, c.n); got != c.want {
			t.Errorf("the last %d of %d rows are %q, want %q", c.n, len(c.course.Rows), got, c.want)
		}
	}
}

func BenchmarkHTML(b *testing.B) {
	r := burst(b, 30)
	var size int
	for b.Loop() {
		text := testkit.Must(HTML(r))(b)
		size = len(bytes.TrimSpace(text))
	}
	b.ReportMetric(float64(size), "bytes")
}
