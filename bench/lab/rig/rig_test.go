package rig

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/bench/lab/result"
	"weir/internal/test/process"
	"weir/internal/test/testkit"
)

func TestAnswered(t *testing.T) {
	l := &LoadResult{Outcomes: []Outcome{{2, 5, 200}, {0, 0, 0}, {0, 1, 200}, {0, 1, 429}}}
	if got := l.Answered(200); !slices.Equal(got, result.Latencies{1, 3}) {
		t.Errorf("got %v", got)
	}
}

func TestSamplesSum(t *testing.T) {
	s := Metrics{
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
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		_, _ = w.Write([]byte(text))
	}))
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
	p := testkit.Must(Start("sleeper", []string{"WORD=hello"}, "sh", "-c",
		`trap 'exit 3' TERM; echo $WORD; while :; do sleep 0.01; done`))(t)
	testkit.Eventually(t, "its output", func() bool { return strings.Contains(p.Output(), "hello") })
	if rss, err := RSS(p.Pid()); err != nil || rss <= 0 {
		t.Errorf("resident memory %d, %v", rss, err)
	}
	if _, err := CPU(p.Pid()); err != nil {
		t.Errorf("processor time: %v", err)
	}
	if err := p.Stop(); err == nil || !strings.Contains(err.Error(), "exit status 3") ||
		!strings.Contains(err.Error(), "hello") {
		t.Errorf("a failing program's end is told as %v", err)
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
	before := Metrics{`took_bucket{uri="/a",le="1"}`: 10, `took_bucket{uri="/a",le="+Inf"}`: 10}
	now := Metrics{`took_bucket{uri="/a",le="1"}`: 20, `took_bucket{uri="/a",le="+Inf"}`: 20,
		`took_bucket{uri="/b",le="1"}`: 0, `took_bucket{uri="/b",le="+Inf"}`: 30}
	if got := now.Quantile(0.5, before, "took", `uri="/a"`); got != 0.5 {
		t.Errorf("of one series: %v, want 0.5", got)
	}
	if got := now.Quantile(0.125, before, "took"); got != 0.5 {
		t.Errorf("of both: %v, want 0.5", got)
	}
}

// The programs are not beside a test.
func TestTopologyThatCannotStart(t *testing.T) {
	var l Lab
	if err := l.Run(t.Context(), func() { l.Rig(Topology{}) }); err == nil ||
		!strings.Contains(err.Error(), "run make build first") {
		t.Errorf("got %v", err)
	}
}

func TestMisbehaviour(t *testing.T) {
	srv := httptest.NewServer(FaultyTarget())
	defer srv.Close()
	_, empty, _ := Digest(strings.NewReader(""))
	for _, c := range []struct {
		path, want string
		broken     bool // the body breaks off
		none       bool // there is no answer at all
	}{
		{path: "/api/test", want: "OK"},
		{path: "/bytes/50000", want: string(Pattern(50000))},
		{path: "/hash", want: "0 " + empty},
		{path: "/after/1ms", want: "OK"},
		{path: "/events/3/1ms", want: "data: 0\n\ndata: 1\n\ndata: 2\n\n"},
		{path: "/cut", want: strings.Repeat("x", 100), broken: true},
		{path: "/junk", none: true},
	} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+c.path, nil)
		req.Header.Set("Via", "1.1 me")
		resp, err := http.DefaultTransport.RoundTrip(req)
		if (err != nil) != c.none {
			t.Errorf("%s: %v", c.path, err)
		}
		if err != nil {
			continue
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if (err != nil) != c.broken || string(body) != c.want {
			t.Errorf("%s: %d bytes, %.60q, %v", c.path, len(body), body, err)
		}
		if via := resp.Header.Get("X-Via"); via != "1.1 me" && !c.broken {
			t.Errorf("%s: came through %q", c.path, via)
		}
	}
}

func TestServeEnds(t *testing.T) {
	addr := testkit.FreeAddr(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, addr, FaultyTarget()) }()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("the end of a target is told as %v", err)
	}
}

func TestWatch(t *testing.T) {
	var u Usage
	err := Catch(func() { MeasureUsage(os.Getpid(), &u, func() {}) })
	if err != nil || u.RSSBefore <= 0 || u.RSSPeak < u.RSSBefore || u.Over <= 0 {
		t.Errorf("used %+v, %v", u, err)
	}
	if got := (Usage{CPU: time.Second, Over: 4 * time.Second}).Cores(); got != 0.25 {
		t.Errorf("a second of four is %v cores", got)
	}
	if n, err := Descriptors(os.Getpid()); err != nil || n < 3 {
		t.Errorf("%d descriptors, %v", n, err)
	}
	if err := Catch(func() { MeasureUsage(1<<30, new(Usage), func() {}) }); err == nil {
		t.Error("a process that is none is watched")
	}
	p := testkit.Must(Start("sleeper", nil, "sleep", "60"))(t)
	err = Catch(func() { MeasureUsage(p.Pid(), &u, p.Kill) })
	if err == nil || u.RSSPeak <= 0 || u.Over <= 0 {
		t.Errorf("of a process that was killed: %+v, %v", u, err)
	}
}

