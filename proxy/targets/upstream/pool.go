package upstream

import (
	"slices"

	"weir/internal/net/share"
)

// A Pool keeps the connections (C) of one loop to one target, and the queue of those (W)
// that wait for one. Idle connections are used last in, first out, so that the others can
// age and be closed.
//
// A client that sends many requests at once delays its own: connections go in turn to the waiting client that
// has the fewest (max-min fairness) and to whoever has waited longest. One client leaves an
// eighth of the connections to others, if there are at least eight: a further request of it waits behind all
// others until fewer connections are in use. Clients are counted by hash, in a few slots, which costs little.
// A client whose slot is also that of a client with many requests waits behind others as well.
//
// A connection that the pool has no room for leaves it: it is not handed out, counts as
// open, and must be closed by the caller (see Leaving).
//
// Owned by its loop.
type Pool[C comparable, W any] struct {
	most       int // bound on connections, open or being dialled
	streamsMax int // bound on those that carry streams
	waitMax    int // bound on waiters

	idle    []C
	busy    int
	streams share.Usage // places taken by connections used for long
	later   int         // of these, those that are only reserved
	leaving []C         // to be closed, not lost yet
	retired bool
	dialing int
	queue   lines[W]     // wait for any connection
	fresh   fifo[W]      // wait for a new one
	behind  fifo[W]      // wait until fewer connections are held
	holds   [slots]int32 // how many of held are of the clients in a slot
}

// slots is the number of slots by which clients are counted.
const slots = 512

// NewPool returns a Pool of at most that many connections, of which streamsMax may carry
// streams, and at most waitMax waiters.
func NewPool[C comparable, W any](most, streamsMax, waitMax int) *Pool[C, W] {
	return &Pool[C, W]{most: most, streamsMax: streamsMax, waitMax: waitMax}
}

// An AcquireResult is the result of Acquire.
type AcquireResult uint8

const (
	// Ready: an idle connection is returned; it is busy now.
	Ready AcquireResult = iota
	// Wait: the waiter is in the queue.
	Wait
	// WaitAndDial: likewise, and the caller must dial one more connection.
	WaitAndDial
	// Full: the queue is full.
	Full
)

// Acquire requests a connection for w. fresh excludes connections that have served
// before, because such a one has just failed or may be closing.
func (p *Pool[C, W]) Acquire(w *Waiter[W], fresh bool) (c C, g AcquireResult) {
	behind := !fresh && !p.mayHold(w)
	if n := len(p.idle); n > 0 && !fresh && !behind && (p.queue.count == 0 || p.few(w) || !p.hasRoom()) {
		c = p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.busy++
		p.hold(w)
		return c, Ready
	}
	switch {
	case p.Waiting() >= p.waitMax, behind && p.behind.count >= p.waitMax-p.waitMax/others:
		return c, Full
	case behind:
		p.behind.add(w)
	case fresh:
		p.hold(w)
		p.fresh.add(w)
	default:
		p.hold(w)
		p.queue.add(w)
	}
	if p.dialMore() {
		return c, WaitAndDial
	}
	return c, Wait
}

// others is the reciprocal of the part of the connections, and of the places to wait for one, that
// one client leaves to others.
const others = 8

// alone returns how many connections one client may hold.
func (p *Pool[C, W]) alone() int { return p.most - p.most/others }

// mayHold reports whether w need not wait behind others. When only those connections are left
// that a client leaves to others, its client must hold fewer than are left. A client that holds
// none may have one, as with share.Usage.
func (p *Pool[C, W]) mayHold(w *Waiter[W]) bool {
	held := p.held()
	if held < p.alone() {
		return true
	}
	has := int(p.holds[w.slot])
	return has == 0 || held+has+1 < p.most
}

// hold counts w among those that hold a connection or will get the next.
func (p *Pool[C, W]) hold(w *Waiter[W]) {
	if !w.holds {
		w.holds, w.holdsIn = true, w.slot
		p.holds[w.slot]++
	}
}

// Short returns how many requests in flight are not streams.
func (p *Pool[C, W]) Short() int { return p.InFlight() - p.Streams() }

// Waiting returns how many wait for a connection.
func (p *Pool[C, W]) Waiting() int { return p.queue.count + p.fresh.count + p.behind.count }

