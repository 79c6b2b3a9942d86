package report

import (
	"math/bits"
	"net/http"
	"sync/atomic"
	"time"

	"weir/internal/program/metric"
	"weir/proxy/http/exchange"
)

// A TrafficTotals has the counts of requests since the start, or between two instants; see
// [TrafficTotals.Since].
type TrafficTotals struct {
	Admitted, Denied uint64        // by the limiter
	Delivered        uint64        // stored requests that were forwarded; they arrived, and were denied, before
	Ended            uint64        // admitted or delivered requests with a known outcome
	Failed           uint64        // those of them that were answered 5xx, or not at all
	Times            ResponseTimes // answer times of the ended requests, see [answerTime]

	// Integrals over time, in microseconds: exchanges in flight without streams and tunnels,
	// places that the gates give, and places of gates whose places are all taken.
	Taken, Places, Bound uint64
	Targets              int // in use now
}

// Since returns the difference between s and before.
func (s *TrafficTotals) Since(before *TrafficTotals) TrafficTotals {
	d := TrafficTotals{Admitted: s.Admitted - before.Admitted, Denied: s.Denied - before.Denied,
		Delivered: s.Delivered - before.Delivered, Ended: s.Ended - before.Ended, Failed: s.Failed - before.Failed,
		Targets: s.Targets,
		Taken:   after(s.Taken, before.Taken), Places: after(s.Places, before.Places), Bound: after(s.Bound, before.Bound)}
	for i := range s.Times {
		d.Times[i] = s.Times[i] - before.Times[i]
	}
	return d
}

// after returns by how much a count has grown. Counts are read while they change, so one that
// was read earlier may be greater.
func after(now, before uint64) uint64 { return max(now, before) - before }

const (
	// timesPerDouble is the number of buckets between a time and its double: the bounds of a
	// bucket differ by at most a sixteenth.
	timesPerDouble = 16
	timesBits      = 4  // log2 of timesPerDouble
	timesDoubles   = 27 // bits of microseconds: about two minutes; longer times count as that
	timesLen       = (timesDoubles - timesBits + 1) * timesPerDouble
)

// ResponseTimes counts requests by their answer time, in buckets much finer than those of the
// metrics: a quantile of a single interval must show that a target has become slightly
// slower.
type ResponseTimes [timesLen]uint64

// timesSlot returns the bucket of a time.
func timesSlot(d time.Duration) int {
	us := uint64(max(0, d/time.Microsecond))
	if us < timesPerDouble {
		return int(us)
	}
	e := bits.Len64(us)
	if e > timesDoubles {
		return timesLen - 1
	}
	return (e-timesBits-1)*timesPerDouble + int(us>>(e-timesBits-1))
}

// timesFrom returns the smallest time of a bucket, in microseconds.
func timesFrom(slot int) float64 {
	if slot < 2*timesPerDouble {
		return float64(slot)
	}
	double := slot/timesPerDouble - 1
	return float64((uint64(timesPerDouble) + uint64(slot%timesPerDouble)) << double)
}

// Quantile returns the q-quantile of the times, interpolated within its bucket; 0 if there are
// none.
func (t *ResponseTimes) Quantile(q float64) time.Duration {
	total := uint64(0)
	for _, n := range t {
		total += n
	}
	rank, below := q*float64(total), 0.0
	for slot, n := range t {
		if n == 0 {
			continue
		}
		if next := below + float64(n); next < rank {
			below = next
			continue
		}
		from, to := timesFrom(slot), timesFrom(slot+1)
		return time.Duration((from + (to-from)*(rank-below)/float64(n)) * float64(time.Microsecond))
	}
	return 0
}

// A TrafficCounter has the counts of one loop for a [TrafficTotals]. The zero value is ready.
//
// Safe for concurrent use: every field is atomic, and only the loop adds to it.
type TrafficCounter struct {
	admitted, denied, delivered metric.Counter
	ended, failed               metric.Counter
	taken, places, bound        metric.Counter // as in a TrafficTotals
	times                       [timesLen]atomic.Uint64
}

// A TargetUse is the current use of a target.
type TargetUse struct {
	Taken  uint64 // exchanges in flight, without streams and tunnels
	Places uint64 // places that the gate gives
	Bound  uint64 // Places if all of them are taken, otherwise 0
}

// Spent adds some microseconds of a use.
func (c *TrafficCounter) Spent(us uint64, u TargetUse) {
	if u.Taken > 0 {
		c.taken.Add(u.Taken * us)
	}
	if u.Places > 0 {
		c.places.Add(u.Places * us)
	}
	if u.Bound > 0 {
		c.bound.Add(u.Bound * us)
	}
}

// Spent adds some microseconds of a use.
func (s *TrafficTotals) Spent(us uint64, u TargetUse) {
	s.Taken += u.Taken * us
	s.Places += u.Places * us
	s.Bound += u.Bound * us
}

// Decided counts a decision of the limiter.
func (c *TrafficCounter) Decided(admitted bool) {
	if admitted {
		c.admitted.Inc()
	} else {
		c.denied.Inc()
	}
}

// Delivered counts a stored request that was forwarded, and its outcome.
func (c *TrafficCounter) Delivered(now time.Time, o *exchange.Outcome) {
	c.delivered.Inc()
	c.Finished(now, o)
}

// waitedLong is how long a client must wait before its disconnect counts as a failure of the
// target. Otherwise clients could make a target look slow by disconnecting early.
const waitedLong = time.Second

// Finished counts the outcome of a request that was admitted or delivered.
func (c *TrafficCounter) Finished(now time.Time, o *exchange.Outcome) {
	if o.Fault == exchange.FaultShed {
		return // the request was not sent to the target
	}
	left := o.Status == 0 && o.Fault == exchange.FaultNone
	if left && (o.Relayed || o.Complete.IsZero() || now.Sub(o.Complete) < waitedLong) {
		return
	}
	c.ended.Inc()
	if left || o.Fault != exchange.FaultNone || o.Status >= http.StatusInternalServerError {
		c.failed.Inc()
	}
	if took, known := answerTime(now, o); known {
		c.times[timesSlot(took)].Add(1)
	}
}

// answerTime returns how long the target took to answer: from sending the end of the request
// to the head of the answer, or until the wait was given up. The times in which the client
// sends its request and receives the answer do not count. If the target answers before it
// has the whole request, or closes before it answers, the time is not known.
func answerTime(now time.Time, o *exchange.Outcome) (took time.Duration, known bool) {
	switch {
	case o.Complete.IsZero():
		return 0, false
	case !o.Answered.IsZero():
		took = o.Answered.Sub(o.Complete)
		return took, took >= 0
	}
	return now.Sub(o.Complete), o.Fault == exchange.FaultTimeout || o.Fault == exchange.FaultNone && o.Status == 0
}

// Add adds the counts of one loop.
func (s *TrafficTotals) Add(c *TrafficCounter) {
	ended := c.ended.Load() // before Admitted and Delivered, which include it
	s.Ended += ended
	s.Failed += min(c.failed.Load(), ended)
	s.Admitted += c.admitted.Load()
	s.Denied += c.denied.Load()
	s.Delivered += c.delivered.Load()
	s.Taken += c.taken.Load()
	s.Places += c.places.Load()
	s.Bound += c.bound.Load()
	for i := range c.times {
		s.Times[i] += c.times[i].Load()
	}
}
