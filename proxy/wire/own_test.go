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
	r.playf(`
		a GET /a + GET /metrics + GET /b + POST /config/limits chunked=%s + GET http://x/config/limits + GET /config/nothing
		a -> 200 echo + 200 "ratelimiter_requests_total" + 200 echo + 200 ~"limit":77 + 200 ~"source":"api" + 200 echo`,
		`{"algorithm":"fixed","limit":77,"window":3153600000}`)
	conn := r.dial()
	conn.Send("HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n" + request("/next"))
	if res, _ := conn.Answer("HEAD"); res.StatusCode != 200 || res.ContentLength < 1000 {
		t.Errorf("HEAD /metrics is answered %d with a length of %d", res.StatusCode, res.ContentLength)
	}
	conn.Status(200)
}

func TestOwnEndpoints(t *testing.T) {
	serve(t, echoes, "RATE_LIMIT_LIMIT", "1").play(`
		GET / -> 200; GET / -> 429 # the limit is not for own endpoints
		health GET /actuator/health -> 200 ~"status":"UP"
		readiness GET /actuator/health/readiness -> 200 ~"status":"UP"
		prometheus GET /actuator/prometheus -> 200 "\nratelimiter_client_connections "
		wrong-method PATCH /config/limits -> 405 "error\":\"PATCH is not allowed here"
		unknown-method BREW /metrics -> 405 "error\":\"BREW is not allowed here"
		fault-with-its-path POST /config/limits body={"algorithm":"fixed","limit":"x","window":1} -> 400 ~"path":"limit"
		old-version GET /actuator/health HTTP/1.0 Connection=keep-alive -> 200 ~"status":"UP"
		health,readiness,prometheus GET /config/limits -> 200 # the connections go on
		wrong-method,unknown-method,fault-with-its-path,old-version GET /config/limits -> 200
		metrics store_decisions_total=2`)
}

// Paths that only resemble those of own endpoints are the target's.
func TestPathsOfTheTarget(t *testing.T) {
	r := serve(t, echoes)
	for _, path := range []string{"/actuator/beans", "/actuator", "/actuator/health/liveness", "/config/",
		"/config/limit", "/config/limits/", "/config/decisions", "/deferred/1", "/reload/"} {
		r.play(`GET ` + path + ` -> 200 echo`)
	}
}

// A body for an own endpoint has its own bound, whatever its framing.
func TestOwnEndpointBody(t *testing.T) {
	config := `{"algorithm":"fixed","limit":7,"window":60}`
	fits := config + strings.Repeat(" ", store.DocumentBytesMax-len(config))
	serve(t, echoes, "BODY_BUFFER_BYTES", "1KiB").playf(`
		a POST /config/limits body=%[1]q -> 200 stays
		b POST /config/limits body=%[2]q -> 413 closes
		c POST /config/limits chunked=%[1]q -> 200 stays
		d POST /config/limits chunked=%[2]q -> 413 closes
		e POST /config/limits Expect=100-continue Content-Length=43 -> 100; e %[3]q -> 200`, fits, fits+" ", config)
}

// chunked is a request whose body comes in one chunk.
func chunked(line, body string) string {
	return fmt.Sprintf("%s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", line,
		len(body), body)
}

func TestMetricsInGzip(t *testing.T) {
	r := serve(t, echoes)
	r.play(`a GET /metrics Accept-Encoding=gzip + GET /next; a -> 200 Content-Encoding=gzip`)
	text := testkit.Must(gzip.NewReader(strings.NewReader(r.last("a").body)))(t)
	if b, err := io.ReadAll(text); err != nil || testkit.Samples(t, string(b))["ratelimiter_client_connections"] != 1 {
		t.Errorf("metrics in gzip: %v %.300q", err, b)
	}
	r.play(`a -> 200 echo`)
}

// mixture is what the metrics say after TestMetrics.
const mixture = `
	forwarded=9 rejected=2 global.rejected=2 requests_abandoned_total=0 panics_total=0 current_limit=9
	requests_by_algorithm_total{algorithm="fixed"}=11 requests_by_algorithm_total{algorithm="token"}=0
	request_duration_seconds_count{decision="forwarded"}=9 request_duration_seconds_count{decision="rejected"}=2
	decision_duration_seconds_count{decision="forwarded"}=9 decision_duration_seconds_count{decision="rejected"}=2
	upstream_response_duration_seconds_count=8 errors.bad_response=1 upstream_in_flight=0
	upstream_connections{state="idle"}=0 upstream_connections{state="busy"}=0 client_connections=1
	responses.200=7 responses.418=1 responses.429=2 responses.502=1
	requests_by_method_total{method="GET",code="200"}=5 requests_by_method_total{method="POST",code="200"}=1
	requests_by_method_total{method="other",code="200"}=1 requests_by_method_total{method="DELETE",code="429"}=1
	store_commands_total=11 store_decisions_total=11 store_keys=1`

