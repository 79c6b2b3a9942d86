package serve

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/program/metric"
	"weir/internal/test/testkit"
	"weir/target/model"
)

func TestService(t *testing.T) {
	r := start(t, model.Default())
	large := strings.Repeat("x", 1<<20)
	for _, method := range []string{"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"} {
		r.want(method, "/api/test", "", 200, "OK")
		r.want(method, "/api/test?a=b", large, 200, "OK")
	}
	r.want("HEAD", "/api/test", "", 200, "")
	for _, path := range []string{"/", "/api", "/api/test/", "/API/test", "/favicon.ico"} {
		r.want("GET", path, "", 404, "Not Found")
	}
	_, fields, _ := r.do("GET", "/api/test", "")
	if fields.Get("Content-Type") != "text/plain" {
		t.Errorf("Content-Type is %q", fields.Get("Content-Type"))
	}
	if _, err := time.Parse(http.TimeFormat, fields.Get("Date")); err != nil {
		t.Errorf("Date: %v", err)
	}
}

func TestChunkedBodyIsDiscarded(t *testing.T) {
	r := start(t, model.Default())
	body := io.LimitReader(zeros{}, 5<<20) // of no known length
	res := testkit.Must(r.client.Post(r.url("/api/test"), "application/octet-stream", io.NopCloser(body)))(t)
	res.Body.Close()
	if res.StatusCode != 200 {
		t.Errorf("answered %d", res.StatusCode)
	}
}

// zeros is an endless body.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestConnectionIsUsedAgain(t *testing.T) {
	r := start(t, model.Default())
	dials := 0
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if !info.Reused {
			dials++
		}
	}}
	for i, path := range []string{"/api/test", "/nowhere", "/metrics", "/model", "/api/test"} {
		req := testkit.Must(http.NewRequest("GET", r.url(path), nil))(t)
		res := testkit.Must(r.client.Client.Do(req.WithContext(httptrace.WithClientTrace(req.Context(), trace))))(t)
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if dials != 1 {
			t.Fatalf("%d connections for %d requests", dials, i+1)
		}
	}
}

func TestManyClients(t *testing.T) {
	r := start(t, model.Config{Delay: time.Millisecond, Workers: 8, Queue: 1000, QueueTimeout: time.Minute})
	var clients sync.WaitGroup
	for range 20 {
		clients.Go(func() {
			w := r.dial()
			for range 25 {
				w.Send(get)
				w.Status(200)
			}
		})
	}
	clients.Wait()
	if got := r.samples()[`http_server_requests_seconds_count{method="GET",uri="/api/test",status="200"}`]; got != 500 {
		t.Errorf("%v requests counted, want 500", got)
	}
}

// pipeline returns n requests, every seventh of which is to nowhere.
func pipeline(n int) string {
	var b strings.Builder
	for i := range n {
		path := "/api/test"
		if i%7 == 0 {
			path = "/nowhere"
		}
		fmt.Fprintf(&b, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
	}
	return b.String()
}

// pipelined reads the answers to pipeline(n).
func pipelined(w *testkit.Conn, n int) {
	w.T.Helper()
	for i := range n {
		want := 200
		if i%7 == 0 {
			want = 404
		}
		if w.Status(want); w.T.Failed() {
			w.T.Fatalf("at answer %d", i)
		}
	}
}

func TestPipelining(t *testing.T) {
	for name, cfg := range map[string]model.Config{
		"on the spot":     model.Default(),
		"by the model":    {Workers: 1, QueueTimeout: time.Second},
		"one by one":      {Delay: 100 * time.Microsecond, Workers: 1, Queue: 1, QueueTimeout: time.Minute},
		"without workers": {Delay: 100 * time.Microsecond, QueueTimeout: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, cfg).dial()
			const n = 1000
			go func() { _, _ = io.WriteString(w, pipeline(n)) }()
			pipelined(w, n)
		})
	}
}

