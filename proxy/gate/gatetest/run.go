package gatetest

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"weir/proxy/gate"
	"weir/proxy/upstream"
)

// refusalTime is how long the target takes to refuse a request.
const refusalTime = time.Millisecond

// start is the time at which worlds begin.
var start = time.Unix(1_000_000_000, 0)

// A request on its way.
type request struct {
	arrived, sent time.Duration
	takes         time.Duration // of a worker
	class         int
	on            *lane
	answer        gate.Answer
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
	w      *World
	rng    *rand.Rand
	now    time.Duration
	events events
	stage  Stage
	stages []Stage // to come
	sides  []*side
	busy   int
	queue  []*request
	free   []time.Duration  // when each worker of a queue without a gate would be free
	stall  [2]time.Duration // the next pause of the machine begins and ends
	hot    bool             // a crowd comes
	hotBy  time.Duration    // until then it does, or does not
	res    Result
}

// clock is now as a time of day.
func (r *run) clock() time.Time { return start.Add(r.now) }

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
// as come, but for those that fail.
func (r *run) spend(to time.Duration) {
	c := r.slice(to)
	c.ideal += (to - r.now).Seconds() * min(r.stage.Load, r.capacity()) * (1 - r.stage.Errors)
	r.now = to
}

func (r *run) capacity() float64 {
	if r.stage.Down {
		return 0
	}
	mean := r.w.Service.Seconds() / r.stage.Speed * (1 + r.w.Slow*(max(1, r.w.SlowBy)-1))
	most := 0.0
	for n := 1; n <= r.stage.Workers; n++ {
		most = max(most, float64(n)/(mean*(1+r.w.Share*float64(n-1))))
		if r.w.Share == 0 {
			most = float64(r.stage.Workers) / mean
			break
		}
	}
	return most
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
		if s.Load > 0 {
			r.stage.Load = s.Load
		}
		if s.Workers > 0 {
			r.stage.Workers = s.Workers
		}
		if s.Speed > 0 {
			r.stage.Speed = s.Speed
		}
		if s.CV > 0 {
			r.stage.CV = s.CV
		}
		r.stage.Errors, r.stage.Down = s.Errors, s.Down
	}
	for len(r.free) < r.stage.Workers {
		r.free = append(r.free, r.now)
	}
	r.work()
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
	if r.w.Slow > 0 && r.rng.Float64() < r.w.Slow {
		q.class = 1
	}
	q.takes = r.draw(q.class)
	q.could = r.could(q)
	if r.now >= r.w.Warm {
		r.res.Offered++
	}
	l := q.on
	if l.free() > 0 && l.line.Len() == 0 && l.line.Rival(q.wait.Rank(), anyLoop) < 0 {
		r.send(q, false)
		return
	}
	q.wait.Value = q
	if out := l.line.Join(r.clock(), &q.wait); out != nil {
		r.shed(out.Value)
	}
	l.line.Ask(true)
	r.push(r.now+r.w.Wait, func() { r.giveUp(q) })
	r.admit(l)
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

func (r *run) draw(class int) time.Duration {
	mean := r.w.Service.Seconds() / r.stage.Speed
	if class == 1 {
		mean *= r.w.SlowBy
	}
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
	workers := r.free[:r.stage.Workers]
	first := slices.Index(workers, slices.Min(workers))
	begin := max(r.now, workers[first])
	if begin-r.now > 10*time.Second {
		return false
	}
	workers[first] = begin + q.takes
	return workers[first]-r.now <= r.w.InTime
}

// send sends a request to the target.
func (r *run) send(q *request, waited bool) {
	l := q.on
	q.sent = r.now
	l.inFlight++
	l.line.Take(r.clock(), &q.wait)
	q.answer = gate.Answer{Sent: r.clock(), Class: q.class, InFlight: l.inFlight, Full: waited || l.free() <= 0}
	r.travel(func() { r.reach(q) })
}

// travel calls do when a message between proxy and target has arrived.
func (r *run) travel(do func()) {
	if r.w.Trip == 0 {
		do()
		return
	}
	r.push(r.now+seconds(r.w.Trip.Seconds()*r.rng.ExpFloat64()), do)
}

// reach is told that a request has arrived at the target.
func (r *run) reach(q *request) {
	if r.stage.Down || r.busy >= r.stage.Workers && len(r.queue) >= r.w.Queue {
		q.answer.Refused = true
		r.push(r.now+refusalTime, func() { r.travel(func() { r.answered(q) }) })
		return
	}
	r.queue = append(r.queue, q)
	r.work()
}

// work gives requests to free workers.
func (r *run) work() {
	for r.busy < r.stage.Workers && len(r.queue) > 0 {
		q := r.queue[0]
		r.queue = r.queue[1:]
		takes := float64(q.takes) * (1 + r.w.Share*float64(r.busy))
		r.busy++
		r.push(r.now+time.Duration(takes), func() {
			r.busy--
			r.work()
			q.answer.Refused = r.rng.Float64() < r.stage.Errors
			r.travel(func() { r.answered(q) })
		})
	}
}

// answered is told that the target has answered.
func (r *run) answered(q *request) {
	l := q.on
	l.inFlight--
	l.line.Give(r.clock(), &q.wait)
	if l.gate != nil {
		l.gate.Answered(r.clock(), &q.answer)
	}
	if !q.answer.Refused {
		r.res.took = append(r.res.took, r.now-q.arrived)
	}
	switch {
	case q.answer.Refused:
		r.res.Failed++
	case r.now-q.arrived > r.w.InTime:
		r.res.Late++
	default:
		r.res.InTime++
		r.res.ByGate[l.index]++
		if l == l.lanes[0] {
			r.res.First++
		}
		r.slice(r.now).inTime++
	}
	r.admit(l)
}

// giveUp sheds a request that still waits.
func (r *run) giveUp(q *request) {
	if !q.wait.Waiting() {
		return
	}
	if until, ok := q.on.line.Late(r.clock(), &q.wait, r.w.Wait); ok {
		r.push(until.Sub(start), func() { r.giveUp(q) })
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
	if q.could {
		r.res.Needless++
	}
}
