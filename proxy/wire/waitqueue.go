package wire

import (
	"hash/maphash"
	"slices"
	"time"

	"weir/internal/net/share"
	"weir/proxy/rules/decide"
	"weir/proxy/targets/gate"
	"weir/proxy/targets/gates"
	"weir/proxy/targets/upstream"
)

// matched counts the matching rules of a request, and notes the request's route.
func (s *loopServer) matched(now time.Time, c *client, m *decide.Evaluation) {
	s.tally.Matched(now, m)
	switch {
	case m.RefusedBy != nil:
		s.counts.Traffic.Decided(false)
	case s.shared.cfg.Gate.Mode != gate.Off:
		s.noteRoute(c, m)
	}
}

// noteRoute notes the route of a request and, for gate and queue, whom it is for: the client, and
// within it the key of the first rule that has one. Deliveries rank below all live requests.
func (s *loopServer) noteRoute(c *client, m *decide.Evaluation) {
	c.route, c.class = 0, gates.ClassDefault
	if len(m.Matched) > 0 {
		c.route, c.class = s.routes.NumberOf(m.Policy.Rules, m.Matched), s.classes.ClassOf(m.Policy.Rules, m.Rank, m.Matched)
	}
	rank := min(m.Rank, upstream.BackgroundPriority-1)
	if c.peer.background() {
		rank, c.class = upstream.BackgroundPriority, s.shared.classes.Deferred()
	}
	c.wait.Ranked(rank)
	if m.Client != c.from {
		c.from, c.fromHash = m.Client, share.ClientOf(m.Client).Hash(s.shared.seed)
	}
	key := uint64(0)
	for i := range m.Matched {
		if of := m.Matched[i].Key; len(of) > 0 {
			key = maphash.Bytes(s.shared.seed, of)
			break
		}
	}
	c.wait.SetHashes(c.fromHash, key, uint8(c.route))
}

// binds reports whether the gate's limit is below the number of connections. Otherwise
// the connections are the tighter bound, and requests wait for one of those.
func (t *target) binds() bool {
	limit := t.gate.Limit()
	return limit > 0 && limit < t.server.shared.connsPerTarget
}

// bounded reports whether this limit is enforced.
func (t *target) bounded() bool { return t.binds() && t.server.shared.cfg.Gate.Mode == gate.On }

// free returns how many places the loop may still take at the target. It is negative after the
// limit has fallen. A loop that has ejected the target gets no places from the others; it may
// still have one, to test whether the target is back.
func (t *target) free() int {
	inFlight := t.pool.InFlight()
	free := t.server.connsPerTarget - inFlight
	if !t.gated() {
		return free
	}
	places := t.gate.Free()
	if inFlight == 0 && upstream.Status(t.Status.Load()) != upstream.Up {
		places = max(1, places)
	}
	return min(free, places)
}

// places returns how many places the gate has for exchanges that have a connection to the target.
func (t *target) places() int {
	if !t.gated() {
		return t.server.connsPerTarget
	}
	return t.gate.Free()
}

// bound returns the target of the connection that the exchange has before it gets a place: that of an
// upload, or a private one. It cannot go to another target.
func (c *client) bound() *target {
	switch {
	case c.upstream != nil:
		return c.upstream.target
	case c.own != nil:
		return c.own.target
	}
	return nil
}

// rival returns the target on the loop whose queue gets the next place, if that is not
// this loop with a waiter of the given rank; otherwise nil. Rank upstream.PriorityLevels means
// that no waiter on this loop may take the place.
func (t *target) rival(rank int) (r *target) {
	sides := t.server.shared.loops
	t.server.queue.Rival(rank, func(loop int) bool {
		of := (*sides[loop].seen.Load())[t.spec]
		if of == nil || upstream.Status(of.Status.Load()) != upstream.Up {
			return false
		}
		r = of
		return true
	})
	return r
}

// room reports whether one more exchange may go to the target now.
func (t *target) room() bool { return !t.bounded() || t.free() > 0 }