func TestFaultyRequests(t *testing.T) {
	r := start(t, model.Default())
	for _, test := range []struct {
		name, request string
		status        int
	}{
		{"no HTTP", "GARBAGE\r\n\r\n", 400},
		{"no Host", "GET /api/test HTTP/1.1\r\n\r\n", 400},
		{"length and coding",
			"POST /api/test HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
		{"long target", "GET /" + strings.Repeat("a", 17_000) + " HTTP/1.1\r\nHost: x\r\n\r\n", 414},
		{"large field", "GET / HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("a", 17_000) + "\r\n\r\n", 431},
		{"expectation", "GET /api/test HTTP/1.1\r\nHost: x\r\nExpect: miracles\r\n\r\n", 417},
		{"large own body", "POST /model HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n", 413},
		{"coding", "POST /api/test HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501},
		{"version", "GET /api/test HTTP/3.0\r\nHost: x\r\n\r\n", 505},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := r.dial()
			w.T = t
			w.Send(test.request)
			if res, _ := w.Status(test.status); !res.Close {
				t.Error("the answer does not announce that the connection closes")
			}
			w.Closed()
		})
	}
	r.want("GET", "/api/test", "", 200, "OK") // the others are not bothered
}

// The answer to a faulty request arrives although its client is still sending.
func TestLingeringClose(t *testing.T) {
	w := start(t, model.Default()).dial()
	w.Send("POST /model HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n")
	w.Send(strings.Repeat("x", 1<<20))
	w.Status(413)
	w.Closed()
}

func TestExpectContinue(t *testing.T) {
	w := start(t, model.Default()).dial()
	w.Send("PUT /api/test HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
	if res, _ := w.Answer("PUT"); res.StatusCode != 100 {
		t.Fatalf("answered %d before the body", res.StatusCode)
	}
	w.Send("abc")
	w.Status(200)
}

func TestOldVersion(t *testing.T) {
	w := start(t, model.Default()).dial()
	w.Send("GET /api/test HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
	if res, _ := w.Status(200); res.Header.Get("Connection") != "keep-alive" {
		t.Errorf("the answer says Connection: %q", res.Header.Get("Connection"))
	}
	w.Send("GET /api/test HTTP/1.0\r\n\r\n")
	w.Status(200)
	w.Closed()
}

func TestOwnEndpoints(t *testing.T) {
	r := start(t, model.Default())
	for _, test := range []struct {
		method, path string
		status       int
		body         string // part of it
	}{
		{"GET", "/actuator/health", 200, `"status":"UP"`},
		{"GET", "/actuator/health/readiness", 200, `"status":"UP"`},
		{"GET", "/actuator/prometheus", 200, "target_workers_busy 0"},
		{"HEAD", "/metrics", 200, ""},
		{"GET", "/actuator/nothing", 404, `"error":"not found: /actuator/nothing"`},
		{"DELETE", "/model", 405, `"error":"DELETE is not allowed here`},
	} {
		status, _, body := r.do(test.method, test.path, "")
		if status != test.status || !strings.Contains(body, test.body) {
			t.Errorf("%s %s: %d %q, want %d with %q", test.method, test.path, status, body, test.status, test.body)
		}
	}
	req := testkit.Must(http.NewRequest("GET", r.url("/metrics"), nil))(t)
	req.Header.Set("Accept-Encoding", "gzip")
	res := testkit.Must(r.client.Client.Do(req))(t)
	defer res.Body.Close()
	if res.Header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("metrics are encoded as %q", res.Header.Get("Content-Encoding"))
	}
	text := testkit.Must(gzip.NewReader(res.Body))(t)
	if b, err := io.ReadAll(text); err != nil || !strings.Contains(string(b), "target_queue_length") {
		t.Errorf("metrics in gzip: %v %q", err, b)
	}
}

// The pool accepts only as many requests of one client as are its share of the places; further ones
// are refused at once.
func TestOwnEndpointsOverload(t *testing.T) {
	r := start(t, model.Default())
	const places = (poolWorkers + poolWaiting) / 2
	const n = 3 * places
	r.station.mu.Lock() // GET /model takes as long as this is held
	conns := r.send(n, "GET /model HTTP/1.1\r\nHost: x\r\n\r\n")
	refused := 0
	for ; refused < n-places; refused++ {
		// Whoever is refused is answered while the lock is held.
		r.until("one more is refused", func() bool { return r.counted("own", 503) > refused })
	}
	r.station.mu.Unlock()
	served := 0
	for _, w := range conns {
		if res, _ := w.Answer("GET"); res.StatusCode == 200 {
			served++
		}
	}
	if served != places {
		t.Errorf("%d were served, want %d", served, places)
	}
}

// counted returns how many exchanges by GET with that uri and status are counted.
func (r *rig) counted(uri string, status int) int {
	r.histograms.mu.Lock()
	defer r.histograms.mu.Unlock()
	labels := fmt.Sprintf(`{method="GET",uri=%q,status="%d"}`, uri, status)
	parts := r.histograms.parts["http_server_requests_seconds"+labels]
	if parts == nil {
		return 0
	}
	set := metric.New() // those of the program may wait for the service
	set.Histogram("x"+labels, "", parts...)
	var text strings.Builder
	set.Write(&text)
	return int(testkit.Samples(r.t, text.String())["x_count"+labels])
}
