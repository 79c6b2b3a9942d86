package history

import (
	"fmt"
	"math"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// shape returns the rate in the test's server.
func shape(at time.Time) float64 {
	return 100 + 50*math.Sin(2*math.Pi*float64(at.Unix())/86400)
}

// startPrometheus starts a server that has ratelimiter_requests_total by the minute since from,
// made by promtool, and returns its address.
func startPrometheus(t *testing.T, from, to time.Time) *url.URL {
	t.Helper()
	folder := t.TempDir()
	text := filepath.Join(folder, "samples")
	testkit.WriteFile(t, text, string(samples(from, to)))
	data := filepath.Join(folder, "data")
	testkit.RequireExit(t, exec.Command(testkit.FindOrSkip(t, "promtool"), "tsdb", "create-blocks-from", "openmetrics",
		"-q", text, data), 0)
	config := filepath.Join(folder, "prometheus.yml")
	testkit.WriteFile(t, config, "")
	cmd := exec.Command(testkit.FindOrSkip(t, "prometheus"), "--config.file="+config, "--storage.tsdb.path="+data,
		"--web.listen-address=127.0.0.1:0", "--storage.tsdb.retention.time=100y")
	p := testkit.Launch(t, cmd, `msg="Listening on" address=`)
	p.Logged("Server is ready to receive web requests")
	return &url.URL{Scheme: "http", Host: p.Addr}
}

// samples returns the counter as OpenMetrics text, without one hour.
func samples(from, to time.Time) []byte {
	text := []byte("# TYPE ratelimiter_requests counter\n")
	gap := gapOf(to)
	total := 0.0
	for at := from; !at.After(to); at = at.Add(time.Minute) {
		total += 60 * shape(at)
		if at.After(gap) && at.Before(gap.Add(time.Hour)) {
			continue
		}
		text = fmt.Appendf(text, "ratelimiter_requests_total{decision=\"forwarded\"} %f %d\n", 0.75*total, at.Unix())
		text = fmt.Appendf(text, "ratelimiter_requests_total{decision=\"rejected\"} %f %d\n", 0.25*total, at.Unix())
	}
	return append(text, "# EOF\n"...)
}

// gapOf returns the start of the missing hour.
func gapOf(to time.Time) time.Time { return to.Add(-30 * time.Hour) }

// All history of a real server is loaded, and the rates are correct.
func TestPrometheus(t *testing.T) {
	now := time.Date(2026, 1, 19, 16, 32, 10, 0, time.UTC)
	from := now.Truncate(time.Minute).Add(-4 * 24 * time.Hour)
	s := Source{URL: startPrometheus(t, from, now.Truncate(time.Minute)),
		Query: "sum(rate(ratelimiter_requests_total[2m]))"}
	rows, err := s.Load(t.Context(), now, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	coarse, fine, inGap := 0, 0, 0
	for i, r := range rows {
		if i > 0 && !r.At.After(rows[i-1].At) {
			t.Fatalf("row %d at %s follows %s", i, r.At, rows[i-1].At)
		}
		switch r.Interval {
		case fineStep:
			fine++
		case coarseStep:
			coarse++
		}
		if gap := gapOf(now.Truncate(time.Minute)); r.At.After(gap.Add(3*time.Minute)) && r.At.Before(gap.Add(time.Hour)) {
			inGap++
		}
		if want := shape(r.At.Add(-r.Interval / 2)); math.Abs(r.Rate-want) > 0.03*want {
			t.Errorf("the rate at %s is %g, want about %g", r.At.UTC(), r.Rate, want)
		}
	}
	// Four days by a minute: two by five minutes, two by the minute without an hour.
	if coarse < 570 || coarse > 580 || fine < 2810 || fine > 2880 || inGap > 0 {
		t.Errorf("%d coarse, %d fine rows, %d in the gap", coarse, fine, inGap)
	}
	if newest := rows[len(rows)-1].At; now.Sub(newest) > 2*time.Minute {
		t.Errorf("the newest row is at %s, now it is %s", newest, now)
	}
	until := now.Add(-72 * time.Hour)
	rows, err = s.Load(t.Context(), now, until)
	if err != nil || len(rows) < 250 || rows[len(rows)-1].At.After(until) {
		t.Errorf("until three days ago there are %d rows, the last at %s, %v", len(rows), rows[len(rows)-1].At, err)
	}
	s.Query = "ratelimiter_requests_total"
	if _, err = s.Load(t.Context(), now, time.Time{}); err == nil ||
		!strings.Contains(err.Error(), "the query has 2 series, must have one") {
		t.Errorf("a query of two series: %v", err)
	}
	s.Query = "sum(rate("
	if _, err = s.Load(t.Context(), now, time.Time{}); err == nil ||
		!strings.Contains(err.Error(), "the server says bad_data: ") {
		t.Errorf("a query that is none: %v", err)
	}
}