// look returns what the queue has to know of the usable targets.
func (s *loopServer) look(now time.Time) (l upstream.Capacity) {
	for at := range s.targets.Available(now) {
		l.Free += max(0, at.Value.free())
		l.Busy = l.Busy || at.Value.gate.Scarce()
	}
	return l
}

// admits reports whether the exchange of c may go to the target now. It may not overtake
// those in the queue.
func (t *target) admits(now time.Time, c *client) bool {
	queue := t.server.queue
	if queue.Len() == 0 && !t.bounded() {
		return true
	}
	free := t.free()
	if c.bound() != nil {
		free = t.places()
	}
	return free > 0 && (!queue.Contested() || t.rival(c.wait.Rank()) == nil) && queue.Admits(now, &c.wait)
}

// over records that an exchange has given up its place at the target.
func (t *target) over(now time.Time, w *upstream.Waiter[occupant]) {
	t.pool.End(w)
	t.server.queue.Give(now, w)
}

// await makes c wait, for a bounded time, for a place at any target. The chosen target
// has none, so no other target has one either. An exchange that is bound to a connection waits in the
// same queue, but for a place at its own target.
func (c *client) await(now time.Time) {
	t := c.at.Value
	out := c.server.queue.Join(now, &c.wait)
	if out == &c.wait {
		c.shed(now)
		return
	}
	if c.upstream == nil {
		c.at.Abandoned(c.mark) // while it waits it is no probe
	}
	if c.bound() != nil {
		t.bound = append(t.bound, c)
	} else {
		c.tried.Undo()
	}
	c.gateBy, c.queuedAt = true, now
	t.waits(now, 1)
	// other loops now report free places; one may have become free since the target was chosen
	if c.server.queue.Publish() {
		for at := range c.server.targets.Available(now) {
			if at.Value.places() > 0 {
				at.Value.freed()
			}
		}
	}
	c.server.scheduleQueueCheck(now)
	c.wake(now.Add(t.server.shared.cfg.Gate.Wait - c.waited))
	if out != nil {
		out.Value.shedFrom(now)
	}
}

// shedFrom sheds an exchange that was in the queue.
func (c *client) shedFrom(now time.Time) {
	c.left(now)
	c.shed(now)
	c.apply(now)
}

// left records that c no longer waits for a place.
func (c *client) left(now time.Time) {
	t := c.at.Value
	c.gateBy = false
	if i := slices.Index(t.bound, c); i >= 0 {
		t.bound = slices.Delete(t.bound, i, i+1)
	}
	if c.parked {
		c.parked = false
		c.server.parked--
	}
	c.waited += now.Sub(c.queuedAt)
	t.waits(now, -1)
	c.alarm.Stop()
}

// stopWaiting takes c out of the queue.
func (c *client) stopWaiting(now time.Time) {
	c.server.queue.Leave(now, &c.wait)
	c.left(now)
}

// waits adds more to the number of exchanges that chose the target and wait.
func (t *target) waits(now time.Time, more int) {
	t.waiting += more
	t.gate.Waiting.Add(int64(more))
	t.note(now)
}

// freed serves the loop's waiters when a place at the target may have become free. It does so
// after the current call, since the session may be in the middle of an event. Safe for
// concurrent use.
func (t *target) freed() {
	if !t.called.Swap(true) {
		t.server.loop.Post(t.serve)
	}
}

// serveQueue is the function that freed schedules.
func (t *target) serveQueue(now time.Time) {
	t.called.Store(false)
	t.note(now) // other loops see whether this loop uses the target
	t.serveNext(now)
}

// cancel removes c from the queue and gives its target up.
func (c *client) cancel(now time.Time) {
	if c.gateBy {
		c.stopWaiting(now)
	} else {
		c.at.Value.pool.Cancel(&c.wait)
		defer c.at.Value.freed()
	}
	c.leave()
}

