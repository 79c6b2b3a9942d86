package drive

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/loadgen/record"
)

func TestSteadyLoad(t *testing.T) {
	for _, loops := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d loops", loops), func(t *testing.T) {
			b, s := against(t, answerAll(ok))
			b.loops = loops
			r := b.run(load(s.addr, 1000, 0.25))
			if r.Sent != 250 || r.Success != 250 || s.requests.Load() != 250 {
				t.Errorf("sent %d, answered %d, the server saw %d, want 250", r.Sent, r.Success, s.requests.Load())
			}
			if r.Lag.Count != 250 || r.ServiceTime.Count != 250 || r.StatusCodes["200"] != 250 || r.Loops != loops {
				t.Errorf("%d lags, %d service times, statuses %v, %d loops", r.Lag.Count, r.ServiceTime.Count, r.StatusCodes,
					r.Loops)
			}
			b.wantMetric(`loadgen_requests_total{status="success"} 250`)
			b.wantMetric(`loadgen_request_duration_seconds_count 250`)
			b.wantMetric(`loadgen_service_duration_seconds_count 250`)
			b.wantMetric(`loadgen_schedule_lag_seconds_count 250`)
			b.wantMetric(`loadgen_test_running 0`)
			testkit.Contains(t, b.log.String(),
				"Starting load test profile=constant (rps=1000) for 0.25 seconds targeting limiterUrl=http://"+s.addr+
					"/api/test",
				"Test completed: 250 requests sent, 0 errors, avg latency ")
		})
	}
}

// Each kind of answer or failure becomes its outcome, and the schedule goes on.
func TestOutcomes(t *testing.T) {
	const empty = "\r\nContent-Length: 0\r\n\r\n"
	for name, c := range map[string]struct {
		each    func(c *served)
		options map[string]any
		success bool
		limited bool
		shed    bool
		reason  string
	}{
		"redirect":          {each: answerAll("HTTP/1.1 302 Found" + empty), success: true},
		"limited":           {each: answerAll("HTTP/1.1 429 Too Many Requests" + empty), limited: true},
		"shed":              {each: answerAll("HTTP/1.1 503 Busy\r\nX-Weir-Reason: gate" + empty), shed: true},
		"not found":         {each: answerAll("HTTP/1.1 404 Not Found" + empty), reason: "http_4xx"},
		"broken":            {each: answerAll("HTTP/1.1 503 Busy" + empty), reason: "http_5xx"},
		"garbage":           {each: answerAll("garbage\r\n\r\n"), reason: "bad_response"},
		"closes unanswered": {each: func(c *served) { c.request() }, reason: "closed"},
		"half an answer": {each: func(c *served) {
			if c.request() {
				c.say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
			}
		}, reason: "closed"},
		"silence": {each: silence, options: map[string]any{"timeout": 2}, reason: "timeout"},
		"close after each": {each: func(c *served) {
			if c.request() {
				c.say("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nOK")
			}
		}, success: true},
		"until close": {each: func(c *served) {
			if c.request() {
				c.say("HTTP/1.1 200 OK\r\n\r\nuntil close")
			}
		}, success: true},
		"once": {each: answerAll(ok), options: map[string]any{"keepAlive": false}, success: true},
		"post": {each: answerAll(ok), options: map[string]any{"method": "POST", "body": "hello"}, success: true},
		"head": {each: answerAll("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"),
			options: map[string]any{"method": "HEAD"}, success: true},
	} {
		t.Run(name, func(t *testing.T) {
			b, s := against(t, c.each)
			config := load(s.addr, 300, 0.1)
			config.Options = c.options
			r := b.run(config)
			if r.Sent != 30 {
				t.Errorf("sent %d, want 30", r.Sent)
			}
			want := map[bool]uint64{true: 30}
			if r.Success != want[c.success] || r.RateLimited != want[c.limited] || r.Shed != want[c.shed] {
				t.Errorf("%d succeeded, %d were limited, %d shed, errors %v", r.Success, r.RateLimited, r.Shed, r.ErrorsByReason)
			}
			if c.shed {
				b.wantMetric(`loadgen_requests_total{status="shed"} 30`)
				if log := b.log.String(); strings.Contains(log, "Request errors") ||
					!strings.Contains(log, "30 requests sent, 30 shed, 0 errors") {
					t.Errorf("the log says\n%s", log)
				}
			}
			if c.reason != "" {
				if r.ErrorsByReason[c.reason] != 30 {
					t.Errorf("errors %v, want 30 of %s", r.ErrorsByReason, c.reason)
				}
				b.wantMetric(fmt.Sprintf(`loadgen_errors_total{reason=%q} 30`, c.reason))
				b.wantMetric(`loadgen_requests_total{status="error"} 30`)
				if !strings.Contains(b.log.String(), "Request errors: ") {
					t.Errorf("the log has no word of it:\n%s", b.log.String())
				}
			}
		})
	}
}

