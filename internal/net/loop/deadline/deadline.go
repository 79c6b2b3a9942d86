// Package deadline tracks many deadlines: which have passed, and when to check again. It is a
// hashed timing wheel (Varghese and Lauck, "Hashed and Hierarchical Timing Wheels", 1987, scheme
// 6): setting, moving and clearing a deadline take constant time.
//
// Timeouts of connections are moved often and rarely expire. Therefore moving a deadline to a
// later time costs one assignment: the entry stays in its slot, and is moved to another one when
// the wheel reaches that slot.
//
// Times are durations since a start that the owner chooses.
package deadline

import "time"

// slots is the size of the wheel. An entry more than one turn ahead stays in its slot and
// is skipped until its turn.
const slots = 512

// never marks an entry without a deadline.
const never = time.Duration(1<<63 - 1)

// An Entry is one deadline of a Queue. Its owner embeds or keeps it, so that filing it
// allocates nothing.
//
// Owned by the owner of its Queue.
type Entry[T any] struct {
	// Value is passed to the function given to Expire. It is set before the first Set.
	Value T

	at         time.Duration
	filed      int64     // the step that it is filed under, if linked
	next, prev *Entry[T] // nil: it is not linked
}

// At returns the deadline, and false if there is none.
func (e *Entry[T]) At() (time.Duration, bool) { return e.at, e.next != nil && e.at != never }

// A Queue holds deadlines with a resolution of one step: an entry expires in the first
// call of Expire at or after its time, which is rounded up to a whole step.
//
// Owned by one loop.
type Queue[T any] struct {
	step  time.Duration
	done  int64 // last step that Expire has processed
	count int   // entries filed
	wheel [slots]Entry[T]
}

// New returns an empty Queue with the given resolution. It panics if step is not positive.
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

// Set sets or replaces the deadline of e.
func (q *Queue[T]) Set(e *Entry[T], at time.Duration) {
	e.at = at
	if e.next != nil && q.tick(at) >= e.filed {
		return // Expire will find it early and file it again
	}
	q.unlink(e)
	q.file(e)
}

// Clear removes the deadline of e. The queue may refer to the entry for another turn of
// the wheel; see Remove.
func (q *Queue[T]) Clear(e *Entry[T]) { e.at = never }

// Remove removes the deadline of e, and the queue no longer refers to e.
func (q *Queue[T]) Remove(e *Entry[T]) {
	e.at = never
	q.unlink(e)
}

// Expire removes every entry whose deadline has passed at now, and then calls f for it,
// which may set it again.
func (q *Queue[T]) Expire(now time.Duration, f func(T)) {
	upto := int64(now / q.step)
	if upto <= q.done {
		return
	}
	first := max(q.done+1, upto-slots+1)
	q.done = upto
	for tick := first; tick <= upto; tick++ {
		q.expireSlot(&q.wheel[tick%slots], f)
	}
}

func (q *Queue[T]) expireSlot(head *Entry[T], f func(T)) {
	if head.next == head {
		return
	}
	// The slot's list gets another head, so that entries that f or file put into this slot
	// wait for the next turn.
	var due Entry[T]
	due.next, due.prev = head.next, head.prev
	due.next.prev, due.prev.next = &due, &due
	head.next, head.prev = head, head

	for e := due.next; e != &due; e = due.next {
		q.unlink(e)
		switch {
		case e.at == never:
		case q.tick(e.at) <= q.done:
			e.at = never
			f(e.Value)
		default:
			q.file(e)
		}
	}
}

// Next returns when Expire must be called again; false if nothing is filed. That may be
// early, because an entry that was cleared or moved to a later time stays in its slot.
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

// tick returns the first step at which a deadline has passed.
func (q *Queue[T]) tick(at time.Duration) int64 {
	return int64((at-1)/q.step) + 1
}

func (q *Queue[T]) file(e *Entry[T]) {
	e.filed = max(q.tick(e.at), q.done+1)
	head := &q.wheel[e.filed%slots]
	e.prev, e.next = head.prev, head
	e.prev.next, head.prev = e, e
	q.count++
}

func (q *Queue[T]) unlink(e *Entry[T]) {
	if e.next == nil {
		return
	}
	e.prev.next, e.next.prev = e.next, e.prev
	e.next, e.prev = nil, nil
	q.count--
}
