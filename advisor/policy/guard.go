package policy

import (
	"cmp"
	"math"
	"time"
)

// The state of the target.
const (
	stateOK   = "ok"
	stateWarn = "warn" // slower than the SLO, or errors above 1 %
	stateBad  = "bad"  // 1.5 times slower than the SLO, or errors above 5 %
)

const (
	easy       = 0.62 // × SLO: no significant queue
	badSlow    = 1.5  // × SLO
	badErrors  = 0.05 // share of answers
	warnErrors = 0.01 // share of answers
)

// Constants for targets without a gate.
const (
	stepBold  = 0.25             // step up while below the expected capacity
	stepShy   = 0.12             // step up beyond it, × (easy − p95 ÷ SLO)
	roomAlone = 1.1              // × proven rate: bound of a limit that alone protects the target
	stepBad   = 0.5              // largest step down while the target suffers
	warnCut   = 0.95             // × the limit of a target that becomes slow
	drain     = 0.8              // of the capacity, while a queue is worked off
	trialDeep = 0.4              // likewise for slowness
	unmoved   = 0.7              // of the slowness remains: lowering the limit did not help
	restore   = 4                // × the limit in force: largest step up when a limit is restored
	hopeless  = 0.5              // share of errors from which nothing is worked off
	trialCut  = 0.85             // of what was admitted before, from which errors of a calm target are conclusive
	faultLeft = 0.25             // of the errors remains: the fault is over
	gapMax    = 10 * time.Minute // without snapshots, after which an OverloadPeriod is over
	sloFactor = 3                // acceptable factor over the p95 at low load, without an SLO
	baseClimb = 0.01             // per hour: a base that rises faster would treat an overload as normal
)

// An OverloadPeriod lasts from the first bad snapshot until the fault that it shows is over.
type OverloadPeriod struct {
	State    string           `json:"state"`
	Skip     bool             `json:"rest,omitempty"` // the last snapshot had a cut, so this one shows the earlier queue
	FirstCut OverloadSymptoms `json:"trial"`          // at the first cut
	Last     OverloadSymptoms `json:"last"`           // at the last cut
	Fault    Fault            `json:"fault"`
}

// OverloadSymptoms is what a bad snapshot showed. The zero value means none.
type OverloadSymptoms struct {
	At       time.Time `json:"at,omitzero"`
	Rate     float64   `json:"rate,omitempty"`     // the limit
	Admitted float64   `json:"admitted,omitempty"` // requests/s
	P95      float64   `json:"p95,omitempty"`      // s
	Errors   float64   `json:"errors,omitempty"`   // share
}

// over ends the period.
func (p *OverloadPeriod) over() {
	p.Skip, p.FirstCut, p.Last = false, OverloadSymptoms{}, OverloadSymptoms{}
}

// A Fault is errors that limits do not reduce: as many requests fail when fewer are
// admitted. While it is active, that share of errors is ignored, and nothing is learned
// about the capacity.
type Fault struct {
	Active bool      `json:"active"`
	Since  time.Time `json:"since"`
	Errors float64   `json:"errors,omitempty"` // share
}

// SLO returns the highest acceptable p95 in seconds; +Inf while it is unknown.
func (p *Policy) SLO() float64 {
	if p.set.SLO > 0 {
		return p.set.SLO.Seconds()
	}
	return sloFactor * cmp.Or(p.st.Base, math.Inf(1))
}

// baseline tracks the p95 at low load: down at once, up slowly.
func (p *Policy) baseline(r reading, elapsed float64) {
	base := &p.st.Base
	switch {
	case r.p95 <= 0 || r.Ended < few || r.Errors > warnErrors:
	case *base == 0 || r.p95 < *base:
		*base = r.p95
	default:
		*base = min(r.p95, *base*(1+baseClimb*min(elapsed/3600, 24)))
	}
}

// severity returns the state that r shows. Few answers are not conclusive, and a known
// fault counts only if it got worse.
func (p *Policy) severity(r reading) string {
	slow, errors := r.p95/p.SLO(), r.Errors
	if f := &p.st.Guard.Fault; f.Active && errors <= 1.5*f.Errors+0.02 {
		errors = 0
	}
	switch {
	case r.Ended < few:
		return stateOK
	case slow > badSlow || errors > badErrors:
		return stateBad
	case slow > 1 || errors > warnErrors:
		return stateWarn
	}
	return stateOK
}