func TestProcessEndsByItself(t *testing.T) {
	p := testkit.Must(Start("ender", nil, "sh", "-c", "read x; exit 4"))(t)
	if err := p.AwaitEnd(t.Context(), time.Minute); err == nil || !strings.Contains(err.Error(), "exit status 4") {
		t.Errorf("its end is told as %v", err)
	}
	if !p.Ended() || p.ProcessState.ExitCode() != 4 {
		t.Errorf("afterwards: ended %t, %v", p.Ended(), p.ProcessState)
	}
}

// A program that ends before it is stopped fails the part, whatever its status and whoever made it.
func TestStopTellsOfACrash(t *testing.T) {
	for _, foreign := range []bool{false, true} {
		for _, exit := range []string{"exit 0", "exit 1", "kill -9 $$"} {
			p := testkit.Must(Start("ender", nil, "sh", "-c", "echo last words; "+exit))(t)
			p.Foreign = foreign
			<-p.Done()
			if err := p.Stop(); err == nil || !strings.Contains(err.Error(), "ender ended by itself: ") ||
				!strings.Contains(err.Error(), "last words") {
				t.Errorf("foreign %t, %s: got %v", foreign, exit, err)
			}
		}
		p := testkit.Must(Start("sleeper", nil, "sh", "-c", "trap 'exit 0' TERM; echo on; while :; do sleep 0.01; done"))(t)
		p.Foreign = foreign
		testkit.Eventually(t, "its output", func() bool { return p.Output() != "" })
		for range 2 {
			if err := p.Stop(); err != nil {
				t.Errorf("foreign %t, stopped by us: got %v", foreign, err)
			}
		}
	}
}

// A server that does not come up leaves neither a process nor a folder.
func TestServersThatDoNotStart(t *testing.T) {
	bin := t.TempDir()
	err := os.Chmod(filepath.Dir(bin), 0o755) // PostgreSQL is started as another user
	for name, script := range map[string]string{"redis-server": "exec sleep 60", "postgres": "exec sleep 60",
		"initdb": ":"} {
		err = errors.Join(err, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, p := new(Redis), new(Postgres)
	check := func(name string, start func(l *Lab), of func() (c *process.Child, dir string)) {
		var l Lab
		err := l.Run(ctx, func() { start(&l) })
		server, dir := of()
		if err == nil || !server.Ended() {
			t.Errorf("started: %v; %s has ended: %t", err, name, server.Ended())
			server.Kill()
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s leaves its folder", name)
			_ = os.RemoveAll(dir)
		}
	}
	check("Redis", r.start, func() (*process.Child, string) { return r.Child, r.dir })
	check("PostgreSQL", p.start, func() (*process.Child, string) { return p.Child, p.Dir })
	testkit.WriteFile(t, filepath.Join(bin, "postgres"), "no program")
	var l Lab
	p = new(Postgres)
	if err := l.Run(ctx, func() { p.start(&l) }); err == nil || p.Child != nil {
		t.Errorf("started a file that is no program: %v, %v", err, p.Child)
	}
}

func TestPattern(t *testing.T) {
	whole := Pattern(1000)
	if bytes.Equal(whole[:500], whole[500:]) {
		t.Error("a lost piece would not show")
	}
}

// The clock of a program that is built so is off by as much as it is told.
func TestSkewed(t *testing.T) {
	out := filepath.Join(t.TempDir(), "clock")
	if err := buildWithSkewedClock(context.Background(), "./testdata/clock", out); err != nil {
		t.Fatal(err)
	}
	for _, by := range []time.Duration{0, 500 * time.Millisecond, 999 * time.Millisecond} {
		cmd := exec.Command(out)
		cmd.Env = append(os.Environ(), skewedEnv(by))
		before := time.Now()
		said, err := cmd.Output()
		after := time.Now()
		n, parseErr := strconv.ParseInt(string(said), 10, 64)
		if err != nil || parseErr != nil {
			t.Fatal(err, parseErr)
		}
		if told := time.Unix(0, n).Add(-by); told.Before(before.Round(0)) || told.After(after.Round(0)) {
			t.Errorf("off by %v: %v, and it is between %v and %v", by, told, before, after)
		}
	}
}

// A worker serves one request after the other, also if the client has disconnected.
func TestWorkers(t *testing.T) {
	const service = 10 * time.Millisecond
	h := TargetWithWorkers(1, service)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	began := time.Now()
	Parallel(3, func(int) {
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, httptest.NewRequestWithContext(gone, http.MethodGet, "/any", nil))
		if answer.Code != http.StatusOK {
			t.Errorf("a request is answered %d", answer.Code)
		}
	})
	if took := time.Since(began); took < 3*service {
		t.Errorf("one worker served 3 requests in %v", took)
	}
}