// A connection that breaks inside an answer is an error. Whether it was reset
// or closed the kernel does not always say.
func TestReset(t *testing.T) {
	b, s := against(t, func(c *served) {
		if c.request() {
			c.say("HTTP/1.1 200 OK\r\n")
			c.Conn.(*net.TCPConn).SetLinger(0)
		}
	})
	r := b.run(load(s.addr, 300, 0.1))
	if r.ErrorsByReason["reset"] == 0 || r.ErrorsByReason["reset"]+r.ErrorsByReason["closed"] != 30 {
		t.Errorf("errors %v", r.ErrorsByReason)
	}
}

// A target that is not there refuses every request, and the schedule goes on.
func TestRefused(t *testing.T) {
	for _, keep := range []bool{true, false} {
		t.Run(fmt.Sprintf("keepAlive %v", keep), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			addr := testkit.FreeAddr(t)
			config := load(addr, 400, 0.25)
			config.Options = map[string]any{"keepAlive": keep}
			r := b.run(config)
			if r.Sent != 0 || r.SentRps != 0 || r.Unconnected != 100 || r.ErrorsByReason["connect_refused"] != 100 {
				t.Errorf("sent %d (%v/s), %d unconnected, errors %v, want 100 refused", r.Sent, r.SentRps, r.Unconnected,
					r.ErrorsByReason)
			}
			if r.Verdict == record.Valid || !slices.ContainsFunc(r.Reasons, func(s string) bool {
				return strings.Contains(s, "100 requests were not sent, because connecting failed")
			}) {
				t.Errorf("the generator is %s: %q", r.Verdict, r.Reasons)
			}
			if r.Lag.Count != 100 || keep && r.Lag.Max == 0 {
				t.Errorf("the pauses between dials show in no lag: %+v", r.Lag)
			}
			if !strings.Contains(b.log.String(), `msg="Request errors: connection refused" component=HttpClient count=100`) {
				t.Errorf("the log has no word of it:\n%s", b.log.String())
			}
		})
	}
}

// A target that stops answering for a while shows in the latency, which counts
// from the due time, and with one connection not in the service time of the
// requests that had to wait.
func TestFreeze(t *testing.T) {
	const freeze = 200 * time.Millisecond
	var n atomic.Int64
	b, s := against(t, func(c *served) {
		for c.request() {
			if n.Add(1) == 20 {
				time.Sleep(freeze)
			}
			c.say(ok)
		}
	})
	config := load(s.addr, 200, 0.5)
	config.Concurrency = 1
	r := b.run(config)
	if r.Success != 100 {
		t.Fatalf("%d of 100 succeeded: %v", r.Success, r.ErrorsByReason)
	}
	// About forty requests were due during the freeze and waited, one was
	// under way: the median of the waiting is far above what was served.
	if r.Latency.P90 < freeze.Seconds()/10 {
		t.Errorf("latency p90 is %v: the freeze does not show", r.Latency.P90)
	}
	if r.ServiceTime.P90 >= r.Latency.P90 {
		t.Errorf("service time p90 %v is not below latency p90 %v", r.ServiceTime.P90, r.Latency.P90)
	}
	if r.ServiceTime.Max < freeze.Seconds() {
		t.Errorf("longest service time %v is below the freeze", r.ServiceTime.Max)
	}
	if r.Lag.P99 <= r.PacerLag.P50 {
		t.Errorf("lag p99 %v does not show the wait for the connection", r.Lag.P99)
	}
	if r.Verdict == record.Valid {
		t.Error("a run whose requests waited for a connection is VALID")
	}
}

// If more connections may be opened, a freeze delays no other request.
func TestPoolGrows(t *testing.T) {
	release := make(chan struct{})
	b, s := against(t, func(c *served) {
		for c.request() {
			<-release
			c.say(ok)
		}
	})
	run := b.start(load(s.addr, 400, 0.25))
	testkit.Eventually(t, "all requests at the server", func() bool { return s.requests.Load() == 100 })
	testkit.Eventually(t, "them in the metrics",
		func() bool { return strings.Contains(b.exposition(), "loadgen_active_requests 100\n") })
	b.wantMetric("loadgen_test_running 1")
	close(release)
	r := b.finish(run)
	if r.Success != 100 || r.Connections.Peak < 100 {
		t.Errorf("%d succeeded over at most %d connections", r.Success, r.Connections.Peak)
	}
}

// A request that has waited too long for a connection is given up, and said
// to be.
func TestQueueFull(t *testing.T) {
	b, s := against(t, silence)
	b.age = 100 * time.Millisecond
	config := load(s.addr, 100, 0.5)
	config.Concurrency = 1
	config.Options = map[string]any{"timeout": 5}
	r := b.run(config)
	if r.Sent != 1 || r.ErrorsByReason["queue_full"] != 49 || r.Dropped != 49 || r.ErrorsByReason["timeout"] != 1 {
		t.Errorf("sent %d, errors %v, dropped %d", r.Sent, r.ErrorsByReason, r.Dropped)
	}
	if r.Verdict != record.Invalid {
		t.Errorf("verdict %s", r.Verdict)
	}
	if r.LatencyErrors.Max < 0.1 {
		t.Errorf("given up after %v s", r.LatencyErrors.Max)
	}
}

