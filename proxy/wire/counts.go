package wire

import (
	"iter"
	"strconv"
	"time"

	"weir/internal/http1"
	"weir/internal/metric"
	"weir/proxy/exchange"
	"weir/proxy/gate"
	"weir/proxy/limit"
	"weir/proxy/traffic"
)

// statusMax is beyond the largest status that is counted.
const statusMax = 600

// counts is what one loop counts. Nothing else writes to it, so an atomic add
// never waits; a scrape sums the loops.
type counts struct {
	forwarded, rejected metric.Counter
	deferred            metric.Counter
	byAlgorithm         [8]metric.Counter
	byMethodStatus      [16][statusMax]metric.Counter
	faults              [exchange.Faults]metric.Counter
	retries             metric.Counter
	abandoned           metric.Counter
	gateWould           metric.Counter // exchanges that would have waited for a place in shadow mode
	spent               metric.Counter // clients' connections that have had their requests or their time
	aged                metric.Counter // targets' connections that have had their time
	disbelieved         metric.Counter
	oddFields, trailers metric.Counter
	traffic             traffic.Counter

	forwardedTime, rejectedTime     *metric.Histogram
	forwardedDecide, rejectedDecide *metric.Histogram
	forwardedMax, rejectedMax       metric.Max
	upstreamTime                    *metric.Histogram
}

func newCounts() *counts {
	return &counts{
		forwardedTime: metric.NewHistogram(metric.Latency()), rejectedTime: metric.NewHistogram(metric.Latency()),
		forwardedDecide: metric.NewHistogram(metric.Decision()), rejectedDecide: metric.NewHistogram(metric.Decision()),
		upstreamTime: metric.NewHistogram(metric.Latency()),
	}
}

// report counts a request that is over, and learns from it how its target is.
func (c *counts) report(now time.Time, o *exchange.Outcome) {
	switch o.Decision {
	case exchange.Forwarded:
		if o.Fault == exchange.FaultGate {
			break // it went to no target
		}
		c.forwarded.Inc()
		c.byAlgorithm[o.Algorithm].Inc()
		c.forwardedTime.Observe(now.Sub(o.Began))
		c.traffic.Over(now, o)
	case exchange.Deferred:
		c.deferred.Inc()
		c.byAlgorithm[o.Algorithm].Inc()
	case exchange.Rejected:
		c.rejected.Inc()
		c.byAlgorithm[o.Algorithm].Inc()
		c.rejectedTime.Observe(now.Sub(o.Began))
	}
	if o.Status > 0 && o.Status < statusMax {
		c.byMethodStatus[o.Method][o.Status].Inc()
	} else {
		c.abandoned.Inc()
	}
	if o.Fault != exchange.FaultNone {
		c.faults[o.Fault].Inc()
	} else if !o.Sent.IsZero() && o.Status > 0 {
		c.upstreamTime.Observe(now.Sub(o.Sent))
	}
	if o.Retried {
		c.retries.Inc()
	}
	if o.OddFields+o.Trailers > 0 {
		c.oddFields.Add(uint64(o.OddFields))
		c.trailers.Add(uint64(o.Trailers))
	}
	if o.Spent {
		c.spent.Inc()
	}
}

// delivered counts a delivery that was made. Its arrival was counted when it was stored, so
// it is forwarded now, and no demand.
func (c *counts) delivered(now time.Time, o *exchange.Outcome) {
	c.traffic.Over(now, o)
	if o.Fault != exchange.FaultNone {
		c.faults[o.Fault].Inc()
	} else if !o.Sent.IsZero() && o.Status > 0 {
		c.upstreamTime.Observe(now.Sub(o.Sent))
	}
}

// sum adds one count over all loops.
func (f *Front) sum(of func(c *counts) uint64) (n uint64) {
	for _, s := range f.sides {
		n += of(s.counts)
	}
	return n
}

