// Package traffic counts the outcomes of requests and the use of the targets, for package
// adaptive: sums that only grow, and their differences.
package traffic

import (
	"math/bits"
	"net/http"
	"sync/atomic"
	"time"

	"weir/internal/metric"
	"weir/proxy/exchange"
)

// A Sum is what was counted of requests since the start, or between two moments: see
// [Sum.Since].
type Sum struct {
	Admitted, Denied uint64 // by the limiter
	Delivered        uint64 // stored requests that were forwarded: they had arrived, and were denied, before
	Ended            uint64 // of the admitted and delivered: what became of them is known
	Failed           uint64 // of the ended: answered 5xx, or not at all
	Times            Times  // of the ended, see [answerTime]

	// Of the targets, in microseconds: exchanges in flight, what the gates let in at a
	// time, and the same while all of a gate's places were taken.
	Taken, Places, Bound uint64
	Targets              int // in use now
}

// Since returns what was counted after before.
func (s *Sum) Since(before *Sum) Sum {
	d := Sum{Admitted: s.Admitted - before.Admitted, Denied: s.Denied - before.Denied,
		Delivered: s.Delivered - before.Delivered, Ended: s.Ended - before.Ended, Failed: s.Failed - before.Failed, Targets: s.Targets,
		Taken: after(s.Taken, before.Taken), Places: after(s.Places, before.Places), Bound: after(s.Bound, before.Bound)}
	for i := range s.Times {
		d.Times[i] = s.Times[i] - before.Times[i]
	}
	return d
}

// after is what a sum that is read while it is added to has grown by.
func after(now, before uint64) uint64 { return max(now, before) - before }

const (
	// timesPerDouble is how many buckets there are between a time and twice as much:
	// the bounds of a bucket differ by a sixteenth at most.
	timesPerDouble = 16
	timesBits      = 4  // of timesPerDouble
	timesDoubles   = 27 // so many bits of microseconds: about two minutes; what took longer counts as that
	timesLen       = (timesDoubles - timesBits + 1) * timesPerDouble
)

// Times is how many requests took how long, in buckets much finer than those of
// the metrics: a quantile of a single interval must show a target that has become
// a little slower.
type Times [timesLen]uint64

// timesSlot is the bucket of a time.
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

// timesFrom is the least time of a bucket, in microseconds.
func timesFrom(slot int) float64 {
	if slot < 2*timesPerDouble {
		return float64(slot)
	}
	double := slot/timesPerDouble - 1
	return float64((uint64(timesPerDouble) + uint64(slot%timesPerDouble)) << double)
}

// Quantile returns the time that a share q of the requests took at most,
// interpolated within its bucket; 0 when there were none.
func (t *Times) Quantile(q float64) time.Duration {
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

// A Counter is what one loop has counted of a [Sum]. The zero value is ready.
//
// Safe for concurrent use: every field is one atomic word, which the loop alone
// adds to.
type Counter struct {
	admitted, denied, delivered metric.Counter
	ended, failed               metric.Counter
	taken, places, bound        metric.Counter // as in a Sum
	times                       [timesLen]atomic.Uint64
}

// A Use is how much of a target is used at a time.
type Use struct {
	Taken  uint64 // places: exchanges in flight, and a part of the streams and tunnels
	Places uint64 // that the gate gives
	Bound  uint64 // those places while all of them are taken, else 0
}

// Spent counts that a target was used so for some microseconds.
func (c *Counter) Spent(us uint64, u Use) {
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

// Spent adds that a target was used so for some microseconds.
func (s *Sum) Spent(us uint64, u Use) {
	s.Taken += u.Taken * us
	s.Places += u.Places * us
	s.Bound += u.Bound * us
}

// Decided counts a decision of the limiter.
func (c *Counter) Decided(admitted bool) {
	if admitted {
		c.admitted.Inc()
	} else {
		c.denied.Inc()
	}
}

// Delivered counts a stored request that was forwarded, and what became of it.
func (c *Counter) Delivered(now time.Time, o *exchange.Outcome) {
	c.delivered.Inc()
	c.Over(now, o)
}

// waitedLong is how long a client must have waited for an answer that did not come
// to count as not answered. One that leaves earlier says nothing about the target,
// and would be an easy way to blame it.
const waitedLong = time.Second

// Over counts what became of a request that was admitted or delivered.
func (c *Counter) Over(now time.Time, o *exchange.Outcome) {
	if o.Fault == exchange.FaultGate {
		return // the target was not asked, and is not to blame
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

// answerTime is how long the target took for an answer: from when the whole request
// was sent to it until the head of its answer was there, or until somebody gave up
// waiting for that. However slowly a client sends its request, or takes the rest of
// the answer, that is no time of the target's. Where it answers before it has the
// whole request, or closes before it answers, there is nothing to be measured.
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

// Add adds what one loop has counted.
func (s *Sum) Add(c *Counter) {
	ended := c.ended.Load() // before what it is a part of
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