// The metrics agree with what was sent.
func TestMetrics(t *testing.T) {
	r := serve(t, each(func(c *targetConn, s *seen) {
		switch s.target() {
		case "/teapot":
			c.say("HTTP/1.1 418 I'm a teapot\r\nContent-Length: 0\r\n\r\n")
		case "/junk":
			c.say("junk\r\n")
		default:
			c.echo(s)
		}
	}), "RATE_LIMIT_LIMIT", "9", "EVENT_LOOPS", "1")
	r.play(`
		5 x GET / -> 200
		POST /p body=ab -> 200; BREW /t -> 200; GET /teapot -> 418; GET /junk -> 502; GET / -> 429; DELETE /d -> 429`)
	r.compare(words(mixture))
	s := r.samples()
	for _, word := range words(mixture) {
		if _, ok := s[sample(word[:strings.LastIndexByte(word, '=')])]; !ok {
			t.Errorf("there is no sample for %s", word)
		}
	}
	r.play(`client "GET / HTTP/1.1\r\n\r\n" -> 400 # malformed: answered, not decided
		metrics responses.400=1 requests_by_method_total{method="other",code="400"}=1 store_decisions_total=11`)
}

// Every family of contracts that this proxy has so far is there, typed and
// explained.
func TestMetricFamilies(t *testing.T) {
	r := serve(t, echoes)
	r.play(`a GET / -> 200; a GET /metrics -> 200`)
	for kind, names := range map[string]string{
		"counter": `ratelimiter_requests_total ratelimiter_requests_by_algorithm_total ratelimiter_store_commands_total
			ratelimiter_store_decisions_total ratelimiter_responses_total ratelimiter_requests_by_method_total
			ratelimiter_rule_decisions_total ratelimiter_upstream_errors_total ratelimiter_upstream_shed_total`,
		"gauge": `ratelimiter_current_limit ratelimiter_window_seconds ratelimiter_bucket_capacity
			ratelimiter_token_fill_rate rate_limit_current_limit rate_limit_algorithm ratelimiter_upstream_in_flight
			ratelimiter_decision_duration_seconds_max ratelimiter_upstream_connections ratelimiter_client_connections`,
		"histogram": `ratelimiter_request_duration_seconds ratelimiter_decision_duration_seconds
			ratelimiter_upstream_response_duration_seconds`,
	} {
		for name := range strings.FieldsSeq(names) {
			text := r.last("a").body
			equal(t, name+" as a "+kind, strings.Count(text, "# TYPE "+name+" "+kind+"\n"), 1)
			equal(t, "explanations of "+name, strings.Count(text, "# HELP "+name+" "), 1)
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
	r.together(places+more, func(_ int, c *testkit.Conn) {
		c.Send(request("/config/adaptive"))
		res, err := http.ReadResponse(c.In, nil)
		if err != nil {
			res = &http.Response{Status: err.Error()}
		}
		answers <- res
	})
	for range more {
		if res := <-answers; res.StatusCode != 503 || res.Header.Get("Retry-After") != "1" ||
			res.Header.Get("Content-Type") != "application/json" {
			t.Errorf("answered %s %v", res.Status, res.Header)
		}
	}
	r.play(`GET / -> 200; GET /actuator/health -> 200; GET /actuator/health/readiness -> 200
		other@127.0.0.2 GET /config/adaptive`)
	equal(t, "requests that are counted as refused", r.samples()["ratelimiter_own_refused_total"], more)
	close(r.held)
	for range places {
		equal(t, "the status of a client within its share", (<-answers).StatusCode, 200)
	}
	r.play(`other -> 200`)
}

// A client may leave while an own endpoint works for it.
func TestClientLeavesOwnEndpoint(t *testing.T) {
	r := serve(t, echoes)
	r.play(`a GET /config/adaptive`)
	r.until("it works", func() bool { return r.holding.Load() == 1 })
	r.play(`a resets; until client_connections=0`)
	close(r.held)
	r.play(`a GET / -> 200; a GET /config/limits -> 200`)
}
