package rig

import (
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"weir/internal/testkit"
)

func TestSamplesSum(t *testing.T) {
	s := Samples{
		`requests_total{code="200",uri="/api/test"}`: 3,
		`requests_total{code="503",uri="/api/test"}`: 4,
		`requests_total{code="200",uri="other"}`:     5,
		`requests_total_other`:                       100,
		`up`:                                         1,
	}
	for _, c := range []struct {
		family string
		labels []string
		want   float64
	}{
		{"requests_total", nil, 12},
		{"requests_total", []string{`code="200"`}, 8},
		{"requests_total", []string{`code="200"`, `uri="/api/test"`}, 3},
		{"up", nil, 1},
		{"down", nil, 0},
	} {
		if got := s.Sum(c.family, c.labels...); got != c.want {
			t.Errorf("%s %v: got %v, want %v", c.family, c.labels, got, c.want)
		}
	}
}

func TestScrapeReadsAndRefuses(t *testing.T) {
	text := "# HELP up it is\nup 1\nseconds_bucket{le=\"+Inf\"} 2.5e3\n"
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }))
	defer srv.Close()
	addr := strings.TrimPrefix(srv.URL, "http://")
	s, err := Scrape(context.Background(), addr)
	if err != nil || s["up"] != 1 || s[`seconds_bucket{le="+Inf"}`] != 2500 {
		t.Fatalf("got %v, %v", s, err)
	}
	text = "up one\n"
	if _, err := Scrape(context.Background(), addr); err == nil {
		t.Fatal("a value that is no number was read")
	}
}

func TestProcessLifecycle(t *testing.T) {
	p := testkit.Must(Start("sleeper", []string{"WORD=hello"}, "sh", "-c", `trap 'exit 3' TERM; echo $WORD; while :; do sleep 0.01; done`))(t)
	for end := time.Now().Add(time.Minute); !strings.Contains(p.Output(), "hello"); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no output: %q", p.Output())
		}
	}
	if rss, err := RSS(p.Pid()); err != nil || rss <= 0 {
		t.Errorf("resident memory %d, %v", rss, err)
	}
	if _, err := CPU(p.Pid()); err != nil {
		t.Errorf("processor time: %v", err)
	}
	if err := p.Stop(); err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "hello") {
		t.Errorf("a failing program's end is told as %v", err)
	}
}

func TestAwaitPortTellsWhyItNeverComes(t *testing.T) {
	p := testkit.Must(Start("failer", nil, "sh", "-c", "echo no such luck; exit 1"))(t)
	addr := testkit.FreeAddr(t)
	if err := p.AwaitPort(context.Background(), addr); err == nil || !strings.Contains(err.Error(), "no such luck") {
		t.Errorf("got %v", err)
	}
}

func TestAwaitPort(t *testing.T) {
	ln := testkit.Listen(t)
	p := testkit.Must(Start("sleeper", nil, "sleep", "60"))(t)
	defer p.Kill()
	if err := p.AwaitPort(context.Background(), ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	var out tail
	for range 3 {
		_, _ = out.Write([]byte(strings.Repeat("x", tailMax/2)))
	}
	_, _ = out.Write([]byte("end"))
	if s := out.String(); len(s) != tailMax || !strings.HasSuffix(s, "xend") {
		t.Fatalf("%d bytes kept, ending in %q", len(s), s[len(s)-4:])
	}
}

func TestCPUCountsOurOwnWork(t *testing.T) {
	before := testkit.Must(CPU(os.Getpid()))(t)
	var after time.Duration
	for x, end := 1, time.Now().Add(10*time.Second); after <= before && time.Now().Before(end); x++ {
		after, _ = CPU(os.Getpid())
	}
	if after <= before {
		t.Fatalf("a minute of work do not show: %v, then %v", before, after)
	}
}

func TestQuantile(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		q       float64
		buckets map[float64]float64
		want    float64
	}{
		{0.5, nil, 0},
		{0.5, map[float64]float64{1: 0, inf: 0}, 0},
		{0.5, map[float64]float64{1: 10, 2: 20, inf: 20}, 1},
		{0.75, map[float64]float64{1: 10, 2: 20, inf: 20}, 1.5},
		{0.95, map[float64]float64{1: 10, 2: 20, inf: 40}, 2},
		{0.05, map[float64]float64{1: 10, 2: 20, inf: 20}, 0.1},
	} {
		if got := quantile(c.q, c.buckets); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%v of %v: %v, want %v", c.q, c.buckets, got, c.want)
		}
	}
}

func TestSamplesQuantile(t *testing.T) {
	before := Samples{`took_bucket{uri="/a",le="1"}`: 10, `took_bucket{uri="/a",le="+Inf"}`: 10}
	now := Samples{`took_bucket{uri="/a",le="1"}`: 20, `took_bucket{uri="/a",le="+Inf"}`: 20, `took_bucket{uri="/b",le="1"}`: 0, `took_bucket{uri="/b",le="+Inf"}`: 30}
	if got := now.Quantile(0.5, before, "took", `uri="/a"`); got != 0.5 {
		t.Errorf("of one series: %v, want 0.5", got)
	}
	if got := now.Quantile(0.125, before, "took"); got != 0.5 {
		t.Errorf("of both: %v, want 0.5", got)
	}
}

// The programs are not beside a test.
func TestTopologyThatCannotStart(t *testing.T) {
	if r, err := (Topology{}).Start(context.Background()); r != nil || err == nil || !strings.Contains(err.Error(), "run make build first") {
		t.Errorf("got %v, %v", r, err)
	}
}
