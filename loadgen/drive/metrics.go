package drive

import (
	"weir/internal/program/metric"
	"weir/loadgen/record"
)

// Metrics are the metrics of the load generator over all its runs.
//
// Safe for concurrent use: they are atomic words; each loop has its own
// histograms.
type Metrics struct {
	loops    []meter
	outcomes [record.Classes]metric.Counter
	errors   [record.Reasons]metric.Counter

	current, target, active, connections, running metric.Gauge
}

// A meter holds the histograms that one loop writes.
type meter struct {
	request, service, lag *metric.Histogram
}

// NewMetrics returns the metrics of a program whose runs use up to loops event
// loops, and registers them in s.
func NewMetrics(s *metric.Set, loops int) *Metrics {
	m := &Metrics{loops: make([]meter, loops)}
	var request, service, lag []*metric.Histogram
	for i := range m.loops {
		one := meter{request: metric.NewHistogram(metric.LatencyBuckets()),
			service: metric.NewHistogram(metric.LatencyBuckets()),
			lag:     metric.NewHistogram(metric.DecisionBuckets())}
		m.loops[i] = one
		request, service, lag = append(request, one.request), append(service, one.service), append(lag, one.lag)
	}
	for c := range record.Class(record.Classes) {
		s.Counter("loadgen_requests_total"+metric.Labels("status", c.String()), "Requests by outcome.", m.outcomes[c].Load)
	}
	for r := record.NoError + 1; r < record.Reasons; r++ {
		s.Counter("loadgen_errors_total"+metric.Labels("reason", r.String()),
			"Requests that ended in an error, by reason.", m.errors[r].Load)
	}
	s.Histogram("loadgen_request_duration_seconds", "Latency: from when a request was due to when it was done.",
		request...)
	s.Histogram("loadgen_service_duration_seconds", "Service time: from when a request was sent to when it was done.",
		service...)
	s.Histogram("loadgen_schedule_lag_seconds", "Lag: how much later than due requests were sent.", lag...)
	s.Gauge("loadgen_current_rps", "Requests sent in the last second.", m.current.Load)
	s.Gauge("loadgen_target_rps", "Current rate of the profile, in requests per second.", m.target.Load)
	s.Gauge("loadgen_active_requests", "Requests in flight.", m.active.Load)
	s.Gauge("loadgen_connections", "Open connections to the target.", m.connections.Load)
	s.Gauge("loadgen_test_running", "1 while a test runs.", m.running.Load)
	return m
}

func (m *meter) finished(o *record.Outcome) {
	m.request.Observe(o.Done.Sub(o.Due))
	if !o.Start.IsZero() {
		m.service.Observe(o.Done.Sub(o.Start))
	}
}

// count adds the difference between two counts.
func (m *Metrics) count(now, before *record.Counts) {
	for i := range m.outcomes {
		m.outcomes[i].Add(now.Class[i] - before.Class[i])
	}
	for i := range m.errors {
		m.errors[i].Add(now.Reason[i] - before.Reason[i])
	}
}

func (m *Metrics) show(s *record.Status) {
	m.current.Set(s.CurrentRps)
	m.target.Set(s.TargetRps)
	m.active.Set(float64(s.InFlight))
	m.connections.Set(float64(s.Connections))
	m.running.Set(metric.Bool(s.Running))
}
