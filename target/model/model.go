package model

import (
	"math"
	"math/rand/v2"
	"time"

	"weir/internal/timing/agenda"
)

// An Outcome is the state or the end of a request.
type Outcome uint8

// The outcomes. Started and Queued are intermediate: Expire returns the final outcome. The others
// are final.
const (
	Started  Outcome = iota // a worker has taken the request
	Queued                  // the request waits for a worker
	Served                  // completed successfully
	Failed                  // completed, and one of the share that fails
	Refused                 // all waiting places were taken
	TimedOut                // no worker was free within QueueTimeout
)

// String returns the name of the outcome.
func (o Outcome) String() string {
	return [...]string{"started", "queued", "served", "failed", "refused", "timed out"}[o]
}

// Final reports whether the outcome is final.
func (o Outcome) Final() bool { return o >= Served }

// A Completion is the end of a started or queued request.
type Completion[T any] struct {
	Who     T             // as passed to Arrive
	Outcome Outcome       // Served, Failed or TimedOut
	At      time.Time     // when the request ended, which may be before the Expire that returns it
	Wait    time.Duration // from arrival to the start of service or to the timeout
}

// A Model is the service: its workers, its queue, and the requests in both. T identifies requests
// to the caller, typically as a pointer or a number.
//
// In the steady state nothing is allocated, because the memory of finished requests is reused. It
// grows with the maximum number of requests inside: at most Workers + Queue, or without a bound on
// Workers as many as the caller has in progress.
//
// Loops that share a Model need a lock around every call.
//
// Owned by its loop.
type Model[T any] struct {
	cfg    Config
	chance *rand.Rand
	origin time.Time     // times inside count from here
	now    time.Duration // all events up to here have been processed

	places  places[T]                              // every request inside, and the order of the queue
	running agenda.Queue[time.Duration, *place[T]] // requests with a worker, by end of service
	done    []Completion[T]                        // ended and not yet returned
}

// New returns an idle service at now, which takes its random numbers from chance. If cfg is
// invalid, the error is a strict.Faults.
func New[T any](now time.Time, cfg Config, chance *rand.Rand) (*Model[T], error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	m := &Model[T]{cfg: cfg, chance: chance, origin: now}
	m.places.queue.before, m.places.queue.after = &m.places.queue, &m.places.queue
	return m, nil
}

// Config returns the behaviour in force.
func (m *Model[T]) Config() Config { return m.cfg }

// Busy returns how many requests have a worker. After Change has lowered Workers it may be higher
// until the surplus requests have finished.
func (m *Model[T]) Busy() int { return m.running.Len() }

// Waiting returns how many requests wait in the queue.
func (m *Model[T]) Waiting() int { return m.places.waiting }

// Arrive adds a request at now. If the outcome is Started or Queued, the handle identifies the
// request, and a later Expire returns its end with who; otherwise the outcome is final. If now is
// before an earlier now, that one is used.
func (m *Model[T]) Arrive(now time.Time, who T) (Handle[T], Outcome) {
	m.advance(now.Sub(m.origin))
	switch {
	case m.free():
		service, outcome := m.draw()
		if service == 0 {
			return Handle[T]{}, outcome
		}
		s := m.places.add(who, m.now)
		m.run(s, service, outcome)
		return s.ticket(), Started
	case m.places.waiting < m.cfg.Queue:
		s := m.places.add(who, m.now)
		m.places.enqueue(s)
		return s.ticket(), Queued
	default:
		return Handle[T]{}, Refused
	}
}

// Expire processes all events due by now, appends to out the requests that have ended since the
// last Expire, in order of time, and returns it.
func (m *Model[T]) Expire(now time.Time, out []Completion[T]) []Completion[T] {
	m.advance(now.Sub(m.origin))
	out = append(out, m.done...)
	clear(m.done)
	m.done = m.done[:0]
	return out
}

// Next returns when Expire must be called next; ok is false if no event is due at any time.
func (m *Model[T]) Next() (at time.Time, ok bool) {
	if len(m.done) > 0 {
		return m.origin.Add(m.now), true
	}
	offset, kind := m.next()
	return m.origin.Add(offset), kind != nothing
}

