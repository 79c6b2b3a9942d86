package control

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"weir/internal/data/chart"
	"weir/internal/data/chart/charttest"
	"weir/internal/program/service"
	"weir/internal/test/testkit"
	"weir/loadgen/record"
	"weir/loadgen/report"
)

// browsing is how much of its own time a page gets: enough for some polls.
const browsing = 3500 * time.Millisecond

// look opens the live page of the rig in a browser.
func (r *rig) look() string {
	r.t.Helper()
	s := httptest.NewServer(r.api)
	defer s.Close()
	return charttest.DOM(r.t, s.URL+"/", browsing)
}

// The page shows a test that runs, and after it that it is over; its script has
// no errors.
func TestLivePage(t *testing.T) {
	r := newRig(t)
	if dom := r.look(); !strings.Contains(dom, "no test yet") {
		t.Errorf("before any test the page is\n%s", dom)
	}
	id := r.want(200, "POST", "/test/start", r.config(200, 3600))["testId"].(string) // longer than a browser takes
	testkit.Eventually(t, "an answer of the target", func() bool {
		return r.want(200, "GET", "/test/status", "")["success"].(float64) > 0
	})
	r.shows(">Sending<", "of 200/s asked", "test "+id, "of 60:00", ">running<",
		`<button id="stop">Stop`, "100.0 %")
	r.want(200, "POST", "/test/stop", "")
	r.shows(">Sent<", "test "+id, ">over<", `<button id="stop" hidden`, `href="test/report" id="report">`)
	later := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	id = r.want(200, "POST", "/test/start", strings.Replace(r.config(200, 60), "{", `{"startAt":"`+later+`",`,
		1))["testId"].(string)
	r.want(200, "POST", "/test/stop", "")
	r.shows(">Sent<", "test "+id, ">over<") // stopped before it began
}

// starter starts a test with each profile of the form, and one by name. It stops each.
const starter = `
	const seen = [];
	const ends = async () => {
		await until(() => !at("stop").hidden);
		const {profile, duration} = await (await fetch("test/config")).json();
		seen.push([profile.type, ...Object.values(profile.params), duration].join(" "));
		at("stop").click();
		await until(() => at("stop").hidden && !at("begin").hidden && !at("stop").disabled);
	};
	await until(() => !at("planned").hidden);
	at("url").value = "ftp://TARGET/";
	at("begin").requestSubmit();
	await until(() => at("problem").textContent);
	seen.push(at("problem").textContent);
	at("url").value = "http://TARGET/";
	for (const option of at("shape").options) {
		option.selected = true;
		at("rps").value = 50;
		at("seconds").value = 900;
		at("begin").requestSubmit();
		await ends();
	}
	at("named").click();
	await ends();
	document.body.dataset.seen = seen.join("; ");
`

// The idle page starts tests: with each profile of its form, and with the plans of CONFIG_DIR.
func TestLivePageStarts(t *testing.T) {
	r := newRig(t)
	r.runs.folder = t.TempDir()
	if err := os.WriteFile(filepath.Join(r.runs.folder, "nightly.json"), []byte(r.config(7, 3600)), 0o600); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", r.api)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		script := strings.ReplaceAll(starter, "TARGET", r.target.Listener.Addr().String())
		_, _ = w.Write([]byte(chart.PageWithTokenPrompt(livePage) + charttest.Script(script)))
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	dom := charttest.DOM(t, server.URL+"/", 60*browsing) // until the script is done, on any machine
	for _, want := range []string{`data-seen="must begin with http:// or https://`,
		"constant 50 900; poisson 50 900; ramp 50 0 900; " +
			"burst 10 100 300 50 900; sinusoidal 50 10 450 900; constant 7 3600"} {
		if !strings.Contains(dom, want) {
			_, seen, _ := strings.Cut(dom, "data-seen=")
			t.Errorf("the page lacks %q, has seen %.600s", want, seen)
		}
	}
}

// shows looks at the page and checks what is on it.
func (r *rig) shows(wants ...string) {
	r.t.Helper()
	dom := r.look()
	testkit.Contains(r.t, strings.ReplaceAll(dom, `=""`, ""), append(wants, `class="badge `)...)
}

