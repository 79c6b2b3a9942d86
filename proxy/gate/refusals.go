package gate

import "time"

const (
	// refusedMost is the share of refusals from which the limit falls.
	refusedMost = .05
	// lineMost is the share of requests that found the limit reached from which some
	// always wait for a place. What the target then refuses would otherwise be shed, so
	// that it costs nothing to find out whether a worker is free. seek is how much the
	// limit rises in such a window, and seekRefused while the target refuses requests.
	// yield is by how much it falls when the line has run dry.
	lineMost          = .9
	seek, seekRefused = .2, .02
	yield             = .5
	// helpedMost is the part of the share of refusals that may be left after the limit has
	// fallen: if more is left, it may be a fault, and the limit falls further to find out.
	helpedMost = .6
	// deafMin and deafMax bound how long refusals are ignored that are a fault.
	deafMin, deafMax = 10 * time.Second, 5 * time.Minute
)

// refusals is what is known of a target that refuses requests.
type refusals struct {
	ceiling   float64 // of the limit; rises slowly
	from      float64 // the limit under which the share was measured; 0: there were none
	share     float64
	atWork    float64 // then, of those in flight
	deafUntil time.Time
	deaf      time.Duration
	clean     int // windows in a row without one
}

// judgeRefusals keeps the limit of a target that refuses requests where the line of
// those who wait for a place does not run dry, and reports whether it has moved it.
func (g *Gate) judgeRefusals(now time.Time, span time.Duration) bool {
	w, f := &g.window, &g.refused
	share := 1 - float64(w.goods)/float64(w.n)
	refuses := share > refusedMost && !now.Before(f.deafUntil)
	bound := f.from > 0 && g.limit >= f.ceiling
	if !refuses {
		f.settle(share)
	}
	if span < spanMin || !refuses && !bound {
		return false
	}
	atWork := float64(w.goods) / span.Seconds() * g.slower * g.calm.mean / float64(time.Second)
	helped := share <= helpedMost*f.share
	if refuses && f.from > 0 && g.limit <= .8*f.from && !helped && atWork < .9*f.atWork {
		// As many fail with fewer in flight: a fault.
		f.deaf = min(max(2*f.deaf, deafMin), deafMax)
		f.deafUntil = now.Add(f.deaf)
		f.ceiling = float64(g.cfg.Max)
		g.set(f.from)
		f.from = 0
		return true
	}
	if bound && (helped || !refuses) && float64(w.full) >= lineMost*float64(w.n) && g.look.Waiting <= queueMost && g.probe.limit == 0 {
		return g.seek(refuses)
	}
	if !refuses {
		return false
	}
	f.clean = 0
	g.first = false
	from := min(g.limit, float64(w.peak))
	if f.from == 0 || from > f.from || g.limit <= .8*f.from {
		f.from, f.share, f.atWork = from, share, atWork
	}
	f.ceiling = max(float64(g.cfg.Min), .6*from, min(from-yield, 1.3*atWork))
	g.fall(now, f.ceiling, Errors)
	return true
}

// seek raises the limit where the target's refusals have put it.
func (g *Gate) seek(refuses bool) bool {
	by := seek
	if refuses {
		by = seekRefused
	}
	g.refused.ceiling += by
	g.set(g.refused.ceiling)
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
		f.from, f.deaf = 0, 0
	}
}
