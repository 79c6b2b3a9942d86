package upstream

import (
	"iter"
	"time"
)

// A request must have been overtaken by overtakenMin later ones, and by overtakenTurns times as many as
// had a place before it, so that the time that it takes is its own, and not that of a target which is
// slow or stands still.
const overtakenMin, overtakenTurns = 8, 2

// Take records that w has a place at a target until Give. Requests of its kind usually take usual;
// 0: unknown.
func (l *Queue[W]) Take(now time.Time, w *Waiter[W], usual time.Duration) {
	if w.placed {
		l.Give(now, w)
	}
	at := instant(now)
	w.placed, w.placedFor, w.usual = true, w.who, float32(usual)/float32(time.Second)
	w.known = int16(l.keys.take(at, w.who.mark, w.who.client))
	l.clients.take(int(w.who.client), at)
	l.routed = l.routed || w.who.route != 0
	if w.routed = l.routed; w.routed {
		l.routes.take(int(w.who.route), at)
	}
	l.own.taken.Add(1)
	w.takenAt, w.overtaken = at, l.gives+uint64((1+overtakenTurns)*l.placed)+overtakenMin
	l.placed++
	w.older, w.newer = l.newest, nil
	l.link(w)
}

// Give records that w has given its place back.
func (l *Queue[W]) Give(now time.Time, w *Waiter[W]) {
	if !w.placed {
		return
	}
	l.gives++
	l.release(w)
	at, who := instant(now), &w.placedFor
	l.stands(now, at, w)
	l.keys.give(at, int(w.known), w.usual)
	l.clients.give(int(who.client), at, w.usual)
	if w.routed {
		l.routes.give(int(who.route), at, w.usual)
	}
	if w.long {
		l.lengthen(w, -1)
	}
	w.placed = false
}

// release frees the place of w for others, unless that was done before.
func (l *Queue[W]) release(w *Waiter[W]) {
	if w.long {
		return
	}
	l.own.taken.Add(-1)
	l.placed--
	if w.older != nil {
		w.older.newer = w.newer
	} else {
		l.oldest = w.newer
	}
	if w.newer != nil {
		w.newer.older = w.older
	} else {
		l.newest = w.older
	}
	w.older, w.newer = nil, nil
}

// First returns the earliest waiter that waits because others hold the places, or nil. It skips
// greedy waiters, and those whose client or route has its share.
func (l *Queue[W]) First(now time.Time) (first *Waiter[W]) {
	for i := range l.ranks {
		for _, b := range l.ranks[i].bands {
			first = l.first(now, b, first)
		}
	}
	return first
}

// first returns the one that came first, of those in the band and w.
func (l *Queue[W]) first(now time.Time, b *band[W], w *Waiter[W]) *Waiter[W] {
	for i := range b.fifos {
		if of := b.fifos[i].first; of != nil && (w == nil || of.ticket < w.ticket) && !l.greedy(now, of) &&
			l.shared(now, of) {
			w = of
		}
	}
	return w
}

// Hand moves the places of w, in a Pool and in the queue, to another waiter, which has none.
func (l *Queue[W]) Hand(w, to *Waiter[W]) {
	linked := w.placed && !w.long
	if w.Hand(to); linked {
		l.link(to)
	}
}

// link makes the neighbours of w point to it.
func (l *Queue[W]) link(w *Waiter[W]) {
	if w.older != nil {
		w.older.newer = w
	} else {
		l.oldest = w
	}
	if w.newer != nil {
		w.newer.older = w
	} else {
		l.newest = w
	}
}

// Overtaken reports whether w has a place, and was overtaken by many that got theirs later.
func (l *Queue[W]) Overtaken(w *Waiter[W]) bool { return w.placed && l.gives >= w.overtaken }

// LongHeld yields those that have had a place for at least the given time and were overtaken. Only the
// one that is yielded may give its place back meanwhile, or
// be lengthened.
func (l *Queue[W]) LongHeld(now time.Time, least time.Duration) iter.Seq2[*Waiter[W], time.Duration] {
	return func(yield func(*Waiter[W], time.Duration) bool) {
		at := instant(now)
		for w := l.oldest; w != nil; {
			next, had := w.newer, time.Duration(at-w.takenAt)
			if had < least || l.Overtaken(w) && !yield(w, had) {
				return
			}
			w = next
		}
	}
}

// Lengthen records that w holds its place for much longer than usual. The place is free for others
// from now on; it still counts as one of its client's, its key's and its route's while the
// target is busy.
func (l *Queue[W]) Lengthen(w *Waiter[W]) {
	if !w.placed || w.long {
		return
	}
	l.release(w)
	l.lengthen(w, 1)
}

func (l *Queue[W]) lengthen(w *Waiter[W], n int32) {
	w.long = n > 0
	l.clients.lengthen(int(w.placedFor.client), n)
	if w.routed {
		l.routes.lengthen(int(w.placedFor.route), n)
	}
}
