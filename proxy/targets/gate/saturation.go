package gate

import "math"

const (
	// If a probe finds at least saturatedPart of the answers per second that came before it, although
	// half as many are in flight, the limit stays near that number: saturatedRoom times it.
	saturatedPart, saturatedRoom = .8, 1.3
	// saturatedSlower is how much slower the target must seem to be, unless some answers take much longer
	// than others. Less does little harm, and by chance a probe often finds as many answers.
	saturatedSlower = 2.5
	// Many in flight are more than saturatedMany times as many as when answer times were calm.
	saturatedMany = 3
	// With saturatedOther times as many answers per second, or saturatedPart of them, the target is not
	// what it was, and the number no longer holds.
	saturatedOther = 1.4
)

// saturation is how many requests in flight keep a target busy that has no queue. Where processors
// are shared by all requests, every answer time grows with the number in flight, as if the target
// had become slower, and the limit would follow without end. What distinguishes it: with fewer in
// flight, as many answers come. The same holds where only some of the requests wait.
type saturation struct {
	most   float64 // in flight; 0: not known
	before float64 // answers per second before the probe
	rate   float64 // and with the new limit; 0: not known yet
}

// probed learns from a probe that ends. It reports whether the limit stays near that number.
func (g *Gate) probed(r *reading) bool {
	p := &g.probe
	if r.little() < saturatedPart*p.rate || p.slower < saturatedSlower && !p.mixed ||
		p.limit <= saturatedMany*g.baseline.few || g.baseline.known < knownStep {
		return false
	}
	g.saturation = saturation{most: saturatedRoom * r.mean, before: p.rate}
	return true
}

// bound returns the upper bound of a limit that binds.
func (e *saturation) bound(r *reading) float64 {
	if e.most == 0 {
		return math.Inf(1)
	}
	if !r.long {
		return e.most
	}
	rate := r.little()
	if e.rate == 0 && rate >= saturatedPart*e.before {
		e.rate = rate
	}
	if rate > saturatedOther*e.rate || rate < saturatedPart*e.rate {
		e.most = 0
		return math.Inf(1)
	}
	return e.most
}
