package gate

import "time"

const (
	// refusedMost is the share of refusals from which the limit falls.
	refusedMost = .05
	// deafMin and deafMax bound how long refusals are ignored that are a fault.
	deafMin, deafMax = 10 * time.Second, 5 * time.Minute
)

// refusals is what is known of a target that refuses requests.
type refusals struct {
	ceiling   float64 // of the limit; rises slowly
	from      float64 // the limit under which the share was measured; 0: there were none
	share     float64
	rate      float64 // of good answers then
	deafUntil time.Time
	deaf      time.Duration
	clean     int // windows in a row without one
}

// judgeRefusals lowers the limit when the target refuses requests, and reports
// whether it has moved it.
func (g *Gate) judgeRefusals(now time.Time, span time.Duration) bool {
	w, f := &g.window, &g.refused
	share := 1 - float64(w.goods)/float64(w.n)
	if share <= refusedMost || now.Before(f.deafUntil) {
		f.settle(share)
		return false
	}
	if span < spanMin {
		return false
	}
	f.clean = 0
	g.first = false
	rate := float64(w.goods) / span.Seconds()
	if f.from > 0 && g.limit <= .8*f.from && share > .6*f.share && rate < .9*f.rate {
		// As many fail with fewer in flight: a fault.
		f.deaf = min(max(2*f.deaf, deafMin), deafMax)
		f.deafUntil = now.Add(f.deaf)
		f.ceiling = float64(g.cfg.Max)
		g.set(f.from)
		f.from = 0
		return true
	}
	from := min(g.limit, float64(w.peak))
	if f.from == 0 || from > f.from || g.limit <= .8*f.from {
		f.from, f.share, f.rate = from, share, rate
	}
	atWork := rate * g.slower * g.calm.mean / float64(time.Second)
	f.ceiling = max(float64(g.cfg.Min), min(from-1, max(.6*from, 1.3*atWork)))
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
		f.from, f.deaf = 0, 0
	}
}
