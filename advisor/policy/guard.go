package policy

import (
	"math"
	"time"
)

// How the target is.
const (
	stateOK   = "ok"
	stateWarn = "warn" // slower than the SLO, or errors above 1 %
	stateBad  = "bad"  // 1.5 times slower than the SLO, or errors above 5 %
)

const (
	easy       = 0.62 // × SLO: no queue worth mentioning
	badSlow    = 1.5  // × SLO
	badErrors  = 0.05 // share of answers
	warnErrors = 0.01 // share of answers
)

// What is done without a gate.
const (
	stepBold  = 0.25             // up, below what the target is thought to take
	stepShy   = 0.12             // up, beyond it, × (easy − p95 ÷ SLO)
	roomAlone = 1.1              // × proven rate, as far as a limit rises that alone protects the target
	stepBad   = 0.5              // down at most, while the target suffers
	warnCut   = 0.95             // × the limit of a target that gets slow
	drain     = 0.8              // of what the target takes, while a queue is worked off
	trialDeep = 0.4              // the same for slowness
	unmoved   = 0.7              // of the slowness is left: lowering the limit did not help
	restore   = 4                // × the limit in force, up, at most, when it is given back
	hopeless  = 0.5              // share of errors, from which nothing is worked off
	sure      = 0.5              // confidence from which the belief decides
	trialCut  = 0.85             // of what was let in before, from which errors of a calm target tell
	faultLeft = 0.25             // of the errors is left: the fault is over
	gapMax    = 10 * time.Minute // without snapshots, after which what was going on is over
	sloFactor = 3                // how much slower than at low load is still good, when nobody says
	baseClimb = 0.01             // per hour: a base that rises faster would call an overload normal
	baseDoubt = 100              // answers with which a lower p95 is believed by half
)

// A Guard is what is remembered of a target in trouble.
type Guard struct {
	State string  `json:"state"`
	Rest  bool    `json:"rest,omitempty"` // the last snapshot had a cut: this one shows the queue of before
	Trial Trouble `json:"trial"`          // before the first cut
	Last  Trouble `json:"last"`           // before the last
	Fault Fault   `json:"fault"`
}

// Trouble is what a bad snapshot showed. All zero: there is none.
type Trouble struct {
	At       time.Time `json:"at,omitzero"`
	Rate     float64   `json:"rate,omitempty"`     // the limit
	Admitted float64   `json:"admitted,omitempty"` // requests/s
	P95      float64   `json:"p95,omitempty"`      // s
	Errors   float64   `json:"errors,omitempty"`   // share
}

// over ends the episode.
func (g *Guard) over() { g.Rest, g.Trial, g.Last = false, Trouble{}, Trouble{} }

// A Fault is errors that limits do not cure: as many requests fail when fewer are let
// through. While it is active so many errors are overlooked, and nothing is learned
// about the capacity.
type Fault struct {
	Active bool      `json:"active"`
	Since  time.Time `json:"since"`
	Errors float64   `json:"errors,omitempty"` // share
}

// slo is the p95 in seconds that is still good; +Inf while nothing is known.
func (p *Policy) slo() float64 {
	switch {
	case p.set.SLO > 0:
		return p.set.SLO.Seconds()
	case p.st.Base == 0:
		return math.Inf(1)
	}
	return p.st.LearnedSLO()
}

// LearnedSLO is the p95 in seconds that counts as good when nobody says one; 0 while
// nothing is known.
func (s *State) LearnedSLO() float64 { return sloFactor * s.Base }

// baseline follows the p95 at low load: down at once, up slowly.
func (p *Policy) baseline(r reading, elapsed float64) {
	base := &p.st.Base
	switch {
	case r.p95 <= 0 || r.Ended < few || r.Errors > warnErrors:
	case *base == 0:
		*base = r.p95
	case r.p95 < *base:
		*base += (r.p95 - *base) * r.Ended / (r.Ended + baseDoubt)
	default:
		*base = min(r.p95, *base*(1+baseClimb*min(elapsed/3600, 24)))
	}
}

