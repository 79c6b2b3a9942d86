package upstream

import (
	"math"
	"slices"
)

// lines are the waiters for any connection, by the slots of their clients. Connections go in turn to the client that
// has the fewest and to the waiter that has waited longest.
type lines[W any] struct {
	of     []*line[W] // by slot, made when first needed
	active []*line[W] // that have waiters, or had some; the one that was served last is last
	count  int        // of all waiters

	joined  uint64 // how many waiters have been added
	granted uint64 // how many got a connection
}

// A line is the waiters of one slot.
type line[W any] struct {
	fifo[W]
	slot   uint16
	listed bool // it is in lines.active
}

func (l *lines[W]) add(w *Waiter[W]) {
	if l.of == nil {
		l.of = make([]*line[W], slots)
	}
	own := l.of[w.slot]
	if own == nil {
		own = &line[W]{slot: w.slot}
		l.of[w.slot] = own
	}
	own.add(w)
	l.count++
	l.joined++
	w.ticket = l.joined
	if !own.listed {
		own.listed = true
		l.active = append(l.active, own)
	}
}

// fewest returns the index in active of the slot with waiters that has the fewest connections, and their number: holds
// are how many each has or waits for.
func (l *lines[W]) fewest(holds *[slots]int32) (at int, least int32) {
	least = math.MaxInt32
	for i, own := range l.active {
		if has := holds[own.slot] - int32(own.count); own.count > 0 && has < least {
			at, least = i, has
		}
	}
	return at, least
}

// oldest returns the index in active of the slot whose first waiter has waited longest.
func (l *lines[W]) oldest() (at int) {
	least := uint64(math.MaxUint64)
	for i, own := range l.active {
		if own.count > 0 && own.first.ticket < least {
			at, least = i, own.first.ticket
		}
	}
	return at
}

// take takes the next waiter that gets a connection, or returns nil if nobody waits.
func (l *lines[W]) take(holds *[slots]int32) *Waiter[W] {
	if l.count == 0 {
		return nil
	}
	if l.granted++; l.granted%2 == 0 {
		return l.takeFrom(l.oldest())
	}
	at, _ := l.fewest(holds)
	return l.takeFrom(at)
}

// takeFrom takes the first waiter of a slot, which is served last from then on.
func (l *lines[W]) takeFrom(at int) *Waiter[W] {
	own := l.active[at]
	l.active = append(slices.Delete(l.active, at, at+1), own)
	l.count--
	w := own.fifo.take()
	if l.count == 0 {
		l.forget()
	}
	return w
}

// forget empties active.
func (l *lines[W]) forget() {
	for _, own := range l.active {
		own.listed = false
	}
	clear(l.active)
	l.active = l.active[:0]
}

// A fifo is a list of waiters, first in, first out.
type fifo[W any] struct {
	first, last *Waiter[W]
	count       int
}

func (f *fifo[W]) add(w *Waiter[W]) {
	if w.queue != nil {
		panic("bug: a waiter is in two queues")
	}
	w.prev, w.queue = f.last, f
	if f.last == nil {
		f.first = w
	} else {
		f.last.next = w
	}
	f.last = w
	f.count++
}

// take takes the first out; nil: there is none.
func (f *fifo[W]) take() *Waiter[W] {
	w := f.first
	if w != nil {
		w.leave()
	}
	return w
}

func (w *Waiter[W]) leave() {
	f := w.queue
	if w.prev == nil {
		f.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		f.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.next, w.prev, w.queue = nil, nil, nil
	f.count--
}