// Change replaces the behaviour from now on. If cfg is invalid, the error is a strict.Faults and
// nothing is changed. Requests with a worker keep it and their end, even if there are fewer
// workers now. Waiting requests keep their places, even if there are fewer now, and the new
// QueueTimeout applies to them, counted from their arrival. The next Expire returns the requests
// that end by the change.
func (m *Model[T]) Change(now time.Time, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	m.advance(now.Sub(m.origin))
	m.cfg = cfg
	m.fill()
	m.advance(m.now)
	return nil
}

// Cancel cancels a request whose client has disconnected, and reports whether the request was
// still inside. A waiting request frees its place. One with a worker occupies it to the end, as in
// a service that does not notice.
func (m *Model[T]) Cancel(t Handle[T]) bool {
	s := t.place
	if s == nil || s.issue != t.issue {
		return false
	}
	if s.state == queued {
		m.places.unlink(s)
		m.places.remove(s)
		return true
	}
	s.state = abandoned
	s.issue++
	s.who = *new(T)
	return true
}

// An event is the kind of the next event.
type event uint8

const (
	nothing    event = iota
	completion       // a worker finishes
	timeout          // the first of the queue times out
)

// next returns the earliest event. If a worker becomes free at the moment when the first of the
// queue would time out, the worker takes it. All requests have the same timeout, so the first in
// the queue is also the first to time out.
func (m *Model[T]) next() (time.Duration, event) {
	at, kind := time.Duration(math.MaxInt64), nothing
	if m.running.Len() > 0 {
		at, kind = m.running.First(), completion
	}
	if m.places.waiting > 0 {
		if limit := m.places.first().arrived + m.cfg.QueueTimeout; limit < at {
			at, kind = limit, timeout
		}
	}
	return at, kind
}

// advance processes the events up to and including the offset to, each at its own time.
func (m *Model[T]) advance(to time.Duration) {
	to = max(to, m.now)
	for {
		at, kind := m.next()
		if kind == nothing || at > to {
			break
		}
		m.now = max(at, m.now) // a Change may leave events in the past
		if kind == completion {
			m.complete()
		} else {
			m.timeOut()
		}
	}
	m.now = to
}

// complete ends the service that is due first and gives its worker to the queue.
func (m *Model[T]) complete() {
	_, s := m.running.Next()
	if s.state == running {
		m.end(s, s.outcome)
	}
	m.places.remove(s)
	m.fill()
}

func (m *Model[T]) timeOut() {
	s := m.places.dequeue()
	s.wait = m.now - s.arrived
	m.end(s, TimedOut)
	m.places.remove(s)
}

// fill gives free workers to waiting requests, first come first served.
func (m *Model[T]) fill() {
	for m.places.waiting > 0 && m.free() {
		service, outcome := m.draw()
		m.run(m.places.dequeue(), service, outcome)
	}
}

func (m *Model[T]) free() bool {
	return m.cfg.Workers == 0 || m.Busy() < m.cfg.Workers
}

func (m *Model[T]) run(s *place[T], service time.Duration, outcome Outcome) {
	s.state = running
	s.wait = m.now - s.arrived
	s.outcome = outcome
	m.running.Add(m.now+service, s)
}

// end records the end of a request for the next Expire.
func (m *Model[T]) end(s *place[T], o Outcome) {
	m.done = append(m.done, Completion[T]{Who: s.who, Outcome: o, At: m.origin.Add(m.now), Wait: s.wait})
}

// draw returns a random service time and final outcome. It draws only the numbers that it needs.
func (m *Model[T]) draw() (time.Duration, Outcome) {
	service := m.cfg.Delay
	if service > 0 {
		// Both factors have the mean 1; for e^(σz−σ²/2), z normal, σ = 1.
		switch m.cfg.Dist {
		case Exponential:
			service = time.Duration(float64(service) * m.chance.ExpFloat64())
		case Lognormal:
			service = time.Duration(float64(service) * math.Exp(m.chance.NormFloat64()-0.5))
		}
	}
	if m.cfg.ErrorRate > 0 && m.chance.Float64() < m.cfg.ErrorRate {
		return service, Failed
	}
	return service, Served
}