// When the schedule is over, requests that still wait for a connection wait no
// longer than for an answer.
func TestTailIsBounded(t *testing.T) {
	b, s := against(t, silence)
	config := load(s.addr, 200, 0.2)
	config.Concurrency = 1
	config.Options = map[string]any{"timeout": 0.1}
	r := b.run(config)
	if r.ErrorsByReason["queue_full"] == 0 || r.ErrorsByReason["queue_full"]+r.ErrorsByReason["timeout"] != 40 {
		t.Errorf("errors %v", r.ErrorsByReason)
	}
}

// A name with several addresses is tried until one answers.
func TestHostByName(t *testing.T) {
	b, s := against(t, answerAll(ok))
	_, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		t.Fatal(err)
	}
	if r := b.run(load("localhost:"+port, 100, 0.1)); r.Success != 10 {
		t.Errorf("%d succeeded, errors %v", r.Success, r.ErrorsByReason)
	}
}

// What has no effect is said.
func TestWarnings(t *testing.T) {
	b, s := against(t, answerAll(ok))
	config := load(s.addr, 100, 0.1)
	config.PerThread = 5
	b.run(config)
	if !strings.Contains(b.log.String(), "requestsPerThread has no effect") {
		t.Errorf("the log has no word of it:\n%s", b.log.String())
	}
}

// Requests leave when they are due whatever became of those before: a server
// that answers nothing sees them all.
func TestOpenLoop(t *testing.T) {
	b, s := against(t, silence)
	config := load(s.addr, 400, 0.25)
	config.Options = map[string]any{"timeout": 3}
	r := b.run(config)
	testkit.Eventually(t, "the server has read all requests", func() bool { return s.requests.Load() == 100 })
	if r.ErrorsByReason["timeout"] != 100 {
		t.Errorf("errors %v", r.ErrorsByReason)
	}
}

func TestThresholds(t *testing.T) {
	b, s := against(t, answerAll(ok))
	config := load(s.addr, 100, 0.2)
	config.Thresholds = map[string]any{"successShare": ">0.99", "errorShare": ">0.5"}
	r := b.run(config)
	if r.ThresholdsHeld() || len(r.Thresholds) != 2 || r.Thresholds[0].Held || !r.Thresholds[1].Held {
		t.Errorf("thresholds %+v", r.Thresholds)
	}
}

func TestHostNotFound(t *testing.T) {
	_, err := findAddress(planOf(t, load("no-such-host.invalid:80", 1, 1)))
	if err == nil || !strings.HasPrefix(err.Error(), "limiterUrl: the host cannot be found") {
		t.Errorf("error %v", err)
	}
}

func TestStop(t *testing.T) {
	b, s := against(t, answerAll(ok))
	run := b.start(load(s.addr, 200, 60))
	testkit.Eventually(t, "requests", func() bool { return s.requests.Load() > 20 })
	run.Stop()
	r := b.finish(run)
	if r.End != record.EndStopped || r.Elapsed >= 60 || r.Success != r.Sent {
		t.Errorf("ended as %s after %v s, %d of %d succeeded", r.End, r.Elapsed, r.Success, r.Sent)
	}
	if !strings.Contains(b.log.String(), "Load test stopped by user after ") {
		t.Errorf("the log has no word of it:\n%s", b.log.String())
	}
	if st := run.Status(); st.Running || st.Sent != r.Sent || st.Phase != record.PhaseOver {
		t.Errorf("status after the end: %+v", st)
	}
}

// Answers that do not come are not awaited for long after a stop.
func TestStopAbandons(t *testing.T) {
	b, s := against(t, silence)
	config := load(s.addr, 100, 60)
	config.Options = map[string]any{"timeout": 60}
	run := b.start(config)
	testkit.Eventually(t, "requests", func() bool { return s.requests.Load() > 5 })
	run.Stop()
	r := b.finish(run)
	if r.Abandoned == 0 || r.Abandoned != r.Sent || r.Completed != 0 {
		t.Errorf("sent %d, abandoned %d, completed %d", r.Sent, r.Abandoned, r.Completed)
	}
}

func TestStopBeforeTheStart(t *testing.T) {
	b, s := against(t, answerAll(ok))
	config := load(s.addr, 100, 60)
	config.StartAt = time.Now().Add(time.Hour).Format(time.RFC3339)
	run := b.start(config)
	if st := run.Status(); !st.Running || st.Phase != record.PhaseWaiting {
		t.Errorf("status before the start: %+v", st)
	}
	run.Stop()
	if r := b.finish(run); r.Due != 0 || r.Elapsed != 0 {
		t.Errorf("%d due in %v s", r.Due, r.Elapsed)
	}
}

func TestStartAt(t *testing.T) {
	b, s := against(t, answerAll(ok))
	config := load(s.addr, 100, 0.1)
	at := time.Now().Add(2 * time.Second)
	config.StartAt = at.Format(time.RFC3339Nano)
	r := b.run(config)
	if r.StartedAt.Before(at.Add(-time.Millisecond)) || r.Success != 10 {
		t.Errorf("started at %v, asked for %v; %d succeeded", r.StartedAt, at, r.Success)
	}
}
