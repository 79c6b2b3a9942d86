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
	// Queue bounds the queue, in seconds of waiting; beyond, the target answers 503
	// at once. 0: 10.
	Queue float64
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
	timeout  = 2.0 // seconds until a client gives up; the target completes the work
	queueMax = 10.0
)

// The service times of all targets that are compared.
const (
	ServiceMean = 0.05 // seconds
	ServiceCV   = 1.0
)

// A worker becomes free at an instant.
type worker struct {
	free float64
	id   int
}

// A place is a stage with a whole number of workers.
type place struct {
	Stage
	workers int
	speed   float64
}

// A queue is the state of the target. Its workers are a heap, the first one to be free on
// top.
//
// Owned by its run.
type queue struct {
	workers []worker
	places  []place
	now     int // index of places, for the requests that start next
	service logNormal
	draw    *rand.Rand
	fault   *rand.Rand
	most    float64 // seconds of waiting
}

func newQueue(g *Target, seed uint64) *queue {
	q := &queue{service: newLogNormal(g.ServiceMean, g.ServiceCV), most: g.Queue,
		draw: newRand(seed, streamService), fault: newRand(seed, streamFaults)}
	if q.most == 0 {
		q.most = queueMax
	}
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
	for id := range most {
		q.workers = append(q.workers, worker{0, id})
	}
	return q
}

// next returns when a request that arrives at now would start. Afterwards the worker that
// would take it is on top.
func (q *queue) next(now float64) float64 {
	for {
		start := max(now, q.workers[0].free)
		for q.now+1 < len(q.places) && q.places[q.now+1].From <= start {
			q.now++
		}
		w := q.workers[0]
		if w.id < q.places[q.now].workers {
			return start
		}
		w.free = math.Inf(1) // until a stage has this worker again
		for _, p := range q.places[q.now+1:] {
			if p.workers > w.id {
				w.free = p.From
				break
			}
		}
		q.replace(w)
	}
}

// serve adds a request that arrives at now, and returns when it starts, when it is done and
// whether it fails; or that the queue is full.
func (q *queue) serve(now float64) (start, done float64, fails, full bool) {
	start = q.next(now)
	if start-now > q.most {
		return 0, 0, false, true
	}
	p := &q.places[q.now]
	done = start + q.service.draw(q.draw)/p.speed
	w := q.workers[0]
	w.free = done
	q.replace(w)
	fails = p.Errors > 0 && q.fault.Float64() < p.Errors
	return start, done, fails, false
}

// replace replaces the top of the heap by w.
func (q *queue) replace(w worker) {
	h, i := q.workers, 0
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].free < h[child].free {
			child++
		}
		if h[child].free >= w.free {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = w
}