// Register adds the proxy's metrics to set.
func (f *Front) Register(set *metric.Set) {
	counter := func(name, help string, of func(c *counts) uint64) {
		set.Counter(name, help, func() uint64 { return f.sum(of) })
	}
	const requests = "requests that reached a decision, but for those that a gate shed"
	counter(`ratelimiter_requests_total{decision="forwarded"}`, requests, func(c *counts) uint64 { return c.forwarded.Load() })
	counter(`ratelimiter_requests_total{decision="rejected"}`, requests, func(c *counts) uint64 { return c.rejected.Load() })
	if f.cfg.Defer != nil {
		counter(`ratelimiter_requests_total{decision="deferred"}`, requests, func(c *counts) uint64 { return c.deferred.Load() })
	}
	for _, a := range limit.Algorithms() {
		counter(`ratelimiter_requests_by_algorithm_total`+metric.Labels("algorithm", a.String()),
			"requests by the algorithm of the rule that decided", func(c *counts) uint64 { return c.byAlgorithm[a].Load() })
	}
	f.registerTimes(set)
	set.Counters("ratelimiter_responses_total", "answers to clients by status code", f.responses())
	counter("ratelimiter_requests_abandoned_total", "requests that were decided and whose client left before the answer",
		func(c *counts) uint64 { return c.abandoned.Load() })
	const dropped = "fields of requests that the target does not see"
	counter(`ratelimiter_dropped_fields_total{reason="untrusted"}`, dropped, func(c *counts) uint64 { return c.disbelieved.Load() })
	counter(`ratelimiter_dropped_fields_total{reason="name"}`, dropped, func(c *counts) uint64 { return c.oddFields.Load() })
	counter("ratelimiter_dropped_trailers_total", "trailer sections of requests and answers that were not passed on",
		func(c *counts) uint64 { return c.trailers.Load() })
	set.Counters("ratelimiter_requests_by_method_total", "answers to clients by method and status code", f.byMethod())
	f.Tally.Register(set)
	f.registerUpstream(set)
	f.cfg.Access.register(set)
	set.Gauge("ratelimiter_client_connections", "open connections of clients", func() float64 { return float64(f.group.Stats().Open) })
	set.Counter("ratelimiter_client_connections_refused_total", "connections closed at once: too many are open",
		func() uint64 { return f.group.Stats().Refused })
	counter("ratelimiter_client_connections_spent_total", "connections closed after CONNECTION_MAX_REQUESTS or CONNECTION_MAX_AGE",
		func(c *counts) uint64 { return c.spent.Load() })
	set.Counter("ratelimiter_accept_errors_total", "failures to accept a connection", func() uint64 { return f.group.Stats().AcceptErrors })
	set.Counter("ratelimiter_client_stalls_total", "connections closed because their client took nothing of its answers",
		func() uint64 { return f.group.Stats().Stalled })
	set.Counter("ratelimiter_client_pauses_total", "times that reading from a client was paused", func() uint64 { return f.group.Stats().Paused })
	set.Counter("ratelimiter_memory_sheds_total", "times that the memory budget was spent and requests were turned away",
		f.memory.Sheds.Load)
	set.Counter("ratelimiter_panics_total", "faults of the proxy itself that closed a connection", func() uint64 { return f.group.Stats().Panics })
}

