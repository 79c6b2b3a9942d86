// Package deadline knows which of many deadlines have passed, and when to look
// again. It is a hashed timing wheel (Varghese and Lauck, "Hashed and
// Hierarchical Timing Wheels", 1987, scheme 6): setting, moving and clearing a
// deadline take constant time however many there are.
//
// Timeouts of connections are mostly moved and hardly ever kept, so moving one
// to a later time costs one assignment: the entry stays where it is filed and
// is filed anew when the wheel comes past it.
//
// The package is told the time as a duration since a start of the owner's
// choosing; it never asks a clock.
package deadline

import "time"

// slots is the number of places on the wheel. An entry that is further away
// than one turn stays on its place and is passed over until its turn comes.
const slots = 512

// never marks an entry without a deadline.
const never = time.Duration(1<<63 - 1)

// An Entry is one deadline of a Queue. It is embedded in, or kept by, what it
// belongs to, so that filing it allocates nothing.
//
// Owned by the owner of its Queue.
type Entry[T any] struct {
	// Value is handed to Expire's function; set it before the first Set.
	Value T

	at         time.Duration
	filed      int64 // the step it is filed under, when it is
	next, prev *Entry[T]
	linked     bool
}

// A Queue holds deadlines at a resolution of one step: an entry expires at the
// first call of Expire at or after its time, rounded up to a whole step.
//
// Owned by one loop.
type Queue[T any] struct {
	step  time.Duration
	done  int64 // every step up to this one has been looked at
	count int   // entries filed
	wheel [slots]Entry[T]
}

// New returns an empty Queue with the given resolution. It panics when step is
// not positive.
func New[T any](step time.Duration) *Queue[T] {
	if step <= 0 {
		panic("bug: deadline step must be positive")
	}
	q := &Queue[T]{step: step}
	for i := range q.wheel {
		s := &q.wheel[i]
		s.next, s.prev = s, s
	}
	return q
}

// Set gives e the deadline at, replacing the one it had.
func (q *Queue[T]) Set(e *Entry[T], at time.Duration) {
	e.at = at
	if e.linked && q.tick(at) >= e.filed {
		return // found too early, it is filed again then
	}
	q.unlink(e)
	q.file(e)
}

// Clear takes e's deadline away. The entry may stay filed for a turn of the
// wheel; use Remove when its owner goes away.
func (q *Queue[T]) Clear(e *Entry[T]) { e.at = never }

// Remove takes e out altogether.
func (q *Queue[T]) Remove(e *Entry[T]) {
	e.at = never
	q.unlink(e)
}

// Expire calls f with every entry whose deadline has passed at now and takes
// it out first, so that f may set it again. It returns how many there were.
func (q *Queue[T]) Expire(now time.Duration, f func(T)) int {
	upto := int64(now / q.step)
	if upto <= q.done {
		return 0
	}
	expired := 0
	first := max(q.done+1, upto-slots+1)
	q.done = upto
	for tick := first; tick <= upto; tick++ {
		expired += q.expireSlot(int(tick%slots), f)
	}
	return expired
}

func (q *Queue[T]) expireSlot(slot int, f func(T)) int {
	head := &q.wheel[slot]
	if head.next == head {
		return 0
	}
	// The slot's list moves to a head of its own, so that entries that f or
	// the refiling below put into this slot wait for the next turn.
	var due Entry[T]
	due.next, due.prev = head.next, head.prev
	due.next.prev, due.prev.next = &due, &due
	head.next, head.prev = head, head

	expired := 0
	for e := due.next; e != &due; e = due.next {
		q.unlink(e)
		switch {
		case e.at == never:
		case q.tick(e.at) <= q.done:
			e.at = never
			expired++
			f(e.Value)
		default:
			q.file(e)
		}
	}
	return expired
}

// Next says when Expire has something to look at again; false when nothing is
// filed. It may be early: an entry moved to a later time or cleared is found
// where it was.
func (q *Queue[T]) Next() (time.Duration, bool) {
	if q.count == 0 {
		return 0, false
	}
	for i := int64(1); i <= slots; i++ {
		s := &q.wheel[(q.done+i)%slots]
		if s.next != s {
			return time.Duration(q.done+i) * q.step, true
		}
	}
	panic("bug: deadlines counted but none filed")
}

// tick is the step at which a deadline has passed: its time rounded up.
func (q *Queue[T]) tick(at time.Duration) int64 {
	return int64((at-1)/q.step) + 1
}

func (q *Queue[T]) file(e *Entry[T]) {
	e.filed = max(q.tick(e.at), q.done+1)
	head := &q.wheel[e.filed%slots]
	e.prev, e.next = head.prev, head
	e.prev.next, head.prev = e, e
	e.linked = true
	q.count++
}

func (q *Queue[T]) unlink(e *Entry[T]) {
	if !e.linked {
		return
	}
	e.prev.next, e.next.prev = e.next, e.prev
	e.next, e.prev = nil, nil
	e.linked = false
	q.count--
}
