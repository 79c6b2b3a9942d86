package report

import (
	"strconv"
	"time"

	"weir/internal/net/http1"
	"weir/internal/program/metric"
	"weir/proxy/http/exchange"
	"weir/proxy/limit"
)

// A MetricsSource says which of the metrics there are.
type MetricsSource struct {
	Loops     []*LoopCounters
	Deferring bool // refused requests are stored
	Gated     bool // there are gates
}

// sum adds one count over all loops.
func (s *MetricsSource) sum(of func(c *LoopCounters) uint64) (n uint64) {
	for _, c := range s.Loops {
		n += of(c)
	}
	return n
}

// Register adds the metrics to set.
func (s *MetricsSource) Register(set *metric.Set) {
	counter := func(name, help string, of func(c *LoopCounters) uint64) {
		set.Counter(name, help, func() uint64 { return s.sum(of) })
	}
	const requests = "requests that reached a decision, except those that a gate shed"
	counter(`ratelimiter_requests_total{decision="forwarded"}`, requests,
		func(c *LoopCounters) uint64 { return c.forwarded.requests.Load() })
	counter(`ratelimiter_requests_total{decision="rejected"}`, requests,
		func(c *LoopCounters) uint64 { return c.rejected.requests.Load() })
	if s.Deferring {
		counter(`ratelimiter_requests_total{decision="deferred"}`, requests,
			func(c *LoopCounters) uint64 { return c.deferred.Load() })
	}
	for _, a := range limit.Algorithms() {
		counter(`ratelimiter_requests_by_algorithm_total`+metric.Labels("algorithm", a.String()),
			"requests by the algorithm of the rule that decided",
			func(c *LoopCounters) uint64 { return c.byAlgorithm[a].Load() })
	}
	s.registerTimes(set)
	set.Counters("ratelimiter_responses_total", "answers to clients by status code", s.responses)
	counter("ratelimiter_requests_abandoned_total", "requests that were decided and whose client left before the answer",
		func(c *LoopCounters) uint64 { return c.abandoned.Load() })
	const dropped = "fields of requests that the target does not see"
	counter(`ratelimiter_dropped_fields_total{reason="untrusted"}`, dropped,
		func(c *LoopCounters) uint64 { return c.Disbelieved.Load() })
	counter(`ratelimiter_dropped_fields_total{reason="name"}`, dropped, func(c *LoopCounters) uint64 { return c.oddFields.Load() })
	counter("ratelimiter_dropped_trailers_total", "trailer sections of requests and answers that were not passed on, at least in part",
		func(c *LoopCounters) uint64 { return c.trailers.Load() })
	set.Counters("ratelimiter_requests_by_method_total", "answers to clients by method and status code", s.byMethod)
	counter("ratelimiter_client_connections_spent_total",
		"connections closed after CONNECTION_MAX_REQUESTS or CONNECTION_MAX_AGE",
		func(c *LoopCounters) uint64 { return c.spent.Load() })
	counter("ratelimiter_upstream_connections_aged_total", "connections to targets closed after TARGET_CONNECTION_MAX_AGE",
		func(c *LoopCounters) uint64 { return c.Aged.Load() })
	counter("ratelimiter_upstream_abandoned_total", "requests whose client disconnected while the target worked on them",
		func(c *LoopCounters) uint64 { return c.Abandoned.Load() })
	counter("ratelimiter_upstream_abandoned_beyond_share_total",
		"of these, those beyond the share of their client, whose connections are closed without a gate",
		func(c *LoopCounters) uint64 { return c.AbandonedBeyond.Load() })
	counter("ratelimiter_upstream_abandoned_timeouts_total",
		"of these, those that were not answered within TARGET_TIMEOUT",
		func(c *LoopCounters) uint64 { return c.AbandonedLate.Load() })
	if s.Gated {
		counter("ratelimiter_gate_would_wait_total", "requests that would have waited with GATE=on; counted with GATE=shadow",
			func(c *LoopCounters) uint64 { return c.GateWould.Load() })
	}
	for k := exchange.FaultNone + 1; int(k) < exchange.FailureKinds; k++ {
		name, help := "ratelimiter_upstream_errors_total", "requests that a target did not answer"
		if k.LackOfRoom() {
			name, help = "ratelimiter_upstream_shed_total",
				"requests that were not sent to a target, because the proxy had no place for them"
		}
		counter(name+metric.Labels("kind", k.String()), help, func(c *LoopCounters) uint64 { return c.faults[k].Load() })
	}
	counter("ratelimiter_upstream_retries_total", "requests sent once more on a fresh connection",
		func(c *LoopCounters) uint64 { return c.retries.Load() })
}

// registerTimes adds the histograms and maxima.
func (s *MetricsSource) registerTimes(set *metric.Set) {
	parts := func(of func(c *LoopCounters) *metric.Histogram) (hs []*metric.Histogram) {
		for _, c := range s.Loops {
			hs = append(hs, of(c))
		}
		return hs
	}
	for labels, of := range verdicts {
		set.Histogram("ratelimiter_request_duration_seconds"+labels, "from the first byte read to the last byte written",
			parts(func(c *LoopCounters) *metric.Histogram { return of(c).time })...)
		set.Histogram("ratelimiter_decision_duration_seconds"+labels, "how long passing the limiter took",
			parts(func(c *LoopCounters) *metric.Histogram { return of(c).decide })...)
		set.Gauge("ratelimiter_decision_duration_seconds_max"+labels,
			"the longest that passing the limiter took in the last minute", func() float64 {
				var most time.Duration
				for _, c := range s.Loops {
					most = max(most, of(c).longest.Read(time.Now()))
				}
				return most.Seconds()
			})
	}
	set.Histogram("ratelimiter_upstream_response_duration_seconds",
		"from sending a request to the target to its complete answer",
		parts(func(c *LoopCounters) *metric.Histogram { return c.upstreamTime })...)
}

// verdicts yields the labels of the decisions that are timed.
func verdicts(yield func(labels string, of func(c *LoopCounters) *verdict) bool) {
	_ = yield(`{decision="forwarded"}`, func(c *LoopCounters) *verdict { return &c.forwarded }) &&
		yield(`{decision="rejected"}`, func(c *LoopCounters) *verdict { return &c.rejected })
}

func (s *MetricsSource) responses(add func(labels string, n uint64)) {
	for status := range statusMax {
		n := s.sum(func(c *LoopCounters) (n uint64) {
			for m := range c.byMethodStatus {
				n += c.byMethodStatus[m][status].Load()
			}
			return n
		})
		if n > 0 {
			add(metric.Labels("code", strconv.Itoa(status)), n)
		}
	}
}

func (s *MetricsSource) byMethod(add func(labels string, n uint64)) {
	for m := range len(LoopCounters{}.byMethodStatus) {
		for status := range statusMax {
			if n := s.sum(func(c *LoopCounters) uint64 { return c.byMethodStatus[m][status].Load() }); n > 0 {
				add(metric.Labels("method", methodLabel(http1.Method(m)), "code", strconv.Itoa(status)), n)
			}
		}
	}
}

func methodLabel(m http1.Method) string {
	if m == http1.MethodOther {
		return "other"
	}
	return m.String()
}
