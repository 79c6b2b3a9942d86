package gatetest

import (
	"container/heap"
	"slices"
	"time"
)

// refusalTime is how long a target takes to refuse a request.
const refusalTime = time.Millisecond

// A target answers from its cache within hitTime, one in five a while later, as a real one does that
// sleeps for a millisecond on a busy machine: the median is 1.3 ms, the mean 1.6 ms, and one in a hundred
// takes six.
const (
	hitTime           = 1.2e-3 // seconds
	hitQuick, hitLate = .12e-3, 2e-3
	hitLatePart       = .2
)

// A target is one of those that requests are sent to.
type target struct {
	*run
	index   int
	workers int
	speed   float64 // besides that of all targets
	down    bool
	mute    bool
	busy    int
	queue   []*request
	shared  processors
	unknown []bool          // keys that are not in the cache; nil: all are
	free    []time.Duration // when each worker of a queue without a gate would be free
}

// capacity is how many requests per second the target can answer.
func (t *target) capacity() float64 {
	if t.down || t.mute {
		return 0
	}
	mean := t.w.Service.Seconds() / t.stage.Speed / t.speed * t.slowness()
	most := 0.0
	for n := 1; n <= t.workers; n++ {
		most = max(most, float64(n)/(mean*(1+t.w.Share*float64(n-1))))
		if t.w.Share == 0 {
			most = float64(t.workers) / mean
			break
		}
	}
	return most
}

// soonest returns the worker of a queue without a gate that would begin a request first, and
// when it would have answered.
func (t *target) soonest(q *request) (worker int, done time.Duration) {
	workers := t.free[:t.workers]
	worker = slices.Index(workers, slices.Min(workers))
	begin := max(t.now, workers[worker])
	return worker, begin + t.w.Dip.lasts(begin, time.Duration(float64(q.takes)/t.speed))
}

// enter begins a stage.
func (t *target) enter(s *Stage) {
	t.shared.pass(t)
	if s.Workers > 0 {
		t.workers = s.Workers
	}
	if s.Speed > 0 && s.Target > 0 {
		t.speed = s.Speed
	}
	t.down, t.mute = s.Down, s.Mute
	if s.Flush {
		t.unknown = slices.Repeat([]bool{true}, t.w.Cache)
	}
	for len(t.free) < t.workers {
		t.free = append(t.free, t.now)
	}
	t.work()
	t.shared.plan(t)
}

// reach is told that a request has arrived.
func (t *target) reach(q *request) {
	switch s := t.source(q); {
	case s.Waits > 0 && !t.mute && !t.down:
		t.push(t.now+s.Waits, func() { t.travel(func() { t.answered(q) }) })
	case t.w.Cache > 0 && !t.misses(q):
		t.push(t.now+t.hit(), func() { t.travel(func() { t.answered(q) }) })
	case t.mute || s.Never && !t.down:
		t.push(t.now+t.w.Timeout, func() { t.refused(q) })
	case t.down || t.busy >= t.workers && len(t.queue) >= t.w.Queue || t.w.Processors && t.busy >= t.workers+t.w.Queue:
		t.push(t.now+refusalTime, func() { t.travel(func() { t.refused(q) }) })
	case t.w.Processors:
		t.busy++
		t.shared.add(t, q)
	default:
		t.queue = append(t.queue, q)
		t.work()
	}
}

func (t *target) refused(q *request) {
	q.answer.Refused = true
	t.answered(q)
}

// hit draws how long an answer from the cache takes.
func (t *target) hit() time.Duration {
	mean := hitQuick
	if t.rng.Float64() < hitLatePart {
		mean = hitLate
	}
	return seconds(hitTime + mean*t.rng.ExpFloat64())
}

// misses reports whether the answer to a request is not in the cache.
func (t *target) misses(q *request) bool { return t.unknown != nil && t.unknown[q.key] }

// work gives requests to free workers.
func (t *target) work() {
	for t.busy < t.workers && len(t.queue) > 0 {
		q := t.queue[0]
		t.queue = t.queue[1:]
		takes := float64(q.takes) * (1 + t.w.Share*float64(t.busy)) / t.speed
		t.busy++
		t.push(t.now+t.w.Dip.lasts(t.now, time.Duration(takes)), func() { t.done(q) })
	}
}

// done is told that a request has been worked on.
func (t *target) done(q *request) {
	t.busy--
	if t.unknown != nil {
		t.unknown[q.key] = false
	}
	t.work()
	q.answer.Refused = t.rng.Float64() < t.stage.Errors
	t.travel(func() { t.answered(q) })
}

// processors share themselves equally among all requests at work: each of n has 1/n of them,
// but no more than one.
type processors struct {
	given   float64       // work that a request has had since the beginning, ns
	at      time.Duration // as of
	waits   jobs
	planned int // serial number of the plan in force
}

// A job is done when so much work was given to each.
type job struct {
	until float64
	q     *request
}

type jobs []job

func (h jobs) Len() int           { return len(h) }
func (h jobs) Less(i, j int) bool { return h[i].until < h[j].until }
func (h jobs) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *jobs) Push(x any)        { *h = append(*h, x.(job)) }
func (h *jobs) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func (p *processors) add(t *target, q *request) {
	p.pass(t)
	heap.Push(&p.waits, job{p.given + float64(q.takes), q})
	p.plan(t)
}

// pace is how fast each request proceeds.
func (p *processors) pace(t *target) float64 {
	return t.speed * min(1, float64(t.workers)/float64(len(p.waits)))
}

// pass gives work for the time since the last call.
func (p *processors) pass(t *target) {
	if len(p.waits) > 0 {
		p.given += float64(t.now-p.at) * p.pace(t)
	}
	p.at = t.now
}

// plan looks again when the next request is done, unless there is another plan before that.
func (p *processors) plan(t *target) {
	p.planned++
	if len(p.waits) == 0 {
		return
	}
	plan := p.planned
	t.push(t.now+time.Duration(max(0, p.waits[0].until-p.given)/p.pace(t))+1, func() {
		if plan != p.planned {
			return
		}
		p.pass(t)
		for len(p.waits) > 0 && p.waits[0].until <= p.given {
			t.done(heap.Pop(&p.waits).(job).q)
		}
		p.plan(t)
	})
}
