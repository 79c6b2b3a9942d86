// Package upstream keeps the books on connections to targets: which are idle,
// how many are open or being dialled, who waits for one, how each target fares,
// and which one the next request goes to. It opens and closes nothing itself:
// it is told what happened and says what to do.
//
// Every loop has pools of its own, so that a request never changes its thread.
package upstream

import "slices"

// A Waiter stands in a line: for a connection in that of a Pool, or for a place at
// any target in a Line.
//
// Owned by its loop.
type Waiter[W any] struct {
	// Value is who waits.
	Value W

	next, prev *Waiter[W]
	line       *fifo[W]
	streams    bool // has one of the places for streams

	key, rank uint8  // see For
	placed    bool   // has a place that its Line knows of,
	placedBy  uint8  // for this key
	ticket    uint64 // in the Line: the order of joining
	late      bool   // has waited there for long
	greedy    bool   // its key was greedy when it joined
}

// For says whose request waits: the hash of the key that it is counted under, and the rank
// of its priority class, 0 for the highest; those from Background on are alike.
func (w *Waiter[W]) For(key uint64, rank int) {
	w.key, w.rank = uint8(key), uint8(min(rank, Ranks-1))
}

// Rank is the rank that For was told of.
func (w *Waiter[W]) Rank() int { return int(w.rank) }

// Waiting reports whether the waiter stands in a line.
func (w *Waiter[W]) Waiting() bool { return w.line != nil }

// Streams reports whether the waiter has one of the places for streams.
func (w *Waiter[W]) Streams() bool { return w.streams }

// A Pool keeps the connections (C) of one loop to one target, and the line of
// those (W) who wait for one. Idle connections are used last in, first out, so
// that the rest can grow old and be closed.
//
// A connection that has no place in the pool any more leaves it: it is given to
// nobody, counts as open, and is to be closed by who brought it (Leaving).
//
// Owned by its loop.
type Pool[C comparable, W any] struct {
	most       int // connections, open or being dialled
	streamsMax int // of them, that carry streams
	waitMax    int // waiters

	idle    []C
	busy    int
	streams int // places taken by who has or wants a connection for long
	leaving []C // to be closed, not lost yet
	retired bool
	dialing int
	line    fifo[W] // waits for any connection
	fresh   fifo[W] // waits for a new one
}

// NewPool returns a Pool of at most most connections, of which streamsMax may
// carry streams, and waitMax waiters.
func NewPool[C comparable, W any](most, streamsMax, waitMax int) *Pool[C, W] {
	return &Pool[C, W]{most: most, streamsMax: streamsMax, waitMax: waitMax}
}

// A Grant is the answer to Acquire.
type Grant uint8

const (
	// Ready: here is an idle connection; it is busy now.
	Ready Grant = iota
	// Wait: the waiter stands in line.
	Wait
	// WaitAndDial: likewise, and one more connection is to be dialled.
	WaitAndDial
	// Full: there is no place in the line.
	Full
)

// Acquire asks for a connection for w. fresh refuses one that has served
// before: such a one has just failed.
func (p *Pool[C, W]) Acquire(w *Waiter[W], fresh bool) (c C, g Grant) {
	if n := len(p.idle); n > 0 && !fresh {
		c = p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.busy++
		return c, Ready
	}
	if p.line.count+p.fresh.count >= p.waitMax {
		return c, Full
	}
	if fresh {
		p.fresh.add(w)
	} else {
		p.line.add(w)
	}
	if p.wantsDial() {
		p.dialing++
		return c, WaitAndDial
	}
	return c, Wait
}

// Short is how many requests in flight are no streams.
func (p *Pool[C, W]) Short() int { return p.InFlight() - p.streams }

// Waiting is how many wait for a connection.
func (p *Pool[C, W]) Waiting() int { return p.line.count + p.fresh.count }

// Stream takes a place for w among the connections that are held for long, as
// tunnels and streams do, so that the others stay for short exchanges. It
// returns false when all places are taken. The place is w's until EndStream.
func (p *Pool[C, W]) Stream(w *Waiter[W]) bool {
	if !w.streams && p.streams < p.streamsMax {
		w.streams = true
		p.streams++
	}
	return w.streams
}

// EndStream gives the place of w back, if it has one.
func (p *Pool[C, W]) EndStream(w *Waiter[W]) {
	if w.streams {
		w.streams = false
		p.streams--
	}
}

// wantsDial: somebody waits for whom no dial is under way, and there is room.
// Who needs a fresh connection gets one beyond the bound: it takes the place
// of the one that failed.
func (p *Pool[C, W]) wantsDial() bool {
	if p.dialing < p.fresh.count {
		return true
	}
	return p.dialing < p.line.count+p.fresh.count && p.Open()+p.dialing < p.most
}