// severity names the state that r shows. Few answers say nothing, and a fault that is
// known counts only where it got worse.
func (p *Policy) severity(r reading) string {
	slow, errors := r.p95/p.slo(), r.Errors
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

// protect finds the limit of a target that nothing else protects.
func (p *Policy) protect(r reading, o Outlook, t *target) {
	g := &p.st.Guard
	switch {
	case g.Rest && g.State != stateOK && r.Errors < hopeless && r.p95 <= 1.2*g.Last.P95 && r.Errors <= 1.2*g.Last.Errors+0.05:
		g.Rest = false
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

// lift raises the limit of a target that is well: boldly to what it is thought to take,
// then in steps that get smaller as its queue grows. When there is a queue, a limit beyond
// what it is known to take falls to that.
func (p *Policy) lift(r reading, o Outlook, t *target) {
	most := max(p.set.CapacityHint, roomAlone*p.st.Proven)
	safe := p.st.Belief.quantile(-1)
	shyly := r.rate * (1 + stepShy*(easy-r.p95/p.slo()))
	switch {
	case p.st.Guard.Fault.Active:
		t.because(BackendFault)
	case r.rate < safe:
		t.raise(r, o, min(most, max(safe, shyly)), stepBold)
	case r.p95 <= easy*p.slo():
		t.raise(r, o, min(most, shyly), stepBold)
	default:
		if p.sure() {
			t.rate = min(r.rate, max(p.st.Capacity.Q80, r.rate*(1-stepDown)))
		}
		t.because(AtCapacity)
	}
}

func (p *Policy) sure() bool { return p.st.Capacity.Confidence >= sure }

// cut lowers the limit of a target in trouble, unless that does not help.
func (p *Policy) cut(r reading, t *target) {
	g := &p.st.Guard
	now := Trouble{r.At, r.rate, r.Forwarded, r.p95, r.Errors}
	switch {
	case g.Trial.At.IsZero():
		g.Trial = now
	case p.isFault(r):
		g.Fault = Fault{Active: true, Since: r.At, Errors: r.Errors}
		p.giveBack(r, t)
		return
	case p.isSlow(r):
		p.st.Base = r.p95
		p.giveBack(r, t)
		return
	}
	g.Rest, g.Last = !r.calm, now
	t.because(Overload)
	takes := drain * min(r.rate, r.Forwarded)
	switch {
	case r.calm: // it refuses what is too much: what it answers is what it takes
		takes = r.good
		if r.good > 0 {
			p.st.Belief.measured(r.good, kneeNoise)
		}
	case p.sure():
		takes = drain * min(r.rate, p.st.Capacity.Q50)
	}
	t.rate = min(warnCut*r.rate, max(takes, r.rate*(1-stepBad)))
}

// giveBack restores the limit of before the first cut: what the cuts taught was wrong.
func (p *Policy) giveBack(r reading, t *target) {
	g := &p.st.Guard
	t.rate = min(max(r.rate, g.Trial.Rate), r.rate*restore)
	t.because(BackendFault)
	p.st.Belief = Belief{}
	if takes := max(roomAlone*p.st.Proven, g.Trial.Admitted); takes > 0 {
		p.st.Belief = Belief{math.Log(takes), hintSpread * hintSpread}
	}
	g.over()
}

// isFault reports whether as many requests of a calm target fail although fewer are let
// through. Of a target that refuses what is too much the good answers stay as many and
// the share of errors falls; of one that is at fault the share stays.
func (p *Policy) isFault(r reading) bool {
	b := &p.st.Guard.Trial
	overload := max(0, 1-b.Admitted*(1-b.Errors)/max(r.Forwarded, 1e-9))
	return b.Errors > badErrors && r.Errors > badErrors && r.calm &&
		r.Forwarded <= trialCut*b.Admitted && r.Errors > (b.Errors+overload)/2
}

// isSlow reports whether answers take as long although far fewer requests are let through,
// for the second time: the target is like that now.
func (p *Policy) isSlow(r reading) bool {
	b := &p.st.Guard.Trial
	return max(r.Forwarded, p.st.Guard.Last.Admitted) <= trialDeep*b.Admitted && b.P95 > p.slo() && r.p95 >= unmoved*b.P95
}

// faultEnds clears the flag when the errors are gone.
func (p *Policy) faultEnds(r reading) {
	if f := &p.st.Guard.Fault; f.Active && r.Ended >= few && r.Errors <= max(warnErrors, faultLeft*f.Errors) {
		*f = Fault{}
	}
}
