package model

import (
	"math"
	"math/rand/v2"
	"time"

	"weir/internal/agenda"
)

// An Outcome says what became of a request.
type Outcome uint8

// The outcomes. Started and Queued are the beginning of a story whose end
// Expire tells; the others are final.
const (
	// Started: a worker has taken the request.
	Started Outcome = iota
	// Queued: the request waits for a worker.
	Queued
	// Served: done, and well.
	Served
	// Failed: done, and it is one of the share that fails.
	Failed
	// Refused: all waiting places were taken.
	Refused
	// TimedOut: no worker was free within the time that requests wait.
	TimedOut
)

// String names the outcome.
func (o Outcome) String() string {
	return [...]string{"started", "queued", "served", "failed", "refused", "timed out"}[o]
}

// Final reports whether nothing more will be heard of the request.
func (o Outcome) Final() bool { return o >= Served }

// A Ticket names a request that was started or queued, for Cancel. The zero
// Ticket names none.
type Ticket struct {
	slot  int32
	issue uint32
}

// A Done is how a request that was started or queued ended.
type Done[T any] struct {
	// Who is the caller's name for the request, as given to Arrive.
	Who T
	// Outcome is Served, Failed or TimedOut.
	Outcome Outcome
	// At is when it ended, which may be before the Expire that returns it.
	At time.Time
	// Wait is the time from arrival to the start of service, or to giving up.
	Wait time.Duration
}

// A Model is the service: workers, queue, and the requests in both. T is the
// caller's name for a request, typically a pointer or a number; the Model keeps
// it and gives it back.
//
// In the steady state nothing is allocated: the memory of finished requests is
// used again. It grows to the most requests that were inside at a time, which is
// at most Workers + Queue, and without a bound on Workers as many as the caller
// has under way.
//
// Several loops that share one need a lock around every call.
//
// Owned by its loop.
type Model[T any] struct {
	cfg    Config
	chance *rand.Rand
	origin time.Time     // times inside are counted from here
	now    time.Duration // up to here everything has happened

	places  places[T]                           // every request inside, and the order of the queue
	running agenda.Agenda[time.Duration, int32] // places of the requests with a worker, by end of service
	done    []Done[T]                           // ended, not yet told
}

// New makes an idle service at now. chance is where its randomness comes from;
// the Model keeps it. A wrong cfg is a strict.Faults.
func New[T any](now time.Time, cfg Config, chance *rand.Rand) (*Model[T], error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Model[T]{cfg: cfg, chance: chance, origin: now, places: newPlaces[T]()}, nil
}

// Config returns the behaviour in force.
func (m *Model[T]) Config() Config { return m.cfg }

// Busy returns how many requests have a worker. After Change has lowered Workers
// it may exceed them until the surplus has finished.
func (m *Model[T]) Busy() int { return m.running.Len() }

// Waiting returns how many requests wait in the queue.
func (m *Model[T]) Waiting() int { return m.places.waiting }

// Arrive brings a request at now. When the outcome is Started or Queued, the
// ticket names the request, and a later Expire returns its end under the name who;
// otherwise the outcome is the end. Time may step back: it then stands still.
func (m *Model[T]) Arrive(now time.Time, who T) (Ticket, Outcome) {
	m.advance(now.Sub(m.origin))
	switch {
	case m.free():
		service, outcome := m.draw()
		if service == 0 {
			return Ticket{}, outcome
		}
		i := m.places.add(who, m.now)
		m.run(i, service, outcome)
		return m.places.ticket(i), Started
	case m.places.waiting < m.cfg.Queue:
		i := m.places.add(who, m.now)
		m.places.enqueue(i)
		return m.places.ticket(i), Queued
	default:
		return Ticket{}, Refused
	}
}

// Expire lets everything happen that is due by now, appends to out, in order of
// time, the requests that have ended since the last Expire, and returns it.
func (m *Model[T]) Expire(now time.Time, out []Done[T]) []Done[T] {
	m.advance(now.Sub(m.origin))
	out = append(out, m.done...)
	clear(m.done)
	m.done = m.done[:0]
	return out
}

// Next returns when Expire will next have something to do or to tell; ok is
// false when nothing is under way.
func (m *Model[T]) Next() (at time.Time, ok bool) {
	if len(m.done) > 0 {
		return m.origin.Add(m.now), true
	}
	offset, kind := m.next()
	return m.origin.Add(offset), kind != nothing
}

// Change replaces the behaviour from now on; a wrong cfg is an error of type
// strict.Faults and changes nothing. A request with a worker keeps it and the end it was
// given, also when there are fewer workers now. One that waits keeps its place, also
// when there are fewer places now, and waits as long as the new QueueTimeout
// allows, counted from the arrival. The next Expire returns what ends by the
// change.
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

// Cancel forgets a request whose client went away.
// One that waits gives its place back; one that has a worker occupies it to the
// end, as with a service that does not notice. It reports whether the request
// was still inside.
func (m *Model[T]) Cancel(t Ticket) bool {
	s := m.places.find(t)
	if s == nil {
		return false
	}
	switch s.state {
	case queued:
		m.places.unlink(t.slot)
		m.places.remove(t.slot)
	case running:
		s.state = abandoned
		s.issue++ // the ticket is void now
		var nobody T
		s.who = nobody
	default:
		panic("bug: ticket of a request that is " + s.state.String())
	}
	return true
}

// An event is what happens next.
type event uint8

const (
	nothing    event = iota
	completion       // a worker finishes
	timeout          // the first of the queue gives up
)

// next finds the earliest event. A worker that becomes free in the very moment
// when the first of the queue would give up still takes it: requests give up
// after waiting QueueTimeout in vain. All wait equally long, so the first
// in the queue is also the first to give up.
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

// advance lets everything happen up to and including the offset to, each event
// at its own time.
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
			m.giveUp()
		}
	}
	m.now = to
}

// complete ends the service that is due first and gives its worker to the queue.
func (m *Model[T]) complete() {
	_, i := m.running.Next()
	s := m.places.at(i)
	if s.state == running {
		m.tell(s, s.outcome)
	}
	m.places.remove(i)
	m.fill()
}

// giveUp ends the waiting of the first in the queue.
func (m *Model[T]) giveUp() {
	i := m.places.dequeue()
	s := m.places.at(i)
	s.wait = m.now - s.arrived
	m.tell(s, TimedOut)
	m.places.remove(i)
}

// fill gives free workers to waiting requests, first come first served.
func (m *Model[T]) fill() {
	for m.places.waiting > 0 && m.free() {
		i := m.places.dequeue()
		service, outcome := m.draw()
		m.run(i, service, outcome)
	}
}

// free reports whether a worker is.
func (m *Model[T]) free() bool {
	return m.cfg.Workers == 0 || m.Busy() < m.cfg.Workers
}

// run gives a worker to the request in place i.
func (m *Model[T]) run(i int32, service time.Duration, outcome Outcome) {
	s := m.places.at(i)
	s.state = running
	s.wait = m.now - s.arrived
	s.outcome = outcome
	m.running.Add(m.now+service, i)
}

// tell keeps the end of a request for the next Expire.
func (m *Model[T]) tell(s *place[T], o Outcome) {
	m.done = append(m.done, Done[T]{Who: s.who, Outcome: o, At: m.origin.Add(m.now), Wait: s.wait})
}

// draw decides how long a service takes and whether it fails. It asks chance
// only for what is uncertain.
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
