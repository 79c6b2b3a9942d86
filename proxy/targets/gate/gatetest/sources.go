package gatetest

import "time"

// A Source is a part of the requests, which have something in common.
type Source struct {
	Part   float64       // of the arrivals
	Keys   int           // how many clients send them, or how many keys they have; 0: one
	Within bool          // they are from one client, together with other such sources
	Rank   int           // of their priority class
	Class  int           // of the gate
	SlowBy float64       // they take so many times as long; 0: once
	Route  uint8         // of the queue
	Waits  time.Duration // they wait so long for something at the target, which takes no worker
	Never  bool          // they wait for it for ever, and fail when the proxy waits no longer
	Upload bool          // their clients send them slowly, and
	Read   bool          // read their answers slowly,
	Held   time.Duration // which takes so long
	Leaves time.Duration // mean time after which a client leaves if it has no answer; 0: it stays
}

// A Count is what came of the requests of a source.
type Count struct{ Offered, InTime, Late, Failed, Shed, Left int }

// plain is the source of all requests if there are no others.
var plain = Source{Part: 1, SlowBy: 1}

// source returns the source of a request.
func (r *run) source(q *request) *Source {
	if len(r.w.Sources) == 0 {
		return &plain
	}
	return &r.w.Sources[q.source]
}

// kind draws what kind of request it is, and returns how many times as long as usual it takes.
func (r *run) kind(q *request) (slower float64) {
	if len(r.w.Sources) == 0 {
		if r.w.Slow > 0 && r.rng.Float64() < r.w.Slow {
			q.class = 1
			return r.w.SlowBy
		}
		return 1
	}
	for at := r.rng.Float64() - r.parts[0]; at >= 0 && q.source < len(r.parts)-1; at -= r.parts[q.source] {
		q.source++
	}
	s := r.source(q)
	q.class = s.Class
	of := uint64(q.source)<<6 + r.rng.Uint64N(uint64(max(1, s.Keys)))
	if s.Within {
		q.wait.SetHashes(0, of, s.Route)
	} else {
		q.wait.SetHashes(of, 0, s.Route)
	}
	q.wait.Ranked(s.Rank)
	return s.SlowBy
}

// slowness is how many times as long as usual requests take on average.
func (r *run) slowness() float64 {
	if len(r.w.Sources) == 0 {
		return 1 + r.w.Slow*(max(1, r.w.SlowBy)-1)
	}
	sum := 0.0
	for i, part := range r.parts {
		sum += part * r.w.Sources[i].SlowBy
	}
	return sum
}

// count returns the counts of the source of a request.
func (r *run) count(q *request) *Count {
	if q.arrived < r.w.Warm {
		return new(Count)
	}
	return &r.res.Sources[q.source]
}

// upload sends a request whose client sends it slowly. It waits for no place.
func (r *run) upload(q *request) {
	q.at.uses(0, 1)
	r.push(r.now+r.source(q).Held, func() {
		q.sent, q.answer.Sent = r.now, r.clock()
		q.at.reach(q)
	})
}

// end ends the request's use of a place, and tells the gate of the answer. If the client reads it
// slowly, the exchange becomes a stream: its place is kept until the client has read it, and the
// gate is not told.
func (r *run) end(q *request) {
	s := r.source(q)
	switch {
	case s.Upload:
		q.at.uses(0, -1)
		return
	case s.Read && !q.answer.Refused:
		q.at.uses(-1, 1)
		r.push(r.now+s.Held, func() {
			q.at.uses(0, -1)
			r.admit(q.at)
		})
	case q.long:
		q.at.uses(0, -1)
	default:
		q.answer.Crowded, q.answer.Alone = q.at.places.Free() <= 0, q.at.places.InFlight() <= 1
		q.at.uses(-1, 0)
		if r.now >= q.on.longUntil || !q.on.queue.Overtaken(&q.wait) || !q.at.long(q.class, r.now-q.sent) {
			defer q.at.learn(r.clock(), &q.answer)
		}
	}
	q.on.queue.Give(r.clock(), &q.wait)
}

// leave lets the client of a request leave if it has no answer. The target works on.
func (r *run) leave(q *request) {
	switch {
	case q.gone:
		return
	case q.wait.Waiting():
		q.on.queue.Leave(r.clock(), &q.wait)
	default:
		q.at.Abandoned(q.mark)
		q.at.uses(-1, 0)
		q.on.queue.Give(r.clock(), &q.wait)
	}
	q.gone = true
	r.count(q).Left++
	r.admit(q.at)
}

// ShedPart is which part of the requests was shed.
func (c *Count) ShedPart() float64 { return float64(c.Shed) / float64(c.Offered) }