// The page draws the course of a run, also when it comes in parts, and when its
// steps become longer meanwhile.
func TestLivePagePlots(t *testing.T) {
	var polls atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", serveLive)
	mux.HandleFunc("GET /test/status", func(w http.ResponseWriter, req *http.Request) {
		after, err := strconv.ParseFloat(req.URL.Query().Get("after"), 64)
		if err != nil {
			t.Errorf("the page asks with %v", err)
		}
		n := int(polls.Add(1))
		s := record.Status{Running: true, TestID: "t<1>", Profile: "burst", Phase: record.PhaseRunning, Duration: 600,
			Verdict: record.Degraded, URL: "http://target/", Reasons: []string{"<b>late</b>", "stalled"},
			Sent: 12_345, Completed: 12_000, Success: 8_400, RateLimited: 2_400, Shed: 600, Errors: 600, CurrentRps: 499.6,
			TargetRps: 500}
		s.Latency.P50, s.Latency.P99, s.Lag.P99 = 0.00214, 0.0988, 85e-6
		s.Course = course(100+10*n, 1)
		if n > 2 {
			s.Course = course(60, 2)
		}
		s.Elapsed = float64(len(s.Course.Rows))*s.Course.Step + 59.7
		service.WriteJSON(w, http.StatusOK, statusAfter(s, &after))
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	dom := charttest.DOM(t, server.URL+"/", browsing)
	testkit.Contains(t, dom,
		">Target: failing<", ">Generator: degraded<", ">500/s<", ">70.0 %<", ">20.0 %<", ">5.0 %<", ">2.14 ms<",
		">98.8 ms<", ">85.0 µs<", ">12,345 sent<", "t&lt;1&gt;",
		"burst on http://target/", "<li>&lt;b&gt;late&lt;/b&gt;</li><li>stalled</li>",
		`aria-label="Rate"`, `aria-label="Outcomes"`, `aria-label="Latency"`, `aria-label="Lag"`, ">1 ms</text>",
		">400</text>", ">90 s</text>",
		"3:00 min of 10:00 min")
	if strings.Contains(dom, "NaN") || polls.Load() < 4 {
		t.Errorf("after %d polls the page is\n%s", polls.Load(), dom)
	}
	// The line of what was sent has a step for each row, also after all the changes.
	before, _, _ := strings.Cut(dom, `" fill="none" stroke="var(--blue)"`)
	path := before[strings.LastIndex(before, `<path d="`)+1:]
	if n := strings.Count(path, "H"); n != 60 {
		t.Errorf("the line of what was sent has %d steps, want 60: %s", n, path)
	}
}

// driver uses the page as a person does who has forgotten the token at first.
const driver = `
	const give = token => { at("token").value = token; at("ask").requestSubmit(); };
	await until(() => !at("stop").hidden);
	at("stop").click();
	await until(() => !at("ask").hidden);
	document.body.dataset.told = at("why").textContent;
	at("why").textContent = "";
	give("wrong");
	await until(() => at("why").textContent);
	give("s3cr3t");
	await until(() => at("ask").hidden);
	at("config").click();
	await until(() => !at("text").hidden);
`

// Where there is a token the page asks for it when it is needed.
func TestLivePageAsksForToken(t *testing.T) {
	var log strings.Builder
	var mu sync.Mutex
	own := service.NewEndpoints(&service.Env{Guard: &service.AccessGuard{Token: "s3cr3t"}})
	own.HandleFunc("GET /test/status", func(w http.ResponseWriter, _ *http.Request) {
		service.WriteJSON(w, http.StatusOK, record.Status{Running: true, TestID: "t", Duration: 60, Verdict: record.Valid,
			Phase: record.PhaseRunning})
	})
	note := func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(&log, "%s %s;", r.Method, r.URL.Path)
		service.WriteJSON(w, http.StatusOK, map[string]string{"limiterUrl": "http://a-proxy/"})
	}
	own.HandleFunc("POST /test/stop", note)
	own.HandleFunc("GET /test/config", note)
	own.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(chart.PageWithTokenPrompt(livePage) + charttest.Script(driver)))
	})
	server := httptest.NewServer(own)
	defer server.Close()
	dom := charttest.DOM(t, server.URL+"/", 20*browsing) // until the driver is done, on any machine
	testkit.Contains(t, dom, `data-told="POST /test/stop is refused: the request needs Authorization: Bearer`,
		"http://a-proxy/", `<form id="ask" hidden`)
	mu.Lock()
	defer mu.Unlock()
	if want := "POST /test/stop;GET /test/config;"; log.String() != want {
		t.Errorf("let through was %s, want %s", log.String(), want)
	}
}

