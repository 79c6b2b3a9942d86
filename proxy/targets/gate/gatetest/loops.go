package gatetest

import (
	"cmp"
	"time"

	"weir/proxy/targets/gate"
	"weir/proxy/targets/upstream"
)

// A side is a proxy.
type side struct {
	index int
	ports []*port
	lanes []*lane
}

// newSide returns a proxy.
func (r *run) newSide() *side {
	s := &side{index: len(r.sides)}
	for _, t := range r.targets {
		p := &port{target: t}
		if r.w.Gates > 0 {
			p.gate = gate.New(gate.Config{Min: cmp.Or(r.w.Limit, 2), Max: cmp.Or(r.w.Limit, 1024), SLO: r.w.SLO})
			p.places.SetLimit(p.gate.Limit())
		}
		s.ports = append(s.ports, p)
	}
	loops := max(1, r.w.Loops)
	among := upstream.NewQueueSet(loops)
	for range loops {
		s.lanes = append(s.lanes, r.newLane(s, among))
	}
	return s
}

// A port is a side's part in a target.
type port struct {
	*target
	gate   *gate.Gate // nil: none
	places gate.Places
}

// uses records a change of the places in use.
func (p *port) uses(short, streams int) {
	p.places.Change(gate.LoopUse{}, gate.LoopUse{Short: short, Streams: streams})
}

// learn tells the gate of an answer.
func (p *port) learn(now time.Time, a *gate.Response) {
	if p.gate != nil {
		p.gate.Answered(now, a)
		p.places.SetLimit(p.gate.Limit())
		p.places.SetDown(p.gate.Down())
		p.places.SetBusy(p.gate.Busy())
		p.places.SetStalled(p.gate.Stalled())
	}
}

// usual is how long requests of a class usually take.
func (p *port) usual(class int) time.Duration {
	if p.gate == nil {
		return 0
	}
	return p.gate.Usual(class)
}

// long reports whether a request of a class that was overtaken takes long by itself.
func (p *port) long(class int, took time.Duration) bool {
	return p.gate != nil && p.gate.Long(class, took)
}

// A lane is a loop of a side.
type lane struct {
	*side
	queue     *upstream.Queue[*request]
	balancer  *upstream.Balancer[*view]
	views     []*view
	looks     bool // at its queue, after a while
	long      []*request
	longUntil time.Duration
}

// A view is what a lane knows of a target.
type view struct {
	*port
	*upstream.Target[*view]
	lane   *lane
	called bool // by another loop
}

// newLane returns a loop of a side.
func (r *run) newLane(s *side, among *upstream.QueueSet) *lane {
	l := &lane{side: s}
	l.queue = upstream.NewQueue[*request](queueMost, l.look)
	l.queue.Waits(cmp.Or(r.w.Most, gate.WaitMax), cmp.Or(r.w.SLO, upstream.TolerableWait))
	l.queue.JoinSet(among, len(s.lanes))
	l.balancer = upstream.NewBalancer(upstream.P2C, 0, func(v *view) int { return v.places.InFlight() }, r.chance)
	l.balancer.Bound(func(v *view) bool { return v.vacant() > 0 })
	for _, p := range s.ports {
		v := &view{port: p, lane: l}
		v.Target = l.balancer.Add(v)
		l.views = append(l.views, v)
	}
	return l
}

// vacant is how many places are free at the target. One that is out of use is tried now and then.
func (v *view) vacant() int {
	switch {
	case v.gate == nil:
		return 1
	case v.places.InFlight() == 0 && v.Status(v.clock()) != upstream.Up:
		return max(1, v.places.Free())
	}
	return v.places.Free()
}

// vacant is how many places are free at all targets.
func (l *lane) vacant(now time.Time) (n int) {
	for at := range l.balancer.Available(now) {
		n += max(0, at.Value.vacant())
	}
	return n
}

// look is what the queue has to know of the targets.
func (l *lane) look(now time.Time) (s upstream.Capacity) {
	s.Free = l.vacant(now)
	for at := range l.balancer.Available(now) {
		s.Busy = s.Busy || at.Value.places.Scarce()
	}
	return s
}

