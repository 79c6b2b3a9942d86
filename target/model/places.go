package model

import "time"

// A placeState is the state of the request in a place.
type placeState uint8

const (
	queued    placeState = iota // waits for a worker
	running                     // has a worker
	abandoned                   // has a worker, but its client has disconnected
)

// A place holds one request from its arrival to its end.
//
// Owned by its loop.
type place[T any] struct {
	who     T
	arrived time.Duration // since the Model's origin
	wait    time.Duration // known when running
	// before and after link the queue while queued; after links the vacant places while vacant.
	before, after *place[T]
	issue         uint32  // changes when the request has ended, or is abandoned
	outcome       Outcome // how the service will end; known when running
	state         placeState
}

// A Handle identifies a started or queued request for Cancel. The zero Handle identifies none.
type Handle[T any] struct {
	place *place[T]
	issue uint32
}

func (s *place[T]) ticket() Handle[T] { return Handle[T]{s, s.issue} }

// places holds the requests inside the service. The waiting ones form a doubly linked ring, so
// adding and removing a request takes constant time.
//
// Owned by its loop.
type places[T any] struct {
	vacant  *place[T] // head of the list of vacant places
	queue   place[T]  // holds no request; after it comes the first of the queue, before it the last
	waiting int       // length of the queue
}

// first returns the request that has waited longest; the queue must not be empty.
func (p *places[T]) first() *place[T] { return p.queue.after }

// add returns a place for a request. The caller must set its state.
func (p *places[T]) add(who T, arrived time.Duration) *place[T] {
	s := p.vacant
	if s == nil {
		s = new(place[T])
	} else {
		p.vacant = s.after
	}
	s.who, s.arrived = who, arrived
	return s
}

// remove makes a place vacant. It must not be linked in the queue.
func (p *places[T]) remove(s *place[T]) {
	s.who = *new(T) // release what it points to
	s.issue++
	s.after, p.vacant = p.vacant, s
}

func (p *places[T]) enqueue(s *place[T]) {
	s.state = queued
	s.before, s.after = p.queue.before, &p.queue
	s.before.after, p.queue.before = s, s
	p.waiting++
}

func (p *places[T]) dequeue() *place[T] {
	s := p.first()
	p.unlink(s)
	return s
}

func (p *places[T]) unlink(s *place[T]) {
	s.before.after, s.after.before = s.after, s.before
	p.waiting--
}