// Status, results and reports, which everybody may see, contain no value of a request, which the
// target gets nevertheless. The configuration, which is guarded, contains them.
func TestReportsHideValues(t *testing.T) {
	const secret = "s3cr3t"
	r := newRig(t)
	var got atomic.Pointer[http.Request]
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		req.Body = io.NopCloser(bytes.NewReader(body))
		got.CompareAndSwap(nil, req)
	}))
	defer target.Close()
	defer r.runs.Close()
	r.target.URL = target.URL
	config := strings.Replace(strings.TrimSuffix(r.config(10, 60), "}"), "/api/test", "/api/test?token="+secret, 1) +
		`,"requestOptions":{"method":"POST","headers":{"Authorization":"Bearer ` + secret + `","COOKIE":"a=` + secret +
		`","X-Auth-Token":"` + secret +
		`","Accept":"text/told"},"query":{"key":"` + secret + `"},"body":"password=` + secret + `"}}`
	r.want(200, "POST", "/test/start", config)
	testkit.Eventually(t, "a request", func() bool { return got.Load() != nil })
	shown := func(path string) string {
		w := httptest.NewRecorder()
		r.api.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != 200 {
			t.Errorf("%s: %d %.2000s", path, w.Code, w.Body)
		}
		return w.Body.String()
	}
	bodies := map[string]string{"status of a current run": shown("/test/status")}
	r.want(200, "POST", "/test/stop", "")
	for _, path := range []string{"/test/status", "/test/result", "/test/report"} {
		bodies[path] = shown(path)
	}
	for what, body := range bodies {
		if strings.Contains(body, secret) || !strings.Contains(body, "/api/test?token=***") {
			t.Errorf("%s has the secret, or not the URL: %.2000s", what, body)
		}
	}
	if n := strings.Count(shown("/test/config"), secret); n != 6 {
		t.Errorf("the configuration has %d of 6 values", n)
	}
	req := got.Load()
	body, _ := io.ReadAll(req.Body)
	if req.RequestURI != "/api/test?token="+secret+"&key="+secret || req.Header.Get("X-Auth-Token") != secret ||
		string(body) != "password="+secret {
		t.Errorf("the target got %s %v %q", req.RequestURI, req.Header, body)
	}
}

// course is a course of n rows.
func course(n int, step float64) record.Series {
	s := record.Series{Step: step}
	for i := range n {
		rate := uint64(100 * step)
		if i%20 >= 15 {
			rate *= 5
		}
		s.Rows = append(s.Rows, record.SeriesRow{T: float64(i) * step, Due: rate, Sent: rate, Success: rate - rate/10,
			RateLimited: rate / 10,
			LatencyP50:  0.002, LatencyP95: 0.01, LatencyP99: 0.05 * (1 + math.Sin(float64(i))), LagP99: 1e-4})
	}
	return s
}

// What the status shows of the series is what is asked for.
func TestStatusAfter(t *testing.T) {
	s := record.Status{TestID: "t", Course: course(10, 1)}
	for _, c := range []struct {
		after *float64
		rows  int
	}{{nil, -1}, {new(-1.0), 10}, {new(4.0), 5}, {new(100.0), 0}} {
		seen := statusAfter(s, c.after)
		rows := -1
		if seen.Series != nil {
			rows = len(seen.Series.Rows)
		}
		if rows != c.rows || seen.TestID != "t" {
			t.Errorf("%+v has %d rows, want %d", seen.Series, rows, c.rows)
		}
	}
	r := newRig(t)
	if a := r.want(400, "GET", "/test/status?after=soon", ""); a["path"] != "after" {
		t.Errorf("after=soon: %v", a)
	}
	r.want(400, "GET", "/test/status?after=NaN", "")
	r.want(200, "POST", "/test/start", r.config(100, 60))
	a := r.want(200, "GET", "/test/status?after=-1", "")
	if series, ok := a["series"].(map[string]any); !ok || series["rows"] == nil && series["step"] == nil {
		t.Errorf("status with a series: %v", a)
	}
	if a := r.want(200, "GET", "/test/status", ""); a["series"] != nil {
		t.Errorf("status without: %v", a)
	}
}

// The report is there when the test is over.
func TestReportEndpoint(t *testing.T) {
	r := newRig(t)
	r.want(200, "POST", "/test/start", r.config(100, 60))
	r.want(404, "GET", "/test/report", "")
	r.want(200, "POST", "/test/stop", "")
	w := httptest.NewRecorder()
	r.api.ServeHTTP(w, httptest.NewRequest("GET", "/test/report", nil))
	if w.Code != 200 || w.Header().Get("Content-Type") != "text/html; charset=utf-8" ||
		!strings.Contains(w.Body.String(), "<!DOCTYPE html>") {
		t.Errorf("report: %d %v", w.Code, w.Header())
	}
	if policy := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'") {
		t.Errorf("the page may do %q", policy)
	}
	if text := w.Body.String(); !strings.Contains(text, r.target.URL) || !strings.Contains(text, "Latency distribution") {
		t.Errorf("the report is\n%s", text)
	}
}

// A full disk costs the file, not the result.
func TestDiskFull(t *testing.T) {
	for _, c := range []struct{ out, page string }{{"/dev/full", ""}, {"", "/dev/full"}, {"/dev/full", "/dev/full"}} {
		var summary strings.Builder
		o := testkit.Must(Outputs{Out: c.out, Report: c.page, Summary: &summary}.create())(t)
		err := o.write(&record.Result{Verdict: record.Valid})
		o.close()
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "/dev/full") {
			t.Errorf("%+v: %v", c, err)
		}
		if summary.String() != report.Summary(&record.Result{Verdict: record.Valid}) {
			t.Errorf("%+v: printed %q", c, summary.String())
		}
	}
}
