package gate

import (
	"math"
	"time"
)

const (
	// refusedMost is the share of refusals from which the limit falls, if it is more by
	// refusedNoise standard deviations, so that it is not by chance.
	refusedMost, refusedNoise = .05, 2.
	// rounds is how many times all places are used before more are tried: one, or morePart
	// of them. If requests wait for places, the one that the target then refuses would
	// otherwise be shed.
	rounds, morePart = 3, 1. / 16
	// The limit falls to no less than leastPart of the limit at which refusals began until it
	// is known whether that helps.
	leastPart = .6
	// helpedMost is the part of the share of refusals that may remain after the limit has
	// fallen. If more remains, it may be a fault, and the limit falls further to find out.
	helpedMost = .6
	// ignoreMin and ignoreMax bound how long the refusals of a fault are ignored. The time doubles
	// with each fault. Up to ignoreDoubted it ends early if the target refuses because of too
	// many requests: then there was no fault. Beyond it, the target has a fault and is also
	// overloaded.
	ignoreMin, ignoreMax = 10 * time.Second, 5 * time.Minute
	ignoreDoubted        = 2 * ignoreMin
	// outage is the share of refusals above which the target is down. Any good answer means
	// that the outage is over.
	outage = .9
	// So is one after downRow refusals in a row.
	downRow = 50
	// refusedFew is the share of refusals up to which they are forgotten.
	refusedFew = .01
	// tryMin and tryMax bound the time after which a limit that a few refusals keep down is raised
	// to where they began, for one window. The time doubles with each try.
	tryMin, tryMax = 5 * time.Second, 5 * time.Minute
)

// refusals has what is known about a target that refuses requests.
type refusals struct {
	ceiling      float64   // of the limit
	good         int       // good answers since it was moved, while the gate bound
	lowered      time.Time // when it last fell
	before       float64   // the limit before there were any
	from         float64   // the limit at which share was measured; 0: there were none
	share        float64
	atWork       float64 // how many of those in flight were worked on then
	ignoredUntil time.Time
	ignoredFor   time.Duration
	clean        int           // windows in a row with hardly any refusal
	row          int           // refusals in a row
	kept         float64       // ceiling to be restored after a try; 0: none is under way
	tried        time.Time     // when the last try, or the fall of the limit, began
	tryAfter     time.Duration // from tried to the next; 0: tryMin
}

// count counts refusals in a row.
func (f *refusals) count(a *Response) {
	if f.row++; !a.Refused {
		f.row = 0
	}
}

// follow moves the ceiling after an answer of a target that refuses requests: down by one
// place for a refused request that was sent since it last fell, and up when all places have
// been used rounds times.
func (g *Gate) follow(now time.Time, a *Response) {
	f := &g.refused
	switch {
	case f.kept > 0:
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

// ignores reports whether a refusal is one of a target that refuses everything. As long as
// there are no other answers, no time passes for the limit.
func (g *Gate) ignores(now time.Time, at time.Duration, a *Response) bool {
	if f := &g.refused; f.share <= outage || !now.Before(f.ignoredUntil) {
		return false
	}
	if g.window.goods == 0 {
		came := now.Add(-a.Ago)
		g.window.since, g.bound, g.room.relief = at-a.Ago, came, came
	}
	return true
}

// judgeRefusals lowers the limit if the target refuses requests because there are too many,
// and restores it if that has not helped. It reports whether it has moved the limit.
func (g *Gate) judgeRefusals(now time.Time, span time.Duration) bool {
	w, f := &g.window, &g.refused
	share := 1 - float64(w.goods)/float64(w.n)
	g.state.Down = share > outage
	crowded := w.crowded()
	if (crowded && f.ignoredFor <= ignoreDoubted || f.share > outage && w.goods > 0) && now.Before(f.ignoredUntil) {
		f.ignoredUntil = now // it was no fault, or is over: refusals are informative again
	}
	if share <= refusedMost+refusedNoise*math.Sqrt(refusedMost/float64(w.n)) || now.Before(f.ignoredUntil) {
		return g.judgeFew(now, share)
	}
	if span < spanMin {
		return false
	}
	if f.kept > 0 { // the limit is what keeps them few
		return g.triedInVain(now)
	}
	atWork := float64(w.goods) / span.Seconds() * g.real(g.slower*g.baseline.mean).Seconds()
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
	f.from, f.share, f.atWork, f.tried = from, share, atWork, now
	f.ceiling = max(float64(g.cfg.Min), math.Ceil(max(leastPart*from, min(from-1, 1.3*atWork))))
	g.fall(now, f.ceiling, Errors)
	return true
}

// judgeFew forgets refusals slowly when there are hardly any. A few may be those of an overload, kept
// few by the limit, or have nothing to do with it, such as those of a limit that the application has
// for each of its users; now and then it tries a higher limit to find out. It reports whether it has
// moved the limit.
func (g *Gate) judgeFew(now time.Time, share float64) bool {
	f := &g.refused
	switch {
	case f.kept > 0 && float64(g.window.peak) <= f.kept: // so many were never tried
		return g.triedInVain(now)
	case f.kept > 0: // there are only a few with the limit at which there were many: a fault
		f.from, f.kept, f.ceiling, f.tryAfter = 0, 0, float64(g.cfg.Max), 0
		f.ignoredFor = min(max(2*f.ignoredFor, ignoreMin), ignoreDoubted)
		f.ignoredUntil = now.Add(f.ignoredFor)
	}
	if share <= refusedFew {
		if f.clean++; f.clean > 100 {
			f.from, f.ignoredFor, f.tryAfter = 0, 0, 0
		}
		f.ceiling = min(f.ceiling+max(.1, .005*f.ceiling), float64(g.cfg.Max))
		return false
	}
	f.clean = 0
	if f.from == 0 {
		f.ceiling = float64(g.cfg.Max)
		return false
	}
	f.tryAfter = max(f.tryAfter, tryMin)
	if now.Sub(f.tried) < f.tryAfter || f.ceiling >= f.from || g.limit < f.ceiling || g.probe.limit > 0 {
		return false // or it is not the ceiling that keeps the limit down
	}
	f.kept, f.ceiling, f.tried, f.tryAfter = f.ceiling, f.from, now, min(2*f.tryAfter, tryMax)
	g.set(f.from)
	return true
}

// triedInVain ends a try without a higher limit. It reports true: the limit has moved.
func (g *Gate) triedInVain(now time.Time) bool {
	f := &g.refused
	f.ceiling, f.kept, f.lowered = f.kept, 0, now
	g.set(g.limit)
	return true
}
