package wire

import (
	"hash/maphash"
	"time"

	"weir/proxy/decide"
	"weir/proxy/gate"
	"weir/proxy/upstream"
)

// matched counts what the rules say about a request before the store is asked, and
// notes where the request goes.
func (s *side) matched(now time.Time, c *client, m *decide.Case) {
	s.tally.Matched(now, m)
	switch {
	case m.Lacks != nil:
		s.counts.Traffic.Decided(false)
	case s.front.cfg.Gate.Mode != gate.Off:
		s.goes(c, m)
	}
}

// goes notes where a request goes and whose it is, for gate and line: the key of the
// first rule that tells requests apart, else the client's address.
func (s *side) goes(c *client, m *decide.Case) {
	c.route, c.class = s.routes.Of(m.Policy.Rules, m.Hits), s.classes.Of(m.Policy.Rules, m.Rank, m.Hits)
	for i := range m.Hits {
		if key := m.Hits[i].Key; len(key) > 0 {
			c.wait.For(maphash.Bytes(s.front.seed, key), m.Rank)
			return
		}
	}
	if m.Client != c.from {
		b := m.Client.As16()
		c.from, c.fromHash = m.Client, maphash.Bytes(s.front.seed, b[:])
	}
	c.wait.For(c.fromHash, m.Rank)
}

// binds reports whether the gate's limit is below the number of connections. Otherwise it
// bounds nothing: whoever finds them all taken waits for one.
func (t *target) binds() bool { return t.gated() && t.gate.Limit() < t.side.front.connsPerTarget }

// free is how many places the loop may have at the target, below 0 when the limit has
// fallen. Each loop may have one, whatever others have.
func (t *target) free() int {
	free := t.side.connsPerTarget - t.pool.InFlight()
	if !t.gated() {
		return free
	}
	if free = min(free, t.gate.Free()); free <= 0 && t.pool.Short() == 0 {
		return 1
	}
	return free
}

// rival is the target on the loop whose line is to have the next place there instead of
// somebody of that rank on this one; nil: there is none. With upstream.Ranks nobody of this
// loop wants the place.
func (t *target) rival(rank int) (r *target) {
	sides := t.side.front.sides
	t.side.line.Rival(rank, func(loop int) bool {
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
func (t *target) room() bool { return !t.enforced() || !t.binds() || t.free() > 0 }

// free is how many places are free at all targets that requests may go to.
func (s *side) free(now time.Time) (n int) {
	for at := range s.targets.Open(now) {
		n += max(0, at.Value.free())
	}
	return n
}

// admits reports whether the exchange of c may go to the target now. Nobody waits for a
// connection there before those in the line.
func (t *target) admits(now time.Time, c *client) bool {
	if line := t.side.line; line.Len() > 0 || t.enforced() && t.binds() {
		return t.free() > 0 && t.rival(c.wait.Rank()) == nil && line.Admits(now, &c.wait)
	}
	return true
}

// over notes that an exchange of c has no place at the target any more.
func (t *target) over(now time.Time, c *client) {
	t.pool.EndStream(&c.wait)
	t.side.line.Give(now, &c.wait)
}

// await has c wait for a place at any target, for a while. The one chosen has none for
// it, so there is none.
func (c *client) await(now time.Time) {
	t := c.at.Value
	out := c.side.line.Join(now, &c.wait)
	if out == &c.wait {
		c.shed(now)
		return
	}
	c.at.Abandoned(c.mark) // it is no probe as long as it waits
	c.tried.Undo()
	c.gateBy, c.lineAt = true, now
	t.waits(now, 1)
	if c.side.line.Ask(true) { // from now on other loops tell of places; there may be one since the target was chosen
		for at := range c.side.targets.Open(now) {
			if at.Value.free() > 0 {
				at.Value.freed()
			}
		}
	}
	c.side.lookAfterLine(now)
	c.wake(now.Add(t.side.front.cfg.Gate.Wait - c.waited))
	if out != nil {
		out.Value.shedFrom(now)
	}
}

// shedFrom sheds an exchange that was in line.
func (c *client) shedFrom(now time.Time) {
	c.left(now)
	c.shed(now)
	c.apply(now)
}

// left notes that c waits for a place no more.
func (c *client) left(now time.Time) {
	t := c.at.Value
	c.gateBy = false
	c.waited += now.Sub(c.lineAt)
	t.waits(now, -1)
	c.alarm.Stop()
}

// waits notes that so many more were to go to the target and wait.
func (t *target) waits(now time.Time, more int) {
	t.waiting += more
	t.gate.Waiting.Add(int64(more))
	t.note(now)
}

// freed has those who wait on the loop served at the target, where a place may be free,
// after the call that is under way: the session may be in the middle of something. Safe
// for concurrent use.
func (t *target) freed() {
	if !t.called.Swap(true) {
		t.side.loop.Post(t.serve)
	}
}

// serveLine is what freed has called.
func (t *target) serveLine(now time.Time) {
	t.called.Store(false)
	t.note(now) // other loops see whether this one sends requests to the target
	t.serveNext(now)
}

// cancel takes c out of the line that it waits in and gives its target up.
func (c *client) cancel(now time.Time) {
	if c.gateBy {
		c.side.line.Leave(&c.wait)
		c.left(now)
	} else {
		c.at.Value.pool.Cancel(&c.wait)
		defer c.at.Value.freed()
	}
	c.leave()
}

// gateLate has the exchange, if it still waits for a place, wait on while there is only a
// crowd, and sheds it otherwise.
func (c *client) gateLate(now time.Time) bool {
	if !c.gateBy {
		return false
	}
	line := c.side.line
	until, ok := line.Late(now, &c.wait, c.side.front.cfg.Gate.Wait)
	if until = until.Add(-c.waited); ok && until.After(now) {
		c.wake(until)
		return true
	}
	line.Leave(&c.wait)
	c.shedFrom(now)
	return true
}

// serveNext gives the places that there are at the target to those who wait for one, on
// the loop whose turn it is.
func (t *target) serveNext(now time.Time) {
	s := t.side
	for served := true; !s.line.Idle() && t.free() > 0; {
		rank := upstream.Ranks
		if served && s.targets.Takes(now, t.at) {
			rank = s.line.Rank()
		}
		if r := t.rival(rank); r != nil {
			r.freed()
			return
		}
		if rank == upstream.Ranks {
			return
		}
		w := s.line.Next(now)
		if served = w != nil; !served {
			continue
		}
		c := w.Value
		c.left(now)
		t.begin()
		s.targets.Assign(now, t.at, &c.tried)
		c.at, c.mark, c.full = t.at, t.at.Mark(), true
		c.enter(now, false)
		c.apply(now)
	}
}

// lineLook is how often it is looked whether somebody in the line may have a place because
// of nothing but time: an ejection has ended, or places are kept no more.
const lineLook = 100 * time.Millisecond

// lookAfterLine has that done as long as somebody waits.
func (s *side) lookAfterLine(now time.Time) {
	if s.lineLooks || s.line.Len() == 0 {
		return
	}
	if s.lineAlarm == nil {
		s.lineAlarm = s.loop.NewAlarm(func(now time.Time) {
			s.lineLooks = false
			s.line.Ask(s.line.Len() > 0)
			for at := range s.targets.Open(now) {
				at.Value.serveNext(now)
			}
			s.lookAfterLine(now)
		})
	}
	s.lineLooks = true
	s.lineAlarm.Set(now.Add(lineLook))
}