// held returns how many connections are in use or intended for waiters, but not for those that
// wait behind others.
func (p *Pool[C, W]) held() int { return p.busy + p.queue.count + p.fresh.count }

// Stream takes a place for w among the connections that are held for long, as by tunnels
// and streams, so that others remain for short exchanges. It returns false if all places
// are taken, or those of w's client. w keeps the place until End.
func (p *Pool[C, W]) Stream(w *Waiter[W]) bool {
	p.reserve(w, false)
	return w.streams
}

// Reserve takes such a place, like Stream, for an exchange that may become a stream. Until Stream it
// is a short one, also if it was a stream before.
func (p *Pool[C, W]) Reserve(w *Waiter[W]) bool {
	p.reserve(w, true)
	return w.streams
}

// reserve takes a place for streams for w, unless it has one; later says that it is only reserved.
func (p *Pool[C, W]) reserve(w *Waiter[W], later bool) {
	if !w.streams && p.streams.AdmitsUntilShort(w.client, 1, int64(p.streamsMax)) {
		w.streams, w.streamsFor = true, w.client
		p.streams.Add(w.client, 1)
	}
	if later = later && w.streams; w.later != later {
		if w.later = later; later {
			p.later++
		} else {
			p.later--
		}
	}
}

// End records that w holds no connection and waits for none, and gives back its place for streams,
// if it has one.
func (p *Pool[C, W]) End(w *Waiter[W]) {
	if w.holds {
		w.holds = false
		p.holds[w.holdsIn]--
	}
	if w.streams {
		p.reserve(w, false)
		w.streams = false
		p.streams.Add(w.streamsFor, -1)
	}
}

// fewTimes is how many times as many connections as a client those that wait must have, so that it keeps its own.
const fewTimes = 8

// few reports whether clients wait that all have many more connections than the client of w. That client then keeps
// an idle connection while the others get theirs by dials. Otherwise each of its requests would wait for a dial.
func (p *Pool[C, W]) few(w *Waiter[W]) bool {
	if p.queue.count == 0 {
		return false
	}
	_, least := p.queue.fewest(&p.holds)
	return fewTimes*(p.holds[w.slot]+1) <= least
}

// Release returns a busy connection that can be reused. by had it, and has been passed to End; it may be nil. If a
// waiter is returned, the connection is busy with it; otherwise it is idle or leaving. A connection beyond the
// bound leaves even if there is a waiter, which gets another one. Otherwise a queue that is
// never empty would keep the connection for ever.
func (p *Pool[C, W]) Release(c C, by *Waiter[W]) *Waiter[W] {
	if p.Usable() > p.most {
		p.busy--
		p.leaving = append(p.leaving, c)
		return nil
	}
	p.busy--
	if p.Waiting() > 0 && (by == nil || p.retired || p.dialing < p.Waiting() || !p.few(by)) {
		if w := p.nextReused(); w != nil {
			p.busy++
			return w
		}
	}
	p.rest(c)
	return nil
}

// rest makes a connection idle if there is room; it is no longer counted.
func (p *Pool[C, W]) rest(c C) {
	if p.retired || p.Usable() >= p.most {
		p.leaving = append(p.leaving, c)
		return
	}
	p.idle = append(p.idle, c)
}

// Leaving reports whether the pool has no room for a connection. Call it if Release or
// Dialled returned nil; if it is true, close the connection, and call Lost as usual.
func (p *Pool[C, W]) Leaving(c C) bool { return slices.Contains(p.leaving, c) }

// Retire ends the pool. It returns the idle connections, which have left it and must be
// closed; the slice is valid until the next call. Busy connections leave when they are
// released and there are no waiters. Waiters are still served, with new connections if
// needed, and so are requests that return for a fresh one.
func (p *Pool[C, W]) Retire() []C {
	p.retired = true
	n := len(p.leaving)
	p.leaving = append(p.leaving, p.idle...)
	clear(p.idle)
	p.idle = p.idle[:0]
	return p.leaving[n:]
}

// Dialled adds a new connection. If a waiter is returned, the connection is busy with it;
// otherwise it is idle or leaving.
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

