package report

import (
	"time"

	"weir/internal/program/metric"
	"weir/proxy/http/exchange"
)

// statusMax is beyond the largest status that is counted.
const statusMax = 600

// A LoopCounters is what one loop counts. Nothing else writes to it, so an atomic add never waits.
//
// Safe for concurrent use: its loop writes, anybody may read.
type LoopCounters struct {
	GateWould   metric.Counter // exchanges that would have waited for a place in shadow mode
	Aged        metric.Counter // targets' connections that have had their time
	Disbelieved metric.Counter // fields that say whose request it is, of others than trusted proxies

	Abandoned       metric.Counter // requests whose clients disconnected while the target worked on them
	AbandonedBeyond metric.Counter // those of them beyond the share of their client
	AbandonedLate   metric.Counter // those of them that were not answered in time

	Traffic TrafficCounter

	forwarded, rejected verdict
	deferred            metric.Counter
	byAlgorithm         [8]metric.Counter
	byMethodStatus      [16][statusMax]metric.Counter
	faults              [exchange.FailureKinds]metric.Counter
	retries             metric.Counter
	abandoned           metric.Counter
	spent               metric.Counter // clients' connections that have had their requests or their time
	oddFields, trailers metric.Counter

	upstreamTime *metric.Histogram
}

// A verdict is what is counted about the requests with the same decision.
type verdict struct {
	requests metric.Counter
	time     *metric.Histogram // from the first byte read to the last byte written
	decide   *metric.Histogram // how long passing the limiter took
	longest  metric.Max        // likewise, the longest of the last minute
}

func newVerdict() verdict {
	return verdict{time: metric.NewHistogram(metric.LatencyBuckets()),
		decide: metric.NewHistogram(metric.DecisionBuckets())}
}

// NewLoopCounters returns what a loop counts, all of it zero.
func NewLoopCounters() *LoopCounters {
	return &LoopCounters{forwarded: newVerdict(), rejected: newVerdict(),
		upstreamTime: metric.NewHistogram(metric.LatencyBuckets())}
}

// Decided records how long the limiter took to decide.
func (c *LoopCounters) Decided(now time.Time, took time.Duration, admitted bool) {
	v := &c.rejected
	if admitted {
		v = &c.forwarded
	}
	v.decide.Observe(took)
	v.longest.Observe(now, took)
}

// Report counts a request that has ended.
func (c *LoopCounters) Report(now time.Time, o *exchange.Outcome) {
	switch o.Decision {
	case exchange.Forwarded:
		if o.Fault == exchange.FaultShed {
			break // it went to no target
		}
		c.forwarded.requests.Inc()
		c.byAlgorithm[o.Algorithm].Inc()
		c.forwarded.time.Observe(now.Sub(o.Began))
		c.Traffic.Finished(now, o)
	case exchange.Deferred:
		c.deferred.Inc()
		c.byAlgorithm[o.Algorithm].Inc()
	case exchange.Rejected:
		c.rejected.requests.Inc()
		c.byAlgorithm[o.Algorithm].Inc()
		c.rejected.time.Observe(now.Sub(o.Began))
	}
	if o.Status > 0 && o.Status < statusMax {
		c.byMethodStatus[o.Method][o.Status].Inc()
	} else {
		c.abandoned.Inc()
	}
	c.answered(now, o)
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

// Delivered counts a delivery that was made. Its arrival was counted when it was stored.
func (c *LoopCounters) Delivered(now time.Time, o *exchange.Outcome) {
	c.Traffic.Delivered(now, o)
	c.answered(now, o)
}

// answered counts how a target has answered.
func (c *LoopCounters) answered(now time.Time, o *exchange.Outcome) {
	if o.Fault != exchange.FaultNone {
		c.faults[o.Fault].Inc()
	} else if !o.Sent.IsZero() && o.Status > 0 {
		c.upstreamTime.Observe(now.Sub(o.Sent))
	}
}
