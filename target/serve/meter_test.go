package serve

import (
	"strings"
	"testing"
	"time"

	"weir/internal/net/http1"
	"weir/internal/program/metric"
	"weir/target/model"
	"weir/target/session"
)

func TestMetricsAgreeWithTheRequests(t *testing.T) {
	r := start(t, model.Default())
	for range 5 {
		r.do("GET", "/api/test", "")
	}
	r.do("POST", "/api/test", "body")
	r.do("BREW", "/api/test", "")
	r.do("TRACE", "/api/test", "")
	r.do("HEAD", "/nowhere", "")
	r.do("GET", "/model", "")
	w := r.dial()
	w.Send("GARBAGE\r\n\r\n")
	w.Status(400)

	samples := r.samples()
	for labels, want := range map[string]float64{
		`method="GET",uri="/api/test",status="200"`:   5,
		`method="POST",uri="/api/test",status="200"`:  1,
		`method="other",uri="/api/test",status="200"`: 2,
		`method="HEAD",uri="other",status="404"`:      1,
		`method="GET",uri="own",status="200"`:         1,
		`method="other",uri="other",status="400"`:     1,
	} {
		for _, name := range []string{"_count{" + labels + "}", "_bucket{" + labels + `,le="+Inf"}`} {
			if got := samples["http_server_requests_seconds"+name]; got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
		if _, ok := samples["http_server_requests_seconds_sum{"+labels+"}"]; !ok {
			t.Errorf("no _sum for %s", labels)
		}
	}
	for _, name := range []string{"target_workers_busy", "target_queue_length", "target_queue_wait_seconds_count"} {
		if got, ok := samples[name]; !ok || got != 0 {
			t.Errorf("%s is %v, %v, want 0", name, got, ok)
		}
	}
	text := r.metricsText()
	for _, line := range []string{
		"# TYPE http_server_requests_seconds histogram\n",
		"# TYPE target_workers_busy gauge\n",
		"# TYPE target_queue_length gauge\n",
		"# TYPE target_queue_wait_seconds histogram\n",
	} {
		if strings.Count(text, line) != 1 {
			t.Errorf("%q stands %d times in the metrics", line, strings.Count(text, line))
		}
	}
}

// What dashboards rely on is there under its name; what all programs have is package
// service's.
func TestMetricNames(t *testing.T) {
	r := start(t, model.Config{Delay: time.Millisecond, Workers: 1, Queue: 1, QueueTimeout: time.Second})
	r.want("GET", "/api/test", "", 200, "OK")
	text := r.metricsText()
	for _, name := range []string{
		`http_server_requests_seconds_bucket{method="GET",uri="/api/test",status="200",le="+Inf"} 1`,
		`http_server_requests_seconds_count{method="GET",uri="/api/test",status="200"} 1`,
		`http_server_requests_seconds_sum{method="GET",uri="/api/test",status="200"} `,
		"target_workers_busy 0", "target_queue_length 0", `target_queue_wait_seconds_bucket{le="+Inf"} 1`,
		"target_queue_wait_seconds_sum ", "target_queue_wait_seconds_count 1",
	} {
		if !strings.Contains(text, "\n"+name) {
			t.Errorf("the metrics lack %q:\n%s", name, text)
		}
	}
}

func (r *rig) metricsText() string {
	_, _, text := r.do("GET", "/metrics", "")
	return text
}

func TestMetricsShowTheQueue(t *testing.T) {
	r := start(t, model.Config{Delay: forever, Workers: 2, Queue: 9, QueueTimeout: forever})
	for i := range 5 {
		r.dial().Send(get)
		r.inside(min(i+1, 2), max(i-1, 0))
	}
	samples := r.samples()
	if samples["target_workers_busy"] != 2 || samples["target_queue_length"] != 3 {
		t.Errorf("%v busy and %v waiting, want 2 and 3", samples["target_workers_busy"], samples["target_queue_length"])
	}
}

// The time of a request that has to wait is more than none.
func TestMetricsTellTheTime(t *testing.T) {
	r := start(t, model.Config{Delay: 20 * time.Millisecond, QueueTimeout: time.Second})
	r.want("GET", "/api/test", "", 200, "OK")
	samples := r.samples()
	const labels = `{method="GET",uri="/api/test",status="200"`
	if sum := samples["http_server_requests_seconds_sum"+labels+"}"]; sum < 0.02 {
		t.Errorf("a service of 20 ms took %v s", sum)
	}
	if n := samples["http_server_requests_seconds_bucket"+labels+`,le="0.01"}`]; n != 0 {
		t.Errorf("%v requests took at most 10 ms", n)
	}
}

func TestCountingAllocatesNothing(t *testing.T) {
	r := start(t, model.Default())
	m := newMeter(r.histograms, 1)
	exchanges := []session.Exchange{
		{Took: 1, Status: 200, Method: http1.GET, Endpoint: session.Service},
		{Took: 2, Status: 503, Method: http1.GET, Endpoint: session.Service},
	}
	m.count(exchanges)
	if n := testing.AllocsPerRun(1000, func() { m.count(exchanges) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkCount(b *testing.B) {
	m := newMeter(newHistograms(metric.New(), 1), 0)
	exchanges := []session.Exchange{{Took: 1, Status: 200, Method: http1.GET, Endpoint: session.Service}}
	b.ReportAllocs()
	for b.Loop() {
		m.count(exchanges)
	}
}