// DialFailed records a failed dial. It returns the waiter that has failed, if any: the one that has waited
// longest. If dial is true, one more dial must be started for the others. Call Spare afterwards.
func (p *Pool[C, W]) DialFailed() (w *Waiter[W], dial bool) {
	p.dialing--
	switch {
	case p.fresh.count > 0:
		w = p.fresh.take()
	case len(p.idle) > 0 && p.mayServe():
		return nil, false // see Spare
	case p.queue.count > 0:
		w = p.queue.takeFrom(p.queue.oldest())
	default:
		w = p.nextReused()
	}
	return w, p.dialMore()
}

// Spare returns an idle connection, which is now busy, and the waiter that gets it, if one waits without a dial in
// progress; otherwise nil.
func (p *Pool[C, W]) Spare() (c C, w *Waiter[W]) {
	n := len(p.idle)
	if n == 0 || !p.mayServe() || p.dialing >= p.Waiting() {
		return c, nil
	}
	w = p.nextReused()
	c = p.idle[n-1]
	p.idle = p.idle[:n-1]
	p.busy++
	return c, w
}

// next removes and returns the next waiter, first those that wait for a new connection.
func (p *Pool[C, W]) next() *Waiter[W] {
	if w := p.fresh.take(); w != nil {
		return w
	}
	return p.nextReused()
}

// mayServe reports whether there is a next waiter for any connection.
func (p *Pool[C, W]) mayServe() bool {
	return p.queue.count > 0 || p.behind.count > 0 && p.busy < p.alone()
}

// nextReused removes and returns the next waiter for any connection, last those that wait behind.
func (p *Pool[C, W]) nextReused() *Waiter[W] {
	if w := p.queue.take(&p.holds); w != nil || !p.mayServe() {
		return w
	}
	w := p.behind.take()
	if w != nil {
		p.hold(w)
	}
	return w
}

// Lost records that a connection is closed: a busy one, or an idle or leaving one, which
// is removed. If dial is true, another must be dialled for a waiter.
func (p *Pool[C, W]) Lost(c C) (dial bool) {
	if !remove(&p.idle, c) && !remove(&p.leaving, c) {
		p.busy--
	}
	return p.dialMore()
}

// remove removes c from the list; it is probably near the end.
func remove[C comparable](list *[]C, c C) bool {
	for i := len(*list) - 1; i >= 0; i-- {
		if (*list)[i] == c {
			*list = slices.Delete(*list, i, i+1)
			return true
		}
	}
	return false
}

// dialMore counts one more dial, and reports whether the caller must start it: a waiter has
// no dial in progress, and there is room for one. A waiter for a fresh connection gets one
// beyond the bound: it takes the place of the one that failed, or that the caller closes.
func (p *Pool[C, W]) dialMore() bool {
	room := p.hasRoom()
	wanted := p.queue.count + p.fresh.count + min(p.behind.count, max(0, p.alone()-p.held()))
	if p.dialing >= p.fresh.count && (p.dialing >= wanted || !room) {
		return false
	}
	p.dialing++
	return true
}

func (p *Pool[C, W]) hasRoom() bool { return p.Size()+p.dialing < p.most }

// Cancel removes w from the queue.
func (p *Pool[C, W]) Cancel(w *Waiter[W]) {
	if w.queue == nil {
		return
	}
	if w.queue != &p.fresh && w.queue != &p.behind {
		p.queue.count--
	}
	w.leave()
}

// Size returns the number of connections: idle, busy and leaving.
func (p *Pool[C, W]) Size() int { return p.Usable() + len(p.leaving) }

// Usable returns the number of connections that are idle or busy.
func (p *Pool[C, W]) Usable() int { return len(p.idle) + p.busy }

// Idle returns the number of idle connections; Busy and Connecting those in that state.
func (p *Pool[C, W]) Idle() int       { return len(p.idle) }
func (p *Pool[C, W]) Busy() int       { return p.busy }
func (p *Pool[C, W]) Connecting() int { return p.dialing }

// Streams returns how many places for streams are taken, without those that are only reserved.
func (p *Pool[C, W]) Streams() int { return int(p.streams.Total()) - p.later }

// InFlight returns how many requests are at the target or wait for a connection.
func (p *Pool[C, W]) InFlight() int { return p.busy + p.Waiting() }
