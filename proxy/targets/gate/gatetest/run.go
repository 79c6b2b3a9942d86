package gatetest

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"time"

	"weir/proxy/targets/gate"
	"weir/proxy/targets/upstream"
)

// start is the time at which worlds begin.
var start = time.Unix(1_000_000_000, 0)

// A request on its way.
type request struct {
	arrived, sent time.Duration
	takes         time.Duration // of a worker
	class, source int
	key           int // of the cache
	on            *lane
	at            *view // of the target that it was sent to, or was meant for
	tried         upstream.TriedTargets
	mark          upstream.HealthEpoch
	gone          bool // its client has left
	long          bool // it has had its place for much longer than usual
	answer        gate.Response
	could         bool // a queue without a gate would have answered it in time
	wait          upstream.Waiter[*request]
}

type event struct {
	at time.Duration
	do func()
}

type events []event

func (h events) Len() int           { return len(h) }
func (h events) Less(i, j int) bool { return h[i].at < h[j].at }
func (h events) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *events) Push(x any)        { *h = append(*h, x.(event)) }
func (h *events) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// A run is a world under way.
type run struct {
	w           *World
	rng, chance *rand.Rand // chance: of balancing
	now         time.Duration
	events      events
	stage       Stage
	stages      []Stage // to come
	sides       []*side
	targets     []*target
	parts       []float64        // of the sources
	shift       time.Duration    // of the clock
	stall       [2]time.Duration // the next pause of the machine begins and ends
	hot         bool             // a crowd comes
	hotBy       time.Duration    // until then it does, or does not
	res         Result
}

// clock is now as a time of day.
func (r *run) clock() time.Time { return start.Add(r.now + r.shift) }

func (r *run) push(at time.Duration, do func()) { heap.Push(&r.events, event{at, do}) }

// step lets the next thing happen.
func (r *run) step() {
	at := r.awake(r.events[0].at)
	if len(r.stages) > 0 && r.stages[0].From <= at {
		r.spend(r.stages[0].From)
		r.enter()
		return
	}
	r.spend(at)
	heap.Pop(&r.events).(event).do()
}

// awake is when something happens that is due at some time: at the end of a pause into which
// that falls, but not before what has happened.
func (r *run) awake(at time.Duration) time.Duration {
	s := &r.w.Stall
	for at = max(at, r.now); at >= r.stall[1] && r.stall[1] < s.Until; {
		begin := r.stall[1] + seconds(s.Every.Seconds()*r.rng.ExpFloat64())
		r.stall = [2]time.Duration{begin, begin + s.Least + time.Duration(r.rng.Float64()*float64(s.Most-s.Least))}
	}
	if at >= r.stall[0] && at < r.stall[1] {
		return r.stall[1]
	}
	return at
}

// spend lets time pass, in which the target could have answered as many as it can or
// as come, except those that fail.
func (r *run) spend(to time.Duration) {
	c := r.slice(to)
	c.limit = r.sides[0].ports[0].places.Limit()
	c.ideal += (to - r.now).Seconds() * min(r.stage.Load, r.capacity()) * (1 - r.stage.Errors)
	r.now = to
}

func (r *run) capacity() (sum float64) {
	for _, t := range r.targets {
		sum += t.capacity()
	}
	return sum
}

func (r *run) slice(at time.Duration) *count {
	for len(r.res.slices) <= int(at/slice) {
		r.res.slices = append(r.res.slices, count{})
	}
	return &r.res.slices[at/slice]
}

// enter begins the stages that are due.
func (r *run) enter() {
	for len(r.stages) > 0 && r.stages[0].From <= r.now {
		s := r.stages[0]
		r.stages = r.stages[1:]
		r.shift += s.Clock
		if s.Parts != nil {
			r.parts = s.Parts
		}
		if s.Load > 0 {
			r.stage.Load = s.Load
		}
		if s.Speed > 0 && s.Target == 0 {
			r.stage.Speed = s.Speed
		}
		if s.CV > 0 {
			r.stage.CV = s.CV
		}
		r.stage.Errors = s.Errors
		for i, t := range r.targets {
			if s.Target == 0 || s.Target == i+1 {
				t.enter(&s)
			}
		}
	}
}

// arrive brings a request and says when the next one comes.
func (r *run) arrive() {
	r.push(r.now+seconds(r.rng.ExpFloat64()/r.rate()), r.arrive)
	r.come()
}

// burst begins a burst and says when the next one begins.
func (r *run) burst() {
	b := &r.w.Burst
	r.push(r.now+b.Every, r.burst)
	for i := range b.Size {
		r.push(r.now+b.Over*time.Duration(i)/time.Duration(b.Size), r.come)
	}
}

