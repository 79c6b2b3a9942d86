package wire

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"weir/internal/test/testkit"
	"weir/proxy/store"
)

// Own endpoints stand in line with what is forwarded: answers come in the order
// of the requests.
func TestOwnEndpointsInOrder(t *testing.T) {
	r := serve(t, echoes)
	conn := r.dial()
	const body = `{"algorithm":"fixed","limit":77,"window":3153600000}`
	conn.Send(request("/a") + request("/metrics") + request("/b") +
		"POST /config/limits HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" +
		fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body) +
		request("http://x/config/limits") + "HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n" + request("/config/nothing") +
		request("/c"))
	for i, want := range []struct {
		method string
		status int
		part   string
	}{
		{"GET", 200, "GET /a 0"}, {"GET", 200, "ratelimiter_requests_total"}, {"GET", 200, "GET /b 0"},
		{"POST", 200, `"limit":77`},
		{"GET", 200, `"source":"api"`}, {"HEAD", 200, ""}, {"GET", 200, "GET /config/nothing 0"}, {"GET", 200, "GET /c 0"},
	} {
		res, body := conn.Answer(want.method)
		if res.StatusCode != want.status || !strings.Contains(body, want.part) {
			t.Errorf("answer %d: %d %.200q, want %d with %q", i, res.StatusCode, body, want.status, want.part)
		}
		if want.method == "HEAD" && res.ContentLength < 1000 {
			t.Errorf("HEAD /metrics tells a length of %d", res.ContentLength)
		}
	}
}

func TestOwnEndpoints(t *testing.T) {
	r := serve(t, echoes, "RATE_LIMIT_LIMIT", "1")
	conn := r.dial()
	conn.Ask(get, 200)
	conn.Ask(get, 429) // the limit is not for own endpoints
	for _, test := range []struct {
		name, request string
		status        int
		part          string
	}{
		{"health", request("/actuator/health"), 200, `"status":"UP"`},
		{"readiness", request("/actuator/health/readiness"), 200, `"status":"UP"`},
		{"metrics by another name", request("/actuator/prometheus"), 200, "\nratelimiter_client_connections "},
		{"wrong method", "PATCH /config/limits HTTP/1.1\r\nHost: x\r\n\r\n", 405, `"error":"PATCH is not allowed here`},
		{"unknown method", "BREW /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 405, `"error":"BREW is not allowed here`},
		{"fault with its path", post(`{"algorithm":"fixed","limit":"x","window":1}`), 400, `"path":"limit"`},
		{"old version", "GET /actuator/health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 200, `"status":"UP"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			conn := r.dial()
			defer conn.Close()
			conn.T = t
			if body := conn.Ask(test.request, test.status); !strings.Contains(body, test.part) {
				t.Errorf("answered %.300q, want something with %q", body, test.part)
			}
			conn.Ask(request("/config/limits"), 200) // the connection goes on
		})
	}
	r.metrics(`store_decisions_total=2`)
}

// Paths that only resemble those of own endpoints are the target's.
func TestPathsOfTheTarget(t *testing.T) {
	r := serve(t, echoes)
	conn := r.dial()
	for _, path := range []string{"/actuator/beans", "/actuator", "/actuator/health/liveness", "/config/",
		"/config/limit", "/config/limits/", "/config/decisions", "/deferred/1", "/reload/"} {
		if body := conn.Ask(request(path), 200); !strings.HasPrefix(body, "GET "+path+" ") {
			t.Errorf("%s is answered %.100q", path, body)
		}
	}
}

// A body for an own endpoint has its own bound, whatever its framing.
func TestOwnEndpointBody(t *testing.T) {
	r := serve(t, echoes, "BODY_BUFFER_BYTES", "1KiB")
	config := `{"algorithm":"fixed","limit":7,"window":60}`
	fits := config + strings.Repeat(" ", store.DocumentBytesMax-len(config))
	for _, test := range []struct {
		name, request string
		status        int
	}{
		{"at the bound", post(fits), 200},
		{"beyond", post(fits + " "), 413},
		{"chunked at the bound", chunked("POST /config/limits", fits), 200},
		{"chunked beyond", chunked("POST /config/limits", fits+" "), 413},
	} {
		t.Run(test.name, func(t *testing.T) {
			conn := r.dial()
			conn.T = t
			conn.Send(test.request)
			res, body := conn.Status(test.status)
			if res.Close != (test.status == 413) {
				t.Errorf("the connection closes: %t, %s", res.Close, body)
			}
		})
	}
	conn := r.dial()
	conn.Send("POST /config/limits HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 43\r\n\r\n")
	conn.Status(100)
	conn.Ask(config, 200)
}