// gateLate is called when an exchange has waited its time for a place. If the wait is caused by a
// burst the exchange keeps waiting, otherwise it is shed.
func (c *client) gateLate(now time.Time) bool {
	if !c.gateBy {
		return false
	}
	if queue := c.server.queue; !c.parked {
		until, ok := queue.Late(now, &c.wait, c.server.shared.cfg.Gate.Wait)
		if until = until.Add(-c.waited); ok && until.After(now) {
			c.wake(until)
			return true
		}
		queue.Leave(now, &c.wait)
	}
	c.shedFrom(now)
	return true
}

// serveNext gives free places at the target to waiters, on the loop whose turn it is.
func (t *target) serveNext(now time.Time) {
	s := t.server
	for c := t.nextBound(now); c != nil; c = t.nextBound(now) {
		c.served(now, t)
	}
	for served := true; !s.queue.Idle() && t.free() > 0; {
		rank := upstream.PriorityLevels
		if served && s.targets.Accepts(now, t.at) {
			rank = s.queue.Rank()
		}
		if r := t.rival(rank); r != nil {
			r.freed()
			return
		}
		if rank == upstream.PriorityLevels {
			return
		}
		w := s.queue.Next(now)
		if served = w != nil; !served {
			continue
		}
		switch c, to := w.Value.client, w.Value.bound(); {
		case to == nil:
			c.served(now, t)
		case to.places() > 0:
			c.served(now, to)
		default:
			c.park(now)
		}
	}
}

// nextBound takes the next exchange that is bound to a connection to t out of the queue, if there is a
// place for it. Those whose turn in the queue has come are first. The others have their turns in the
// queue, unless none in it could use a place at t, because all connections are taken.
func (t *target) nextBound(now time.Time) *client {
	if len(t.bound) == 0 || t.places() <= 0 {
		return nil
	}
	i := slices.IndexFunc(t.bound, func(c *client) bool { return c.parked })
	if i < 0 && t.free() <= 0 {
		i = slices.IndexFunc(t.bound, func(c *client) bool { return t.admits(now, c) })
	}
	if i < 0 {
		return nil
	}
	c := t.bound[i]
	t.server.queue.Leave(now, &c.wait)
	return c
}

// park makes c, which has left the queue, wait for the next place at its own target: its turn has come,
// but only another target has a place. It keeps its alarm, and is shed when that rings.
func (c *client) park(now time.Time) {
	c.parked = true
	c.server.parked++
	c.server.scheduleQueueCheck(now)
}

// unbind makes an exchange choose any target that has waited for a place at the target of its private
// connection, which is lost.
func (c *client) unbind(now time.Time) {
	c.stopWaiting(now)
	c.leave()
	c.seek(now, false)
	c.apply(now)
}

// served continues with an exchange that has left the queue, since there is a place at t.
func (c *client) served(now time.Time, t *target) {
	c.left(now)
	c.placed(now, t)
	c.apply(now)
}

// placed gives c the place at t.
func (c *client) placed(now time.Time, t *target) {
	c.answer.Full = true
	switch {
	case c.upstream != nil:
		c.finish(now)
	case c.own != nil:
		if c.chooseOwn(now); c.own == nil { // its target has left the list
			c.seek(now, false)
			return
		}
		c.enter(now, false)
	default:
		t.begin()
		c.server.targets.Assign(now, t.at, &c.tried)
		c.at, c.mark = t.at, t.at.Epoch()
		c.enter(now, false)
	}
}

// queueLook is how often the queue is checked for places that became free only because time
// has passed: an ejection ended, or a reservation expired.
const queueLook = 100 * time.Millisecond

// scheduleQueueCheck schedules this check while there are waiters.
func (s *loopServer) scheduleQueueCheck(now time.Time) {
	if s.queueLooks || s.queue.Len() == 0 && s.parked == 0 {
		return
	}
	if s.queueAlarm == nil {
		s.queueAlarm = s.loop.NewAlarm(func(now time.Time) {
			s.queueLooks = false
			s.queue.Publish()
			s.lengthen(now)
			for at := range s.targets.Available(now) {
				at.Value.serveNext(now)
			}
			s.scheduleQueueCheck(now)
		})
	}
	s.queueLooks = true
	s.queueAlarm.Set(now.Add(queueLook))
}
