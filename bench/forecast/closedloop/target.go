package closedloop

import (
	"math"
	"math/rand/v2"
)

// A Stage is the state of the target from an instant on.
type Stage struct {
	From   float64 // seconds since the start
	Factor float64 // × initial capacity
	Errors float64 // share of requests answered 5xx, whatever the load
}

// A Target is the service behind the limiter: Workers that take requests from
// one queue, first come, first served.
//
// A factor of the capacity changes the number of workers, and their speed by the remainder.
// A worker that is removed finishes its request first.
//
// Immutable.
type Target struct {
	Workers     int
	ServiceMean float64 // seconds
	ServiceCV   float64 // deviation over mean, of a log-normal distribution
	Stages      []Stage // ascending, the first from 0; none: nothing changes
}

// Capacity returns how many requests per second the target can serve at t.
func (g *Target) Capacity(t float64) float64 {
	return float64(g.Workers) / g.ServiceMean * g.stage(t).Factor
}

func (g *Target) stage(t float64) Stage {
	now := Stage{Factor: 1}
	for _, s := range g.Stages {
		if s.From > t {
			break
		}
		now = s
	}
	return now
}

const (
	timeout  = 2.0  // seconds until a client gives up; the target completes the work
	queueMax = 10.0 // seconds of waiting; beyond, the target answers 503 at once
)

// The service times of all targets that are compared.
const (
	ServiceMean = 0.05 // seconds
	ServiceCV   = 1.0
)

// A place is a stage with a whole number of workers.
type place struct {
	Stage
	workers int
	speed   float64
}

// A queue is the state of the target.
//
// Owned by its run.
type queue struct {
	free    []float64 // when each worker becomes free
	first   int       // index of the worker that takes the next request
	places  []place
	now     int // index of places, for the requests that start next
	service logNormal
	draw    *rand.Rand
	fault   *rand.Rand
}

func newQueue(g *Target, seed uint64) *queue {
	q := &queue{service: newLogNormal(g.ServiceMean, g.ServiceCV), draw: newRand(seed, streamService),
		fault: newRand(seed, streamFaults)}
	stages := g.Stages
	if len(stages) == 0 {
		stages = []Stage{{Factor: 1}}
	}
	most := 0
	for _, s := range stages {
		n := max(1, int(math.Round(float64(g.Workers)*s.Factor)))
		q.places = append(q.places, place{s, n, float64(g.Workers) * s.Factor / float64(n)})
		most = max(most, n)
	}
	q.free = make([]float64, most)
	return q
}

// next returns when a request that arrives at now would start, and chooses its worker: the
// first one to be free of those that the stage has then.
func (q *queue) next(now float64) (start float64) {
	for {
		p := &q.places[q.now]
		q.first = 0
		for i, at := range q.free[:p.workers] {
			if at < q.free[q.first] {
				q.first = i
			}
		}
		start = max(now, p.From, q.free[q.first])
		if q.now+1 == len(q.places) || start < q.places[q.now+1].From {
			return start
		}
		q.now++
	}
}

// serve adds a request that arrives at now, and returns when it starts, when it is done and
// whether it fails; or that the queue is full.
func (q *queue) serve(now float64) (start, done float64, fails, full bool) {
	start = q.next(now)
	if start-now > queueMax {
		return 0, 0, false, true
	}
	p := &q.places[q.now]
	done = start + q.service.draw(q.draw)/p.speed
	q.free[q.first] = done
	fails = p.Errors > 0 && q.fault.Float64() < p.Errors
	return start, done, fails, false
}
