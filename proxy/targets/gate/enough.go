package gate

import (
	"math"
	"time"
)

const (
	// If a look finds at least enoughPart of the answers per second that came before it, although
	// half as many are in flight, the limit stays near that number: enoughRoom times it.
	enoughPart, enoughRoom = .8, 1.3
	// enoughSlower is how much slower the target must seem to be. Less does little harm, and by
	// chance a look often finds as many answers.
	enoughSlower = 2.5
	// Many in flight are more than enoughMany times as many as when answer times were calm.
	enoughMany = 3
	// A look that finds fewer allows enoughMore times as many from then on.
	enoughMore = 1.2
	// With enoughOther times as many answers per second, or enoughPart of them, the target is not
	// what it was, and the number no longer holds.
	enoughOther = 1.4
)

// enough is how many requests in flight keep a target busy that has no queue. Where processors
// are shared by all requests, every answer time grows with the number in flight, as if the target
// had become slower, and the limit would follow without end. What distinguishes it: with fewer in
// flight, as many answers come.
type enough struct {
	most   float64 // in flight; 0: not known
	before float64 // answers per second before the look
	rate   float64 // and with the new limit; 0: not known yet
}

// looked learns from a look that ends. It reports whether the limit stays near that number.
func (g *Gate) looked(now time.Time, r *reading) bool {
	p := &g.probe
	if r.little() < enoughPart*p.rate {
		g.enough.most *= enoughMore
		return false
	}
	if p.slower < enoughSlower || p.limit <= enoughMany*g.calm.few || g.calm.known < knownStep || now.Sub(g.bound) < probeMin {
		return false
	}
	g.enough = enough{most: enoughRoom * r.mean, before: p.rate}
	return true
}

// bound returns the upper bound of a limit that binds.
func (e *enough) bound(r *reading) float64 {
	if e.most == 0 {
		return math.Inf(1)
	}
	if !r.long {
		return e.most
	}
	rate := r.little()
	if e.rate == 0 && rate >= enoughPart*e.before {
		e.rate = rate
	}
	if rate > enoughOther*e.rate || rate < enoughPart*e.rate {
		e.most = 0
		return math.Inf(1)
	}
	return e.most
}
