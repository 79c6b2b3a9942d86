package gate

import (
	"math"
	"time"
)

const (
	// refusedMost is the share of refusals from which the limit falls.
	refusedMost = .05
	// rounds is how many times all places are used until more are tried, one or this part.
	// Where requests wait, the target refuses one that would otherwise be shed.
	rounds, morePart = 3, 1. / 16
	// leastPart is the part of where refusals began below which the limit does not fall
	// before it is known whether that helps.
	leastPart = .6
	// helpedMost is the part of the share of refusals that may be left after the limit has
	// fallen: if more is left, it may be a fault, and the limit falls further to find out.
	helpedMost = .6
	// ignoreMin and ignoreMax bound how long the refusals of a fault are ignored. The time doubles
	// with each fault. Up to ignoreDoubted it ends when the target refuses because of too many
	// requests: then there was no fault. Beyond it, the target has a fault and is overloaded.
	ignoreMin, ignoreMax = 10 * time.Second, 5 * time.Minute
	ignoreDoubted        = 2 * ignoreMin
	// outage is the share of refusals above which the target is down: then any good answers mean
	// that this is over.
	outage = .9
)

// refusals is what is known of a target that refuses requests.
type refusals struct {
	ceiling      float64   // of the limit
	good         int       // answers since it was moved, while the gate bound
	lowered      time.Time // when it was moved down last
	before       float64   // the limit before there were any
	from         float64   // the limit under which the share was measured; 0: there were none
	share        float64
	atWork       float64 // then, of those in flight
	ignoredUntil time.Time
	ignoredFor   time.Duration
	clean        int // windows in a row without one
}

// follow moves the ceiling with an answer of a target that refuses requests: down by one
// place for a request that was sent since it was moved down last, and up when all places
// have been used some times.
func (g *Gate) follow(now time.Time, a *Answer) {
	f := &g.refused
	switch {
	case a.Refused && !a.Sent.Before(f.lowered):
		if to := math.Ceil(max(leastPart*f.from, float64(g.cfg.Min), f.ceiling-1)); to < f.ceiling {
			f.ceiling, f.good, f.lowered = to, 0, now
			g.set(g.limit)
		}
	case !a.Refused && a.Full && g.limit >= f.ceiling:
		if f.good++; float64(f.good) >= rounds*f.ceiling {
			f.ceiling, f.good = math.Floor(f.ceiling)+math.Ceil(f.ceiling*morePart), 0
			g.set(f.ceiling)
		}
	}
}

// ignores reports whether an answer that began at some time is a refusal of a target that
// refuses everything. As long as there is nothing else, no time passes for the limit.
func (g *Gate) ignores(now, at time.Time, a *Answer) bool {
	if f := &g.refused; !a.Refused || f.share <= outage || !now.Before(f.ignoredUntil) {
		return false
	}
	if g.window.goods == 0 {
		g.window.since, g.bound, g.room.relief = at, at, at
	}
	return true
}

// judgeRefusals says whether the target refuses requests as there are too many, and reports
// whether it has moved the limit.
func (g *Gate) judgeRefusals(now time.Time, span time.Duration) bool {
	w, f := &g.window, &g.refused
	share := 1 - float64(w.goods)/float64(w.n)
	g.look.Down = share > outage
	crowded := w.crowded()
	if (crowded && f.ignoredFor <= ignoreDoubted || f.share > outage && w.goods > 0) && now.Before(f.ignoredUntil) {
		f.ignoredUntil = now // it was none, or is over: refusals say something new
	}
	if share <= refusedMost || now.Before(f.ignoredUntil) {
		f.settle(share)
		return false
	}
	if span < spanMin {
		return false
	}
	atWork := float64(w.goods) / span.Seconds() * g.slower * g.calm.mean / float64(time.Second)
	fallen := g.limit <= math.Ceil(leastPart*f.from)
	if f.from > 0 && fallen && !crowded && share > helpedMost*f.share && atWork <= .9*f.atWork {
		// As many fail with fewer in flight: a fault.
		f.ignoredFor = min(max(2*f.ignoredFor, ignoreMin), ignoreMax)
		f.ignoredUntil = now.Add(f.ignoredFor)
		f.ceiling = float64(g.cfg.Max)
		to := f.from
		if share > outage { // refusals are quick: few were in flight
			to = f.before
		}
		f.from, f.share = 0, share
		g.set(to)
		return true
	}
	f.clean = 0
	if f.from > 0 && !fallen {
		return false
	}
	g.first = false
	if f.from == 0 {
		f.before = g.limit
	}
	from := min(g.limit, float64(w.peak))
	f.from, f.share, f.atWork = from, share, atWork
	f.ceiling = max(float64(g.cfg.Min), math.Ceil(max(leastPart*from, min(from-1, 1.3*atWork))))
	g.fall(now, f.ceiling, Errors)
	return true
}

// settle forgets refusals slowly.
func (f *refusals) settle(share float64) {
	if share > .01 {
		f.clean = 0
		return
	}
	f.clean++
	f.ceiling += max(.1, .005*f.ceiling)
	if f.clean > 100 {
		f.from, f.ignoredFor = 0, 0
	}
}