// Release takes a busy connection back that can serve again. When somebody
// waits it is busy again with the waiter returned; otherwise the waiter is nil
// and the connection idle, or leaving. One beyond the bound leaves even when
// somebody waits, who will have one of the others: a line that never ends would
// keep it for ever.
func (p *Pool[C, W]) Release(c C) *Waiter[W] {
	if p.idleOrBusy() > p.most {
		p.busy--
		p.leaving = append(p.leaving, c)
		return nil
	}
	if w := p.line.take(); w != nil {
		return w
	}
	p.busy--
	p.rest(c)
	return nil
}

// rest has a connection, counted no more, wait for use, if there is a place.
func (p *Pool[C, W]) rest(c C) {
	if p.retired || p.idleOrBusy() >= p.most {
		p.leaving = append(p.leaving, c)
		return
	}
	p.idle = append(p.idle, c)
}

// Leaving reports whether a connection has no place in the pool any more. It is
// asked when Release or Dialled returned nobody; then the connection is to be
// closed, and Lost told as ever.
func (p *Pool[C, W]) Leaving(c C) bool { return slices.Contains(p.leaving, c) }

// Retire has the pool end: idle connections leave it, which are returned to be
// closed, borrowed until the next call; busy ones leave it when they are
// released and nobody waits. Who waits is still served, with new connections
// when need be, and so is a request that comes back for a fresh one.
func (p *Pool[C, W]) Retire() []C {
	p.retired = true
	n := len(p.leaving)
	p.leaving = append(p.leaving, p.idle...)
	clear(p.idle)
	p.idle = p.idle[:0]
	return p.leaving[n:]
}

// Empty reports whether nothing is there or under way: no connection, no
// connect, nobody who waits. A retired pool that is empty can be forgotten.
func (p *Pool[C, W]) Empty() bool { return p.Open()+p.dialing+p.line.count+p.fresh.count == 0 }

// Dialled takes in a new connection. It is busy with the waiter returned; when
// nobody waits any more it is idle, or leaving.
func (p *Pool[C, W]) Dialled(c C) *Waiter[W] {
	p.dialing--
	w := p.next()
	if w == nil {
		p.rest(c)
		return nil
	}
	p.busy++
	return w
}

// DialFailed is told that a dial has come to nothing. It returns the waiter
// that is to be told, if any; others have dials of their own under way, or get
// them now: dial says that one more is to be started.
func (p *Pool[C, W]) DialFailed() (w *Waiter[W], dial bool) {
	p.dialing--
	return p.next(), p.dialMore()
}

// next takes the next out of the lines, those who wait for a new connection first.
func (p *Pool[C, W]) next() *Waiter[W] {
	if w := p.fresh.take(); w != nil {
		return w
	}
	return p.line.take()
}

// Lost is told that a connection is gone: a busy one, or one that is idle or
// leaving, which is taken out. dial says that one is to be dialled in its
// place, for somebody who waits.
func (p *Pool[C, W]) Lost(c C) (dial bool) {
	if !remove(&p.idle, c) && !remove(&p.leaving, c) {
		p.busy--
	}
	return p.dialMore()
}

// remove takes c out of the list, from whose end it is likely not far.
func remove[C comparable](list *[]C, c C) bool {
	for i := len(*list) - 1; i >= 0; i-- {
		if (*list)[i] == c {
			*list = slices.Delete(*list, i, i+1)
			return true
		}
	}
	return false
}

func (p *Pool[C, W]) dialMore() bool {
	if !p.wantsDial() {
		return false
	}
	p.dialing++
	return true
}

// Cancel takes w out of the line.
func (p *Pool[C, W]) Cancel(w *Waiter[W]) {
	if w.line != nil {
		w.leave()
	}
}

// Open is how many connections there are: idle, busy and leaving.
func (p *Pool[C, W]) Open() int { return p.idleOrBusy() + len(p.leaving) }

func (p *Pool[C, W]) idleOrBusy() int { return len(p.idle) + p.busy }

// Idle, Busy and Connecting are how many there are of each kind.
func (p *Pool[C, W]) Idle() int       { return len(p.idle) }
func (p *Pool[C, W]) Busy() int       { return p.busy }
func (p *Pool[C, W]) Connecting() int { return p.dialing }

// Streams is how many places for streams are taken.
func (p *Pool[C, W]) Streams() int { return p.streams }

// InFlight is how many requests are at the target or wait for it.
func (p *Pool[C, W]) InFlight() int { return p.busy + p.line.count + p.fresh.count }

// A fifo is a list of waiters, first in, first out.
type fifo[W any] struct {
	first, last *Waiter[W]
	count       int
}

func (f *fifo[W]) add(w *Waiter[W]) {
	if w.line != nil {
		panic("bug: a waiter stands in two lines")
	}
	w.prev, w.line = f.last, f
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
	f := w.line
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
	w.next, w.prev, w.line = nil, nil, nil
	f.count--
}
