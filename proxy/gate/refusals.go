package gate

import (
	"math"
	"time"
)

const (
	// refusedMost is the share of refusals from which the limit falls.
	refusedMost = .05
	// lineMost is the share of requests that found the limit reached from which some
	// always wait for a place. What the target then refuses would otherwise be shed, so
	// that it costs little to try tryPart more, or one place. tryMin and tryMax bound the
	// pause after a try; it doubles when the target has refused the try, and falls to a
	// quarter when it has not.
	lineMost       = .9
	tryPart        = 1. / 16
	tryMin, tryMax = 500 * time.Millisecond, 2 * time.Second
	// patienceTry and patienceMore, divided by the limit, are how long a limit stays
	// while the target refuses requests, after a try and otherwise. The gate that tries
	// gives way to the others, and a gate with many places to one with few.
	patienceTry, patienceMore = 800 * time.Millisecond, 4 * time.Second
	// helpedMost is the part of the share of refusals that may be left after the limit has
	// fallen to faultPart: if more is left, it may be a fault.
	helpedMost, faultPart = .6, .6
	// deafMin and deafMax bound how long refusals are ignored that are a fault.
	deafMin, deafMax = 10 * time.Second, 5 * time.Minute
)

// refusals is what is known of a target that refuses requests.
type refusals struct {
	ceiling   float64 // of the limit
	from      float64 // the limit under which the share was measured; 0: there were none
	share     float64
	atWork    float64 // then, of those in flight
	deafUntil time.Time
	deaf      time.Duration
	clean     int       // windows in a row without one
	since     time.Time // when the first window in a row began with too many; zero: the last has not
	falls     int       // of the limit since the last without

	tried bool          // the ceiling was raised, and not lowered since
	next  time.Time     // when to raise it
	pause time.Duration // before that
}

// judgeRefusals keeps the limit of a target that refuses requests as high as it can be
// without that, and reports whether it has moved it, or needs a new window.
func (g *Gate) judgeRefusals(now time.Time, span time.Duration) bool {
	w, f := &g.window, &g.refused
	share := 1 - float64(w.goods)/float64(w.n)
	refuses := share > refusedMost && !now.Before(f.deafUntil)
	switch {
	case !refuses:
		f.settle(share)
	case f.since.IsZero() || now.Before(f.since): // the clock was set back
		f.since = now.Add(-span)
	}
	if span < spanMin || g.probe.limit > 0 {
		return false
	}
	if !refuses {
		waits := float64(w.full) >= lineMost*float64(w.n) && g.look.Waiting <= queueMost
		return f.from > 0 && g.limit >= f.ceiling && waits && g.try(now)
	}
	atWork := float64(w.goods) / span.Seconds() * g.slower * g.calm.mean / float64(time.Second)
	if f.from > 0 && f.ceiling <= faultPart*f.from && share > helpedMost*f.share && atWork < .9*f.atWork {
		// As many fail with fewer in flight: a fault.
		f.deaf = min(max(2*f.deaf, deafMin), deafMax)
		f.deafUntil = now.Add(f.deaf)
		f.ceiling = float64(g.cfg.Max)
		g.set(f.from)
		f.from = 0
		return true
	}
	if f.from == 0 || f.falls >= 2 || 2*w.full <= w.n || now.Sub(f.since) >= f.patience(g.limit) {
		g.refuse(now, share, atWork)
	}
	return true
}

// patience is how long a limit stays while the target refuses requests: another gate of the
// same target may be trying.
func (f *refusals) patience(limit float64) time.Duration {
	if f.tried {
		return time.Duration(float64(patienceTry) / limit)
	}
	return time.Duration(float64(patienceMore) / limit)
}

// refuse lowers the limit.
func (g *Gate) refuse(now time.Time, share, atWork float64) {
	f := &g.refused
	f.since, f.clean = time.Time{}, 0
	f.falls++
	if f.from == 0 { // nobody is trying
		f.falls++
	}
	g.first = false
	from := min(g.limit, float64(g.window.peak))
	if f.from == 0 || from > f.from || g.limit <= faultPart*f.from {
		f.from, f.share, f.atWork = from, share, atWork
	}
	if f.tried {
		f.pause = min(2*f.pause, tryMax)
	}
	f.tried = false
	f.pause = max(f.pause, tryMin)
	f.next = later(now, f.pause)
	f.ceiling = math.Floor(max(float64(g.cfg.Min), .6*from, min(from-1, 1.3*atWork)))
	g.fall(now, f.ceiling, Errors)
}

// try raises the limit when it is time to, and reports whether it did.
func (g *Gate) try(now time.Time) bool {
	f := &g.refused
	if f.tried { // the target has not refused it
		f.tried = false
		f.pause /= 4
		f.next = later(now, f.pause)
	}
	if now.Before(f.next) {
		return false
	}
	f.tried, f.from = true, f.ceiling
	f.ceiling += math.Ceil(tryPart * f.ceiling)
	g.set(f.ceiling)
	return true
}

// later is a time once to twice a pause after now: gates that share a target shall not
// try at the same time.
func later(now time.Time, pause time.Duration) time.Time {
	chance := time.Duration(now.Nanosecond() / 1000 % 1000)
	return now.Add(pause + pause*chance/1000)
}

// settle forgets refusals slowly.
func (f *refusals) settle(share float64) {
	f.since, f.falls = time.Time{}, 0
	if share > .01 {
		f.clean = 0
		return
	}
	if f.clean++; f.clean > 100 {
		f.from, f.deaf = 0, 0
		f.ceiling += max(.1, .005*f.ceiling)
	}
}
