package serve

import (
	"slices"
	"time"
)

// How much evidence a jump of time needs; see the package comment.
const (
	jumpMin     = time.Hour       // what is further ahead of the newest is a jump
	crowdMin    = 5 * time.Minute // … while other proxies report
	jumpSpans   = 10              // intervals that are no jump, however long they are
	jumpAbsurd  = 35 * 24 * time.Hour
	oldMax      = time.Minute
	aheadMin    = 2  // snapshots until a jump forward is believed
	aheadMax    = 10 // … with many proxies
	backKnown   = 3  // … back into a time that is known, or of one proxy in even steps
	backUnknown = 10 // … back into a time that is not
	breakMin    = time.Hour
	alike       = 4 // steps are alike that differ by a fourth
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
	// trail is the snapshots that may lead to another time; forward says to which
	// side. Of one that leads back only the newest of each proxy is kept.
	trail   []snapshot
	run     int // how many came one after another
	count   int // how many came
	forward bool
	step    time.Duration // the first of the trail
	even    bool          // all steps are like the first
}

// A view is what the clock needs to know of the core.
type view struct {
	newest time.Time // of all; zero: none yet
	own    time.Time // newest of this proxy; zero: none yet
	parked time.Time // newest of what is set aside; zero: nothing is
	young  bool      // so little is known that the first snapshots may have been wrong
	// others counts the proxies that count, but for some, and says how often the
	// most eager of them reports.
	others func(except func(name string) bool) (n int, shortest time.Duration)
}

// rule takes in a snapshot.
func (c *clock) rule(s *snapshot, v view) ruling {
	if v.newest.IsZero() {
		c.forget()
		return rulingNow
	}
	n, shortest := v.others(func(name string) bool { return name == s.instance })
	reach := max(jumpMin, jumpSpans*s.interval)
	ahead := reach
	if n > 0 { // who is alone with its time is not to silence the others
		ahead = max(crowdMin, jumpSpans*shortest)
	}
	switch {
	case s.at.Sub(v.newest) > ahead:
		return c.ahead(s, v, n == 0)
	case !v.own.IsZero() && v.own.Sub(s.at) > oldMax || v.newest.Sub(s.at) > reach:
		return c.back(s, v, reach, n == 0)
	case !v.own.IsZero() && !s.at.After(v.own):
		return rulingLate
	}
	c.interrupt(s)
	return rulingNow
}

// forget gives up what may have led to another time.
func (c *clock) forget() { *c = clock{} }

// interrupt takes in that a proxy is in the time we are in. One snapshot of each
// other proxy is kept, as there may come to be more of them.
func (c *clock) interrupt(s *snapshot) {
	if len(c.trail) == 0 {
		return
	}
	last := c.trail[len(c.trail)-1].at
	var kept []snapshot
	seen := map[string]bool{s.instance: true}
	for _, t := range slices.Backward(c.trail) {
		if !seen[t.instance] && last.Sub(t.at).Abs() <= max(crowdMin, jumpSpans*t.interval) {
			kept = append(kept, t)
		}
		seen[t.instance] = true
	}
	if len(kept) == 0 {
		c.forget()
		return
	}
	slices.Reverse(kept)
	c.trail, c.run = kept, 0
}

// follows says whether s goes on with the trail in that direction.
func (c *clock) follows(s *snapshot, forward bool) bool {
	if len(c.trail) == 0 || c.forward != forward {
		return false
	}
	last := &c.trail[len(c.trail)-1]
	step := s.at.Sub(last.at)
	reach := max(breakMin, jumpSpans*s.interval)
	if s.instance != last.instance { // they report side by side
		return step.Abs() <= reach
	}
	return step > 0 && (step <= reach || forward && step <= jumpAbsurd && c.resembles(step))
}

// resembles says whether a step is like the first of the trail.
func (c *clock) resembles(step time.Duration) bool { return (step - c.step).Abs() <= c.step/alike }

// ahead rules on a snapshot far ahead.
func (c *clock) ahead(s *snapshot, v view, alone bool) ruling {
	if !c.follows(s, true) {
		*c = clock{forward: true, step: s.at.Sub(v.newest)}
	}
	c.trail = append(c.trail, *s)
	c.run++
	c.count++
	if alone && s.at.Sub(v.newest) <= jumpAbsurd { // nobody says otherwise, and there is a way back
		return rulingForward
	}
	if len(c.trail) < aheadMin {
		return rulingAhead
	}
	if before := c.trail[len(c.trail)-2]; c.run >= aheadMin && before.instance == s.instance && s.at.Sub(before.at) > breakMin {
		return rulingForward // it reports seldom: its second step is like the first
	}
	agree, against := c.ballot(v)
	if c.run < min(aheadMin+against, aheadMax) && agree <= against {
		return rulingAhead
	}
	return rulingForward
}

// ballot counts the proxies that are on the trail, and the others.
func (c *clock) ballot(v view) (agree, against int) {
	names := make(map[string]bool)
	for i := range c.trail {
		names[c.trail[i].instance] = true
	}
	against, _ = v.others(func(name string) bool { return names[name] })
	return len(names), against
}

// back rules on a snapshot that is old.
func (c *clock) back(s *snapshot, v view, reach time.Duration, alone bool) ruling {
	refusal := rulingOld
	if v.own.IsZero() || v.own.Sub(s.at) <= oldMax {
		refusal = rulingBehind
	}
	known := continues(s, v.parked) && v.parked.Before(v.newest)
	if v.newest.Sub(s.at) <= reach && !(known && s.at.Sub(v.parked) <= reach) {
		return refusal // its proxy's clock was set, or it is a repetition
	}
	if !c.follows(s, false) {
		*c = clock{}
	}
	c.pace(s)
	c.trail = append(slices.DeleteFunc(c.trail, func(t snapshot) bool { return t.instance == s.instance }), *s)
	c.run++
	c.count++
	need := backUnknown
	if v.young || known || alone && c.even {
		need = backKnown
	}
	if agree, against := c.ballot(v); agree > max(1, against) && c.count >= backKnown && (v.young || known) {
		return rulingBack
	}
	if c.run < need {
		return refusal
	}
	return rulingBack
}

// pace takes in how far s is from the snapshot before it.
func (c *clock) pace(s *snapshot) {
	if c.run == 0 {
		c.even = true
		return
	}
	last := &c.trail[len(c.trail)-1]
	step := s.at.Sub(last.at)
	if c.run == 1 {
		c.step = step
	}
	c.even = c.even && s.instance == last.instance && c.resembles(step)
}

// continues says whether s goes on with what is set aside.
func continues(s *snapshot, parked time.Time) bool {
	return !parked.IsZero() && s.at.Sub(parked) > -oldMax
}