// come brings a request.
func (r *run) come() {
	q := &request{arrived: r.now, on: r.lane()}
	q.wait.Value = q
	q.takes = r.draw(r.kind(q))
	if r.w.Cache > 0 {
		q.key = int(math.Pow(float64(1+r.w.Cache), r.rng.Float64())) - 1
	}
	q.could = r.could(q)
	if r.now >= r.w.Warm {
		r.res.Offered++
		r.count(q).Offered++
	}
	l := q.on
	r.choose(q)
	s := r.source(q)
	if s.Upload {
		r.upload(q)
		return
	}
	if s.Leaves > 0 {
		r.push(r.now+seconds(s.Leaves.Seconds()*r.rng.ExpFloat64()), func() { r.leave(q) })
	}
	if q.at.vacant() > 0 && l.queue.Rival(q.wait.Rank(), q.at.open) < 0 && l.queue.Admits(r.clock(), &q.wait) {
		r.send(q, false)
		return
	}
	r.await(q)
}

// await makes a request wait for a place at any target.
func (r *run) await(q *request) {
	l := q.on
	if l.vacant(r.clock()) > 0 {
		r.res.Detained++
	}
	q.at.Abandoned(q.mark)
	q.tried.Undo()
	if out := l.queue.Join(r.clock(), &q.wait); out != nil {
		r.shed(out.Value)
	}
	l.queue.Publish()
	r.push(r.now+r.w.Wait, func() { r.giveUp(q) })
	r.admitAny(l)
	r.lookAfter(l)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// rate is how many requests per second arrive now.
func (r *run) rate() float64 {
	const share, length = .05, .05 // of the time, and of a crowd in seconds
	if r.w.Crowd == 0 {
		return r.stage.Load
	}
	if r.now >= r.hotBy {
		r.hot = !r.hot
		mean := length
		if !r.hot {
			mean = length * (1 - share) / share
		}
		r.hotBy = r.now + seconds(mean*r.rng.ExpFloat64())
	}
	if r.hot {
		return r.stage.Load * r.w.Crowd
	}
	return r.stage.Load * (1 - share*r.w.Crowd) / (1 - share)
}

// draw draws how long a request takes that takes so many times as long as usual.
func (r *run) draw(slower float64) time.Duration {
	mean := r.w.Service.Seconds() / r.stage.Speed * slower
	switch cv := r.stage.CV; cv {
	case 0:
		return seconds(mean)
	case 1:
		return seconds(mean * r.rng.ExpFloat64())
	default:
		sigma := math.Sqrt(math.Log(1 + cv*cv))
		return seconds(mean * math.Exp(sigma*r.rng.NormFloat64()-sigma*sigma/2))
	}
}

// could reports whether a queue of ten seconds without a gate would answer in time.
func (r *run) could(q *request) bool {
	var best *target
	worker, done := 0, time.Duration(0)
	for _, t := range r.targets {
		if len(r.targets) > 1 && t.capacity() == 0 {
			continue
		}
		if w, d := t.soonest(q); best == nil || d < done {
			best, worker, done = t, w, d
		}
	}
	if best == nil || max(r.now, best.free[worker])-r.now > 10*time.Second {
		return false
	}
	best.free[worker] = done
	return done-r.now <= r.w.InTime
}

// send sends a request to the target.
func (r *run) send(q *request, waited bool) {
	q.sent = r.now
	q.at.uses(1, 0)
	q.on.queue.Take(r.clock(), &q.wait, q.at.usual(q.class))
	_, atTarget := q.at.places.Now()
	q.answer = gate.Response{Sent: r.clock(), Class: q.class, InFlight: atTarget, Full: waited || q.at.vacant() <= 0}
	r.travel(func() { q.at.reach(q) })
}

// travel calls do when a message between proxy and target has arrived.
func (r *run) travel(do func()) {
	if r.w.Trip == 0 {
		do()
		return
	}
	r.push(r.now+seconds(r.w.Trip.Seconds()*r.rng.ExpFloat64()), do)
}

// answered is told that the target has answered.
func (r *run) answered(q *request) {
	if q.gone {
		return
	}
	q.gone = true
	r.healthy(q)
	r.end(q)
	if !q.answer.Refused {
		r.res.took = append(r.res.took, r.now-q.arrived)
	}
	c := r.count(q)
	switch {
	case q.answer.Refused:
		r.res.Failed++
		c.Failed++
	case r.now-q.arrived > r.w.InTime:
		r.res.Late++
		c.Late++
	default:
		r.res.InTime++
		c.InTime++
		r.res.ByGate[q.on.index]++
		if q.on == q.on.lanes[0] {
			r.res.First++
		}
		r.slice(r.now).inTime++
	}
	r.admit(q.at)
}

// giveUp sheds a request that still waits.
func (r *run) giveUp(q *request) {
	if !q.wait.Waiting() {
		return
	}
	if until, ok := q.on.queue.Late(r.clock(), &q.wait, r.w.Wait); ok {
		r.push(r.now+until.Sub(r.clock()), func() { r.giveUp(q) })
		return
	}
	r.shed(q)
}

// shed counts a request that is not sent.
func (r *run) shed(q *request) {
	if q.arrived < r.w.Warm {
		return
	}
	r.res.Shed++
	r.count(q).Shed++
	if q.could {
		r.res.Needless++
	}
}
