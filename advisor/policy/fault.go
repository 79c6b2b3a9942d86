package policy

import (
	"math"
	"time"
)

// A Fault is trouble that limits do not cure: errors or slowness that have another
// reason than load. While it is active the guard overlooks what it has always
// shown, and slowness teaches nothing about the capacity.
type Fault struct {
	Active bool      `json:"active"`
	Since  time.Time `json:"since"`
	Errors float64   `json:"errors,omitempty"` // share
	P95    float64   `json:"p95,omitempty"`    // s; 0: only errors
}

const (
	faultTests = 3    // reductions that did not help
	faultBites = 0.4  // of the rate before them, let through at the last
	unmoved    = 0.6  // share of the errors that is left when reductions did not help
	unmovedP95 = 0.7  // the same of the p95
	stillBad   = 0.9  // of both since the last reduction: it does not even get better
	faultEnds  = 0.25 // share of the errors that is left when it is over
	newNormal  = time.Hour
)

// isFault says whether a bad snapshot has another reason than load: the target
// fails as quickly as it used to answer although well below its capacity, or
// reductions did not help.
func (p *Policy) isFault(r reading) bool {
	g := &p.st.Guard
	start := &g.Start
	failing := lowest(r.errors, r.n) > badErrors
	calm := r.p95 <= easy*p.slo() && (p.set.SLO > 0 || p.st.Count > firstSnapshots)
	below := p.sure() && r.admitted < 0.7*p.st.Capacity.Q50
	helped := start.Errors > badErrors && r.errors < unmoved*start.Errors ||
		start.P95 > p.slo() && r.p95 < unmovedP95*start.P95
	switch {
	case failing && calm && below:
		return true
	case failing && calm && g.Reductions >= 1:
		return !helped
	}
	stuck := r.errors >= stillBad*g.Last.Errors && r.p95 >= stillBad*g.Last.P95
	return g.Reductions >= faultTests && r.admitted <= faultBites*start.Admitted && !helped && stuck
}

// fault flags it and gives back what was taken.
func (p *Policy) fault(r reading, v *verdict) {
	g := &p.st.Guard
	g.Fault = Fault{Active: true, Since: r.at, Errors: r.errors}
	if r.p95 > p.slo() {
		g.Fault.P95 = r.p95
	}
	v.code = BackendFault
	if g.Reductions > 0 {
		v.restore = g.Start.Rate
		if p.st.LastGood != nil {
			v.restore = min(v.restore, p.st.LastGood.Rate())
		}
		// What the reductions taught was wrong.
		centre := max(1.2*g.Start.Proven, g.Start.Admitted)
		p.st.Belief = newBelief(math.Log(centre), func(x float64) float64 { return normal(x, 0.3) })
	}
	g.Reductions, g.Rest = 0, 0
}

// faultEnds clears the flag when the trouble is gone, or when it has lasted so long
// that it is how the target is now.
func (p *Policy) faultEnds(r reading) {
	f := &p.st.Guard.Fault
	if !f.Active {
		return
	}
	gone := r.errors <= max(warnErrors, faultEnds*f.Errors) && (f.P95 == 0 || r.p95 <= p.slo())
	switch {
	case gone && r.n >= thin/10:
		*f = Fault{}
	case f.P95 > 0 && r.at.Sub(f.Since) >= newNormal:
		*f = Fault{}
		p.st.Slots, p.st.Base, p.st.Belief = nil, 0, Belief{}
	}
}