// chunked is a request whose body comes in one chunk.
func chunked(line, body string) string {
	return fmt.Sprintf("%s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", line,
		len(body), body)
}

func TestMetricsInGzip(t *testing.T) {
	r := serve(t, echoes)
	conn := r.dial()
	conn.Send("GET /metrics HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n" + get)
	res, body := conn.Status(200)
	if res.Header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("encoded as %q", res.Header.Get("Content-Encoding"))
	}
	text := testkit.Must(gzip.NewReader(strings.NewReader(body)))(t)
	if b, err := io.ReadAll(text); err != nil || testkit.Samples(t, string(b))["ratelimiter_client_connections"] != 1 {
		t.Errorf("metrics in gzip: %v %.300q", err, b)
	}
	conn.Status(200)
}

// mixture is what the metrics say after TestMetrics.
var mixture = map[string]float64{
	`ratelimiter_requests_total{decision="forwarded"}`:                    9,
	`ratelimiter_requests_total{decision="rejected"}`:                     2,
	`ratelimiter_requests_by_algorithm_total{algorithm="fixed"}`:          11,
	`ratelimiter_requests_by_algorithm_total{algorithm="token"}`:          0,
	`ratelimiter_request_duration_seconds_count{decision="forwarded"}`:    9,
	`ratelimiter_request_duration_seconds_count{decision="rejected"}`:     2,
	`ratelimiter_decision_duration_seconds_count{decision="forwarded"}`:   9,
	`ratelimiter_decision_duration_seconds_count{decision="rejected"}`:    2,
	`ratelimiter_upstream_response_duration_seconds_count`:                8,
	`ratelimiter_responses_total{code="200"}`:                             7,
	`ratelimiter_responses_total{code="418"}`:                             1,
	`ratelimiter_responses_total{code="429"}`:                             2,
	`ratelimiter_responses_total{code="502"}`:                             1,
	`ratelimiter_requests_by_method_total{method="GET",code="200"}`:       5,
	`ratelimiter_requests_by_method_total{method="POST",code="200"}`:      1,
	`ratelimiter_requests_by_method_total{method="other",code="200"}`:     1,
	`ratelimiter_requests_by_method_total{method="DELETE",code="429"}`:    1,
	`ratelimiter_rule_decisions_total{rule="global",decision="rejected"}`: 2,
	`ratelimiter_upstream_errors_total{kind="bad_response"}`:              1,
	`ratelimiter_upstream_connections{state="idle"}`:                      0,
	`ratelimiter_upstream_connections{state="busy"}`:                      0,
	`ratelimiter_upstream_in_flight`:                                      0,
	`ratelimiter_client_connections`:                                      1,
	`ratelimiter_store_commands_total`:                                    11,
	`ratelimiter_store_decisions_total`:                                   11,
	`ratelimiter_store_keys`:                                              1,
	`ratelimiter_current_limit`:                                           9,
	`ratelimiter_requests_abandoned_total`:                                0,
	`ratelimiter_panics_total`:                                            0,
}

