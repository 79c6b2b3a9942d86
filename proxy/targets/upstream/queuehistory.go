package upstream

import (
	"sync/atomic"
	"time"
)

const (
	// A queue in which requests wait for long is served in order for queueMargin times as long as
	// earlier ones took to pass. What was known of these counts for queueMemory.
	queueMargin, queueMemory = 1.25, time.Minute
	// Nothing is known of a queue unless the quiet time after it was queueQuiet times as long: else it
	// is no crowd that has passed, but a load that is about as high as what the target can take.
	queueQuiet = 2

	// Targets stand still if nothing was answered for standLeast, and for standTimes as long as what
	// was answered then usually takes. What waits meanwhile is worked off after standWorks times as
	// long, if the load is 80 % of what the target can take.
	standLeast, standTimes, standWorks = 50 * time.Millisecond, 2, 5
	// There is overload if one was shed in the last standCalm before the standstill.
	standCalm = time.Second
	// After a standstill clients are assumed to tolerate a wait of standTolerable times as long as
	// usual.
	standTolerable = 2
)

// A queueHistory records when the requests in a queue have waited for long, and when one was shed.
type queueHistory struct {
	count  int
	late   bool          // since the queue began one has waited for long,
	lateAt time.Time     // first at this time
	shedAt time.Time     // when one was last shed; zero: never
	memory time.Duration // how long shedAt counts

	ended  time.Time     // when it was last empty again after one had waited for long,
	lasted time.Duration // and for how long some had then,
	before time.Duration // and likewise the time before
	passes time.Duration // how long such a queue lasts that passes
}

// joins records a new waiter. An empty queue starts again, unless there was overload just
// before: a queue that is empty for a moment does not mean that the load has fallen.
func (q *queueHistory) joins(now time.Time) {
	if q.count == 0 {
		since := now.Sub(q.shedAt)
		q.late = q.late && !q.shedAt.IsZero() && since >= 0 && since < q.memory
	}
	q.count++
}

// leaves records that a waiter leaves.
func (q *queueHistory) leaves(now time.Time) {
	if q.count--; q.count == 0 && q.late {
		q.ended, q.lasted = now, now.Sub(q.lateAt)
	}
}

// waitsLong records that one has waited for long. No queue lasts longer than most if it is to pass.
func (q *queueHistory) waitsLong(now time.Time, most time.Duration) {
	if q.late {
		return
	}
	quiet := now.Sub(q.ended)
	switch {
	case q.ended.IsZero():
	case q.sheds() || quiet < queueQuiet*q.lasted || quiet >= queueMemory:
		q.before, q.passes = 0, 0
	default:
		q.passes = min(most, max(q.passes*9/10, min(q.before, q.lasted))) // a single one may be chance
		q.before = q.lasted
	}
	q.late, q.lateAt = true, now
}

// sheds reports whether one was shed since some wait for long.
func (q *queueHistory) sheds() bool { return !q.shedAt.Before(q.lateAt) }

// passing reports whether the queue is taken for one that passes.
func (q *queueHistory) passing(now time.Time) bool {
	since := now.Sub(q.lateAt)
	return since >= 0 && float64(since) < queueMargin*float64(q.passes)
}

// A standstill is a time in which targets have answered nothing. What waits at its end is no sign of
// too much load.
//
// Safe for concurrent use.
type standstill struct {
	ended atomic.Int64 // see instant
	long  atomic.Int64 // in nanoseconds
}

// until returns until when what has waited then is likely to be worked off; zero: it is already.
func (s *standstill) until(now time.Time) time.Time {
	works := standWorks * s.long.Load()
	if left := works - (instant(now) - s.ended.Load()); left > 0 && left <= works {
		return now.Add(time.Duration(left))
	}
	return time.Time{}
}

// stands records that w gives its place back, which may be the first for long. A standstill counts
// only if there was no overload before, and none just before: a target that stands still all the time
// is overloaded like any other.
func (l *Queue[W]) stands(now time.Time, at int64, w *Waiter[W]) {
	least := int64(standLeast)
	if w.usual > 0 && (l.count > 0 || l.placed >= overtakenMin) && at-max(l.own.gave.Load(), w.takenAt) >= least {
		least = max(least, int64(standTimes*1e9*w.usual))
		quiet := at - max(l.of.latest(gave), w.takenAt)
		calm := at - l.of.latest(shed)
		overload := calm >= 0 && calm < quiet+int64(standCalm) || !l.of.stood.until(now).IsZero()
		if quiet >= least && !overload && float64(quiet) <= queueMargin*float64(l.tolerated()) {
			l.of.stood.ended.Store(at)
			l.of.stood.long.Store(quiet)
		}
	}
	l.own.gave.Store(at)
}

// tolerated returns for how long clients are assumed to tolerate a wait after a standstill.
func (l *Queue[W]) tolerated() time.Duration {
	if t := standTolerable * l.tolerable; l.waitMax <= 0 || t < l.waitMax {
		return t
	}
	return l.waitMax
}
