package model

import "time"

// A placeState is the state of the request in a place.
type placeState uint8

const (
	vacant    placeState = iota // no request
	queued                      // waits for a worker
	running                     // has a worker
	abandoned                   // has a worker, but its client has disconnected
)

func (s placeState) String() string {
	return [...]string{"vacant", "queued", "running", "abandoned"}[s]
}

// none is the index of no place.
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
	// issue distinguishes the ticket of this request from that of an earlier one in the same
	// place. It is not 0 while a request is here.
	issue   uint32
	outcome Outcome // how the service will end; known when running
	state   placeState
}

// places holds the requests inside the service. The waiting ones form a doubly linked list, so
// adding and removing a request takes constant time.
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

// first returns the request that has waited longest; the queue must not be empty.
func (p *places[T]) first() *place[T] { return &p.all[p.front] }

// add returns a place for a request. The caller must set its state.
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
	if s.issue == 0 { // wrapped around; 0 is reserved for the zero Ticket
		s.issue = 1
	}
	return i
}

// remove makes a place vacant. It must not be linked in the queue.
func (p *places[T]) remove(i int32) {
	s := &p.all[i]
	s.who = *new(T) // release what it points to
	s.state = vacant
	s.after = p.vacant
	p.vacant = i
}

func (p *places[T]) ticket(i int32) Ticket { return Ticket{slot: i, issue: p.all[i].issue} }

// find returns the place of a ticket's request, or nil if it has ended.
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

// dequeue removes the first place from the queue and returns it.
func (p *places[T]) dequeue() int32 {
	i := p.front
	p.unlink(i)
	return i
}

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
