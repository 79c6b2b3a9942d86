package serve

import "time"

// How much evidence a jump of time needs; see the package comment.
const (
	jumpMin     = time.Hour // what is further ahead of the newest is a jump
	jumpSpans   = 10        // intervals that are no jump, however long they are
	oldMax      = time.Minute
	aheadMin    = 2  // snapshots until a jump forward is believed
	aheadMax    = 10 // … with many proxies
	backKnown   = 3  // … back into a time that is known
	backUnknown = 10 // … back into a time that is not
	breakMin    = time.Hour
)

// A ruling is what a clock says of a snapshot.
type ruling uint8

const (
	rulingNow     ruling = iota // it is of the time we are in
	rulingLate                  // it is not newer than its proxy's newest, by less than a minute: nothing to learn
	rulingOld                   // it is older than its proxy's newest
	rulingBehind                // its proxy's clock is far behind the others
	rulingAhead                 // it may begin a time ahead: not believed yet
	rulingForward               // now it is believed; the trail is to be taken in
	rulingBack                  // the time set aside, or an empty one, is to be gone on with
)

// A clock rules which time it is from the snapshots' times alone.
//
// Owned by the core.
type clock struct {
	// trail is the snapshots that may lead to another time, one after another;
	// forward says to which side.
	trail   []snapshot
	count   int // of the trail; of one that leads back only the newest is kept
	forward bool
}

// A view is what the clock needs to know of the core.
type view struct {
	newest time.Time  // of all; zero: none yet
	own    time.Time  // newest of this proxy; zero: none yet
	parked time.Time  // newest of what is set aside; zero: nothing is
	young  bool       // so little is known that the first snapshots may have been wrong
	others func() int // proxies that count, but for this one
}

// rule takes in a snapshot.
func (c *clock) rule(s *snapshot, v view) ruling {
	if v.newest.IsZero() {
		c.forget()
		return rulingNow
	}
	reach := max(jumpMin, jumpSpans*s.interval)
	switch {
	case s.at.Sub(v.newest) > reach:
		return c.ahead(s, min(aheadMin+v.others(), aheadMax))
	case !v.own.IsZero() && v.own.Sub(s.at) > oldMax || v.newest.Sub(s.at) > reach:
		return c.back(s, v, reach)
	case !v.own.IsZero() && !s.at.After(v.own):
		return rulingLate
	}
	c.forget()
	return rulingNow
}

// forget gives up what may have led to another time.
func (c *clock) forget() { c.trail, c.count = nil, 0 }

// follows says whether s goes on with the trail in that direction.
func (c *clock) follows(s *snapshot, forward bool) bool {
	if c.count == 0 || c.forward != forward {
		return false
	}
	last := &c.trail[len(c.trail)-1]
	step := s.at.Sub(last.at)
	if s.instance != last.instance { // they report side by side
		return step.Abs() <= max(breakMin, jumpSpans*s.interval)
	}
	return step > 0 && step <= max(breakMin, jumpSpans*s.interval)
}

// ahead rules on a snapshot far ahead.
func (c *clock) ahead(s *snapshot, need int) ruling {
	if !c.follows(s, true) {
		c.trail, c.count, c.forward = nil, 0, true
	}
	c.trail = append(c.trail, *s)
	c.count++
	if c.count < need {
		return rulingAhead
	}
	return rulingForward
}

// back rules on a snapshot that is old.
func (c *clock) back(s *snapshot, v view, reach time.Duration) ruling {
	refusal := rulingOld
	if v.own.IsZero() || v.own.Sub(s.at) <= oldMax {
		refusal = rulingBehind
	}
	if v.newest.Sub(s.at) <= reach { // its proxy's clock was set, or it is a repetition
		return refusal
	}
	if !c.follows(s, false) {
		c.count, c.forward = 0, false
	}
	c.trail = append(c.trail[:0], *s)
	c.count++
	need := backUnknown
	if v.young || continues(s, v.parked) && v.parked.Before(v.newest) {
		need = backKnown
	}
	if c.count < need {
		return refusal
	}
	return rulingBack
}

// continues says whether s goes on with what is set aside.
func continues(s *snapshot, parked time.Time) bool {
	return !parked.IsZero() && s.at.Sub(parked) > -oldMax
}