// open reports whether a loop of the side sends requests to a target.
func (v *view) open(loop int) bool {
	other := v.lane.lanes[loop].views[v.index]
	return other.Status(v.clock()) == upstream.Up
}

// lane draws the loop that a request comes to.
func (r *run) lane() *lane {
	s := r.sides[r.rng.IntN(len(r.sides))]
	if len(s.lanes) == 1 {
		return s.lanes[0]
	}
	if first := r.w.First; first > 0 && r.rng.Float64() < first {
		return s.lanes[0]
	} else if first > 0 {
		return s.lanes[1+r.rng.IntN(len(s.lanes)-1)]
	}
	return s.lanes[r.rng.IntN(len(s.lanes))]
}

// choose chooses a target for a request, which is never without one: at worst it is one
// that is out of use.
func (r *run) choose(q *request) {
	t := q.on.balancer.Choose(r.clock(), &q.tried)
	q.at, q.mark = t.Value, t.Epoch()
}

// healthy tells the lane how a target has answered. The last one is never taken out of use.
func (r *run) healthy(q *request) {
	if len(r.targets) == 1 {
		return
	}
	status := 200
	if q.answer.Refused {
		status = 503
	}
	q.at.Answered(r.clock(), q.mark, q.at.places.Severity(status))
}

// wakeTime is how long it takes until a loop that another one has called looks at its queue.
const wakeTime = 100 * time.Microsecond

// admit sends those who wait as far as there is room, or calls the loop whose turn it is.
func (r *run) admit(v *view) {
	l := v.lane
	for served := true; !l.queue.Idle() && v.vacant() > 0; {
		rank := upstream.PriorityLevels
		if served && l.balancer.Accepts(r.clock(), v.Target) {
			rank = l.queue.Rank()
		}
		if rival := l.queue.Rival(rank, v.open); rival >= 0 {
			r.call(l.lanes[rival].views[v.index])
			return
		}
		if rank == upstream.PriorityLevels {
			return
		}
		w := l.queue.Next(r.clock())
		if served = w != nil; served {
			q := w.Value
			l.balancer.Assign(r.clock(), v.Target, &q.tried)
			q.at, q.mark = v, v.Epoch()
			r.send(q, true)
		}
	}
}

// admitAny is admit for all targets.
func (r *run) admitAny(l *lane) {
	for _, v := range l.views {
		r.admit(v)
	}
}

// lengthen frees places that are held for long, and tells the gates that have none that requests
// wait.
func (l *lane) lengthen(now time.Time, wait time.Duration) {
	long := l.long[:0]
	for w, had := range l.queue.LongHeld(now, wait) {
		if q := w.Value; q.at.long(q.class, had) {
			long = append(long, q)
		}
	}
	if l.long = long; len(long) > l.places()/gate.LongShareDivisor/len(l.lanes) {
		l.longUntil = now.Sub(start) + gate.LongFor // the clock has no leaps in such worlds
		for _, q := range long {
			q.long = true
			q.at.uses(-1, 1)
			l.queue.Lengthen(&q.wait)
		}
	}
	first := l.queue.First(now)
	for _, v := range l.views {
		if first != nil && v.gate != nil && v.places.Free() <= 0 && v.gate.Waits(now, first.Value.class) {
			v.places.SetLimit(v.gate.Limit())
			v.places.SetStalled(v.gate.Stalled())
		}
	}
}

// places is how many places its targets have.
func (l *lane) places() (n int) {
	for _, v := range l.views {
		n += v.places.Limit()
	}
	return n
}

// call has a loop look at its queue.
func (r *run) call(v *view) {
	if v.called {
		return
	}
	v.called = true
	r.push(r.now+wakeTime, func() {
		v.called = false
		r.admit(v)
	})
}

// lookAfter has a lane look again and again while requests wait: time alone may have made a place
// free.
func (r *run) lookAfter(l *lane) {
	if l.looks || l.queue.Len() == 0 {
		return
	}
	l.looks = true
	r.push(r.now+slice, func() {
		l.looks = false
		l.queue.Publish()
		l.lengthen(r.clock(), r.w.Wait)
		r.admitAny(l)
		r.lookAfter(l)
	})
}
