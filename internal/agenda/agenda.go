// Package agenda is an event queue in virtual time.
package agenda

import "cmp"

// An Agenda is what is due, the earliest first. What is due at the same time comes in the
// order in which it was added. The zero value is empty.
//
// Owned by whoever it happens to.
type Agenda[T cmp.Ordered, D any] struct {
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

// Len returns how much is due.
func (a *Agenda[T, D]) Len() int { return len(a.entries) }

// First returns when the next is due, of an Agenda that is not empty.
func (a *Agenda[T, D]) First() T { return a.entries[0].at }

// Add adds what is due at an instant.
func (a *Agenda[T, D]) Add(at T, what D) {
	a.added++
	e := entry[T, D]{at, a.added, what}
	a.entries = append(a.entries, e)
	h, i := a.entries, len(a.entries)-1
	for ; i > 0 && e.before(&h[(i-1)/2]); i = (i - 1) / 2 {
		h[i] = h[(i-1)/2]
	}
	h[i] = e
}

// Next removes the next from an Agenda that is not empty, and returns it.
func (a *Agenda[T, D]) Next() (at T, what D) {
	h, last := a.entries, len(a.entries)-1
	top, e := h[0], h[last]
	h[last] = entry[T, D]{}
	a.entries, h = h[:last], h[:last]
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