// protect computes the limit of a target without other protection.
func (p *Policy) protect(r reading, o DemandForecast, t *target) {
	g := &p.st.Guard
	switch {
	case g.Skip && g.State != stateOK && r.Errors < hopeless && r.p95 <= 1.2*g.Last.P95 &&
		r.Errors <= 1.2*g.Last.Errors+0.05:
		g.Skip = false
		t.because(Recovering)
	case g.State == stateBad:
		p.cut(r, t)
	case g.State == stateWarn:
		t.rate = warnCut * r.rate
		t.because(Slow)
	default:
		g.over()
		p.lift(r, o, t)
	}
}

// lift raises the limit of a healthy target: quickly up to its expected capacity, then in
// steps that shrink as its queue grows. If there is a queue, a limit beyond its known
// capacity falls to that.
func (p *Policy) lift(r reading, o DemandForecast, t *target) {
	most := max(p.set.CapacityHint, roomAlone*p.st.Proven)
	safe := p.st.Belief.quantile(-1)
	shyly := r.rate * (1 + stepShy*(easy-r.p95/p.SLO()))
	switch {
	case p.st.Guard.Fault.Active || r.Errors > badErrors: // also of answers too few to lower it
		t.because(BackendFault)
	case r.rate < safe:
		t.raise(r, o, min(most, max(safe, shyly)), stepBold)
	case r.p95 <= easy*p.SLO():
		t.raise(r, o, min(most, shyly), stepBold)
	default:
		t.rate = min(r.rate, max(p.st.Capacity.Q80, r.rate*(1-stepDown)))
		t.because(AtCapacity)
	}
}

// cut lowers the limit of a target in trouble, unless that does not help.
func (p *Policy) cut(r reading, t *target) {
	g := &p.st.Guard
	now := OverloadSymptoms{r.At, r.rate, r.Forwarded, r.p95, r.Errors}
	switch {
	case g.FirstCut.At.IsZero():
		g.FirstCut = now
	case p.isFault(r):
		g.Fault = Fault{Active: true, Since: r.At, Errors: r.Errors}
		p.giveBack(r, t)
		return
	case p.isSlow(r):
		p.st.Base = r.p95
		p.giveBack(r, t)
		return
	}
	g.Skip, g.Last = !r.calm, now
	t.because(Overload)
	takes := drain * min(r.rate, r.Forwarded, p.st.Capacity.Q50)
	if r.calm { // it refuses excess load: what it answers is its capacity
		takes = r.good
		if r.good > 0 {
			p.st.Belief.measured(r.good, kneeNoise)
		}
	}
	t.rate = min(warnCut*r.rate, max(takes, r.rate*(1-stepBad)))
}

// giveBack restores the limit from before the first cut, and drops what the cuts taught.
func (p *Policy) giveBack(r reading, t *target) {
	g := &p.st.Guard
	t.rate = min(max(r.rate, g.FirstCut.Rate), r.rate*restore)
	t.because(BackendFault)
	p.st.Belief = Belief{}
	if takes := max(p.st.Proven, g.FirstCut.Admitted); takes > 0 {
		p.st.Belief = Belief{math.Log(takes), hintSpread * hintSpread}
	}
	g.over()
}

// isFault reports whether as many requests of a calm target fail although fewer are
// admitted. If a target refuses excess load, the number of good answers stays and the
// share of errors falls; if it is faulty, the share stays.
func (p *Policy) isFault(r reading) bool {
	b := &p.st.Guard.FirstCut
	overload := max(0, 1-b.Admitted*(1-b.Errors)/max(r.Forwarded, 1e-9))
	return b.Errors > badErrors && r.Errors > badErrors && r.calm &&
		r.Forwarded <= trialCut*b.Admitted && r.Errors > (b.Errors+overload)/2
}

// isSlow reports whether answers take as long although far fewer requests are admitted,
// for the second time: then the target has become slow.
func (p *Policy) isSlow(r reading) bool {
	b := &p.st.Guard.FirstCut
	return max(r.Forwarded, p.st.Guard.Last.Admitted) <= trialDeep*b.Admitted && b.P95 > p.SLO() && r.p95 >= unmoved*b.P95
}

// faultEnds clears the fault when the errors are gone.
func (p *Policy) faultEnds(r reading) {
	if f := &p.st.Guard.Fault; f.Active && r.Ended >= few && r.Errors <= max(warnErrors, faultLeft*f.Errors) {
		*f = Fault{}
	}
}