// The metrics agree with what was sent.
func TestMetrics(t *testing.T) {
	target := newTarget(t, each(func(c *targetConn, s *seen) {
		switch s.target() {
		case "/teapot":
			c.say("HTTP/1.1 418 I'm a teapot\r\nContent-Length: 0\r\n\r\n")
		case "/junk":
			c.say("junk\r\n")
		default:
			c.echo(s)
		}
	}))
	r := start(t, target.url(), "RATE_LIMIT_LIMIT", "9", "EVENT_LOOPS", "1")
	conn := r.dial()
	ask := func(request string, status int) { conn.Ask(request, status) }
	for range 5 {
		ask(get, 200)
	}
	ask("POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab", 200)
	ask("BREW /t HTTP/1.1\r\nHost: x\r\n\r\n", 200)
	ask(request("/teapot"), 418)
	ask(request("/junk"), 502)
	ask(get, 429)
	ask("DELETE /d HTTP/1.1\r\nHost: x\r\n\r\n", 429)
	text := conn.Ask(request("/metrics"), 200)
	conn.Ask("GET / HTTP/1.1\r\n\r\n", 400)
	s := testkit.Samples(t, text)
	for name, want := range mixture {
		if got, ok := s[name]; got != want || !ok {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	r.metrics(`responses.400=1 requests_by_method_total{method="other",code="400"}=1 store_decisions_total=11`)
}

// Every family of contracts that this proxy has so far is there, typed and
// explained.
func TestMetricFamilies(t *testing.T) {
	r := serve(t, echoes)
	r.do("GET", "/api", "")
	_, _, text := r.do("GET", "/metrics", "")
	for name, kind := range map[string]string{
		"ratelimiter_requests_total": "counter", "ratelimiter_request_duration_seconds": "histogram",
		"ratelimiter_requests_by_algorithm_total": "counter", "ratelimiter_current_limit": "gauge",
		"ratelimiter_window_seconds":  "gauge",
		"ratelimiter_bucket_capacity": "gauge", "ratelimiter_token_fill_rate": "gauge", "rate_limit_current_limit": "gauge",
		"rate_limit_algorithm": "gauge", "ratelimiter_decision_duration_seconds": "histogram",
		"ratelimiter_decision_duration_seconds_max": "gauge", "ratelimiter_store_commands_total": "counter",
		"ratelimiter_store_decisions_total": "counter", "ratelimiter_responses_total": "counter",
		"ratelimiter_requests_by_method_total": "counter", "ratelimiter_rule_decisions_total": "counter",
		"ratelimiter_upstream_in_flight": "gauge", "ratelimiter_upstream_connections": "gauge",
		"ratelimiter_upstream_errors_total": "counter", "ratelimiter_upstream_shed_total": "counter",
		"ratelimiter_upstream_response_duration_seconds": "histogram",
		"ratelimiter_client_connections":                 "gauge",
	} {
		if strings.Count(text, "# TYPE "+name+" "+kind+"\n") != 1 || strings.Count(text, "# HELP "+name+" ") != 1 {
			t.Errorf("%s is not there once as a %s", name, kind)
		}
	}
}

// Few own endpoints are answered at the same time, and of each client a bounded number of requests
// wait; further ones are refused at once. Other clients and health are answered nevertheless, and
// the data path is not affected.
func TestOwnEndpointsOverload(t *testing.T) {
	r := serve(t, echoes)
	const places, more = (ownWorkers + ownWaitingMax) / 2, 20
	answers := make(chan *http.Response, places+more)
	for range places + more {
		conn := r.dial()
		conn.Send(request("/config/adaptive"))
		go func() {
			res, err := http.ReadResponse(conn.In, nil)
			if err != nil {
				res = &http.Response{Status: err.Error()}
			}
			answers <- res
		}()
	}
	for range more {
		res := <-answers
		if res.StatusCode != 503 || res.Header.Get("Retry-After") != "1" ||
			res.Header.Get("Content-Type") != "application/json" {
			t.Errorf("answered %s %v", res.Status, res.Header)
		}
	}
	r.dial().Ask(get, 200)
	r.dial().Ask(request("/actuator/health"), 200)
	r.dial().Ask(request("/actuator/health/readiness"), 200)
	other := r.dialFrom("127.0.0.2")
	other.Send(request("/config/adaptive"))
	if got := r.samples()["ratelimiter_own_refused_total"]; got != more {
		t.Errorf("%v are counted as refused, want %d", got, more)
	}
	close(r.held)
	for range places {
		if res := <-answers; res.StatusCode != 200 {
			t.Errorf("a client is answered %s within its share", res.Status)
		}
	}
	if res, _ := other.Answer("GET"); res.StatusCode != 200 {
		t.Errorf("another client is answered %s", res.Status)
	}
}

// A client may leave while an own endpoint works for it.
func TestClientLeavesOwnEndpoint(t *testing.T) {
	r := serve(t, echoes)
	conn := r.dial()
	conn.Send(request("/config/adaptive"))
	r.until("it works", func() bool { return r.holding.Load() == 1 })
	conn.Reset()
	r.until("the client is gone", func() bool { return r.samples()["ratelimiter_client_connections"] == 0 })
	close(r.held)
	conn = r.dial()
	conn.Ask(get, 200)
	conn.Ask(request("/config/limits"), 200)
}
