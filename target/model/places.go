package model

import "time"

// A placeState says what the request in a place is doing.
type placeState uint8

const (
	vacant    placeState = iota // nobody is here
	queued                      // waits for a worker
	running                     // has a worker
	abandoned                   // has a worker, but its client went away
)

// String names the state.
func (s placeState) String() string {
	return [...]string{"vacant", "queued", "running", "abandoned"}[s]
}

// none is the place number that is no place.
const none = int32(-1)

// A place holds one request from its arrival to its end.
//
// Owned by its loop.
type place[T any] struct {
	who     T
	arrived time.Duration // since the Model's origin
	wait    time.Duration // known when running
	// before and after link the queue while queued; after links the vacant
	// places while vacant.
	before, after int32
	// issue distinguishes a ticket for this request from one for an earlier request
	// in the same place. It is never 0 while a request is here.
	issue   uint32
	outcome Outcome // how the service will end; known when running
	state   placeState
}

// places holds the requests inside the service. Those who wait form a doubly
// linked list, so that joining, being served and going away cost the same
// however long the queue is.
//
// Owned by its loop.
type places[T any] struct {
	all         []place[T]
	vacant      int32 // head of the list of vacant places
	front, back int32 // of the queue
	waiting     int   // length of the queue
}

func newPlaces[T any]() places[T] {
	return places[T]{vacant: none, front: none, back: none}
}

func (p *places[T]) at(i int32) *place[T] { return &p.all[i] }

// first is the request that has waited longest; the queue must not be empty.
func (p *places[T]) first() *place[T] { return &p.all[p.front] }

// add gives a place to a request. The caller sets its state next.
func (p *places[T]) add(who T, arrived time.Duration) int32 {
	i := p.vacant
	if i == none {
		i = int32(len(p.all))
		p.all = append(p.all, place[T]{})
	} else {
		p.vacant = p.all[i].after
	}
	s := &p.all[i]
	s.who, s.arrived = who, arrived
	s.issue++
	if s.issue == 0 { // came round; 0 is the zero Ticket's
		s.issue = 1
	}
	return i
}

// remove makes a place vacant. It must not be linked in the queue.
func (p *places[T]) remove(i int32) {
	s := &p.all[i]
	var nobody T
	s.who = nobody // let go of what it points to
	s.state = vacant
	s.after = p.vacant
	p.vacant = i
}

// ticket names the request in place i.
func (p *places[T]) ticket(i int32) Ticket { return Ticket{slot: i, issue: p.all[i].issue} }

// find returns the place of a ticket's request, or nil when it is gone.
func (p *places[T]) find(t Ticket) *place[T] {
	if t.issue == 0 || int(t.slot) >= len(p.all) {
		return nil
	}
	s := &p.all[t.slot]
	if s.issue != t.issue || s.state == vacant {
		return nil
	}
	return s
}

// enqueue puts place i at the back of the queue.
func (p *places[T]) enqueue(i int32) {
	s := &p.all[i]
	s.state = queued
	s.before, s.after = p.back, none
	if p.back == none {
		p.front = i
	} else {
		p.all[p.back].after = i
	}
	p.back = i
	p.waiting++
}

// dequeue takes the first out of the queue.
func (p *places[T]) dequeue() int32 {
	i := p.front
	p.unlink(i)
	return i
}

// unlink takes place i out of the queue, wherever it stands.
func (p *places[T]) unlink(i int32) {
	s := &p.all[i]
	if s.before == none {
		p.front = s.after
	} else {
		p.all[s.before].after = s.after
	}
	if s.after == none {
		p.back = s.before
	} else {
		p.all[s.after].before = s.before
	}
	p.waiting--
}
