// Package agenda is an event queue in virtual time.
package agenda

import "cmp"

// A Queue holds events, the earliest first. Events at the same time come in the order in
// which they were added. The zero value is empty.
//
// Owned by its caller.
type Queue[T cmp.Ordered, D any] struct {
	entries []entry[T, D] // a binary heap
	added   uint64
}

type entry[T cmp.Ordered, D any] struct {
	at     T
	serial uint64
	what   D
}

func (e *entry[T, D]) before(other *entry[T, D]) bool {
	return e.at < other.at || e.at == other.at && e.serial < other.serial
}

// Len returns the number of events.
func (q *Queue[T, D]) Len() int { return len(q.entries) }

// First returns the time of the next event. The Queue must not be empty.
func (q *Queue[T, D]) First() T { return q.entries[0].at }

// Add adds an event.
func (q *Queue[T, D]) Add(at T, what D) {
	q.added++
	e := entry[T, D]{at, q.added, what}
	q.entries = append(q.entries, e)
	h, i := q.entries, len(q.entries)-1
	for ; i > 0 && e.before(&h[(i-1)/2]); i = (i - 1) / 2 {
		h[i] = h[(i-1)/2]
	}
	h[i] = e
}

// Next removes and returns the next event. The Queue must not be empty.
func (q *Queue[T, D]) Next() (at T, what D) {
	h, last := q.entries, len(q.entries)-1
	top, e := h[0], h[last]
	h[last] = entry[T, D]{}
	q.entries, h = h[:last], h[:last]
	i := 0
	for child := 1; child < last; child = 2*i + 1 {
		if child+1 < last && h[child+1].before(&h[child]) {
			child++
		}
		if e.before(&h[child]) {
			break
		}
		h[i], i = h[child], child
	}
	if last > 0 {
		h[i] = e
	}
	return top.at, top.what
}