// registerTimes adds the histograms and maxima.
func (f *Front) registerTimes(set *metric.Set) {
	parts := func(of func(c *counts) *metric.Histogram) (hs []*metric.Histogram) {
		for _, s := range f.sides {
			hs = append(hs, of(s.counts))
		}
		return hs
	}
	largest := func(of func(c *counts) *metric.Max) func() float64 {
		return func() float64 {
			var most time.Duration
			for _, s := range f.sides {
				most = max(most, of(s.counts).Read(time.Now()))
			}
			return most.Seconds()
		}
	}
	const request = "from the first byte read to the last byte written"
	set.Histogram(`ratelimiter_request_duration_seconds{decision="forwarded"}`, request, parts(func(c *counts) *metric.Histogram { return c.forwardedTime })...)
	set.Histogram(`ratelimiter_request_duration_seconds{decision="rejected"}`, request, parts(func(c *counts) *metric.Histogram { return c.rejectedTime })...)
	const decide = "how long passing the limiter took"
	set.Histogram(`ratelimiter_decision_duration_seconds{decision="forwarded"}`, decide, parts(func(c *counts) *metric.Histogram { return c.forwardedDecide })...)
	set.Histogram(`ratelimiter_decision_duration_seconds{decision="rejected"}`, decide, parts(func(c *counts) *metric.Histogram { return c.rejectedDecide })...)
	const longest = "the longest that passing the limiter took in the last minute"
	set.Gauge(`ratelimiter_decision_duration_seconds_max{decision="forwarded"}`, longest, largest(func(c *counts) *metric.Max { return &c.forwardedMax }))
	set.Gauge(`ratelimiter_decision_duration_seconds_max{decision="rejected"}`, longest, largest(func(c *counts) *metric.Max { return &c.rejectedMax }))
	set.Histogram("ratelimiter_upstream_response_duration_seconds", "from sending a request to the target to its complete answer",
		parts(func(c *counts) *metric.Histogram { return c.upstreamTime })...)
}

func (f *Front) registerUpstream(set *metric.Set) {
	gauge := func(name, help string, of func(t *target) int64) {
		set.Gauge(name, help, func() float64 {
			n := int64(0)
			for _, s := range f.sides {
				for _, t := range *s.seen.Load() {
					n += of(t)
				}
			}
			return float64(n)
		})
	}
	gauge("ratelimiter_upstream_in_flight", "requests at the targets", func(t *target) int64 { return t.Busy.Load() })
	const conns = "connections to targets"
	gauge(`ratelimiter_upstream_connections{state="idle"}`, conns, func(t *target) int64 { return t.Idle.Load() })
	gauge(`ratelimiter_upstream_connections{state="busy"}`, conns, func(t *target) int64 { return t.Busy.Load() })
	gauge(`ratelimiter_upstream_connections{state="connecting"}`, conns, func(t *target) int64 { return t.Connecting.Load() })
	set.Counter("ratelimiter_upstream_connections_aged_total", "connections to targets closed after TARGET_CONNECTION_MAX_AGE",
		func() uint64 { return f.sum(func(c *counts) uint64 { return c.aged.Load() }) })
	gauge("ratelimiter_upstream_streams", "connections to targets that carry tunnels and streams, or are private to a client that has logged in over them", func(t *target) int64 { return t.Streams.Load() })
	f.Gates.Register(set)
	if f.cfg.Gate.Mode != gate.Off {
		set.Counter("ratelimiter_gate_would_wait_total", "requests that GATE=shadow would have had wait",
			func() uint64 { return f.sum(func(c *counts) uint64 { return c.gateWould.Load() }) })
	}
	f.Targets.Register(set)
	for k := exchange.FaultNone + 1; int(k) < exchange.Faults; k++ {
		set.Counter("ratelimiter_upstream_errors_total"+metric.Labels("kind", k.String()), "requests that a target did not answer",
			func() uint64 { return f.sum(func(c *counts) uint64 { return c.faults[k].Load() }) })
	}
	set.Counter("ratelimiter_upstream_retries_total", "requests sent once more on a fresh connection",
		func() uint64 { return f.sum(func(c *counts) uint64 { return c.retries.Load() }) })
}

func (f *Front) responses() iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		for status := range statusMax {
			n := f.sum(func(c *counts) (n uint64) {
				for m := range c.byMethodStatus {
					n += c.byMethodStatus[m][status].Load()
				}
				return n
			})
			if n > 0 && !yield(metric.Labels("code", strconv.Itoa(status)), n) {
				return
			}
		}
	}
}

func (f *Front) byMethod() iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		for m := range len(counts{}.byMethodStatus) {
			for status := range statusMax {
				n := f.sum(func(c *counts) uint64 { return c.byMethodStatus[m][status].Load() })
				if n == 0 {
					continue
				}
				if !yield(metric.Labels("method", methodLabel(http1.Method(m)), "code", strconv.Itoa(status)), n) {
					return
				}
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
