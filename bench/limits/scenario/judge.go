package scenario

import (
	"math"
	"time"

	"weir/bench/lab/rig"
	"weir/loadgen/record"
)

// A Sample holds metrics of a short span of a run, which ends at At after the start of the load.
// Rates are per second.
type Sample struct {
	At        time.Duration
	Forwarded float64
	Rejected  float64
	Shed      float64 // by the gate
	Limit     float64 // permits per second in force; NaN without one
	Forecast  float64 // the advisor's; NaN without one
	TargetP95 float64
	Queue     float64 // requests waiting in the target
	FailOpen  bool
}

// A Run is the result of a case.
type Run struct {
	Case
	Compress float64
	Load     *rig.LoadResult
	Samples  []Sample
	Events   []FaultEvent // at the times when they happened, from the start of the load
	Metrics  Metrics
}

// Metrics are the figures of a run. Shares are of all requests sent.
type Metrics struct {
	Answered  float64 // answered 200, per second
	Goodput   float64 // answered 200 within patience, per second
	Refused   float64 // share answered 429
	Shed      float64 // share that the gate shed
	Failed5xx float64 // share answered 5xx otherwise
	Lost      float64 // share without an answer
	Latency   record.Summary
	Needless  float64       // share refused or shed although the target had capacity
	QueueMax  float64       // peak number of requests waiting in the target
	TargetP95 float64       // of the worst sample, seconds
	Overload  float64       // share of the time in which the target's p95 was above the SLO
	Recovery  time.Duration // longest time after a peak until the target was as before; negative: not within the run
	Peaks     int           // peaks after which recovery was measured
	Resumed   time.Duration // from the return of the store until requests were refused; zero if not applicable
}

// patience is how long after its due time an answer is useful to a client.
const patience = 2 * slo

// measure computes the figures of a run; inTime is the number of requests answered in time.
func (r *Run) measure(s *Scenario, inTime uint64) {
	l, m := r.Load, &r.Metrics
	span := s.Length().Seconds() / s.scale(r.Compress)
	sent := math.Max(1, float64(l.Attempted()))
	m.Answered, m.Goodput = float64(l.Success)/span, float64(inTime)/span
	m.Refused, m.Latency = float64(l.RateLimited)/sent, l.LatencySuccess
	var bad uint64
	for status, n := range l.StatusCodes {
		if status[0] == '5' {
			bad += n
		}
	}
	m.Shed, m.Failed5xx = float64(l.Shed)/sent, float64(bad-l.Shed)/sent
	m.Lost = (float64(l.Attempted()) - float64(l.Success+l.RateLimited+bad)) / sent
	r.overTime()
	ends := s.peakEnds(r.Compress)
	m.Peaks = len(ends)
	for _, end := range ends {
		if took := recovery(r.Samples, end); m.Recovery >= 0 && (took < 0 || took > m.Recovery) {
			m.Recovery = took
		}
	}
	m.Resumed = r.resumed()
}

func (r *Run) overTime() {
	m := &r.Metrics
	var refused, offered, over, last float64
	for _, s := range r.Samples {
		step := s.At.Seconds() - last
		last = s.At.Seconds()
		refused += step * math.Min(s.Rejected+s.Shed, math.Max(0, capacity-s.Forwarded))
		offered += step * (s.Forwarded + s.Rejected + s.Shed)
		m.QueueMax = math.Max(m.QueueMax, s.Queue)
		if s.TargetP95 > slo.Seconds() {
			over += step
		}
		m.TargetP95 = math.Max(m.TargetP95, s.TargetP95)
	}
	if offered > 0 {
		m.Needless = refused / offered
	}
	if last > 0 {
		m.Overload = over / last
	}
}

// recovery returns the time from the end of a peak until the target's queue is short and its p95
// within the SLO for two samples in a row; negative if that does not happen.
func recovery(samples []Sample, end time.Duration) time.Duration {
	good := 0
	for i, s := range samples {
		switch {
		case s.At <= end:
		case s.Queue < workers && s.TargetP95 <= slo.Seconds():
			if good++; good == 2 {
				return max(0, samples[i-1].At-end)
			}
		default:
			good = 0
		}
	}
	return -1
}

// resumed returns the time from the store's last return until requests were refused again; zero
// if it was always available, negative if they were not refused again.
func (r *Run) resumed() time.Duration {
	var back time.Duration
	for _, t := range r.Events {
		if t.Name == restartStore || t.Name == thawStore {
			back = t.At
		}
	}
	if back == 0 {
		return 0
	}
	for _, s := range r.Samples {
		if s.At > back && !s.FailOpen && s.Rejected > 0 {
			return s.At - back
		}
	}
	return -1
}
