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
	stepBold   = 0.25             // up, below what the target is thought to take
	stepShy    = 0.12             // up, beyond it, × (easy − p95 ÷ SLO)
	roomAlone  = 1.1              // × proven rate, as far as a limit rises that alone protects the target
	shy        = 1.0              // deviations below the median that are thought to be safe
	stepDown   = 0.3              // to what the target is known to take
	stepBad    = 0.5              // while it suffers
	warnCut    = 0.95             // × the limit of a target that gets slow
	badCut     = 0.7              // of what was let in, while little is known
	drain      = 0.8              // of what the target takes, at least, while a queue is worked off
	drainSpan  = 0.5              // of an interval, in which that shall be done
	hopeless   = 0.5              // share of errors, from which nothing is worked off
	sure       = 0.5              // confidence from which the belief decides
	trialCut   = 0.85             // of what was let in before, from which errors of a calm target tell
	trialDeep  = 0.4              // the same for slowness
	restore    = 4                // × the limit in force, up, at most, when it is given back
	unmoved    = 0.7              // of the trouble is left: lowering the limit did not help
	faultLeft  = 0.25             // of the errors is left: the fault is over
	faultSpan  = time.Hour        // after which slowness is how the target is now
	gapMax     = 10 * time.Minute // without snapshots, after which what was going on is over
	baseBusy   = 0.7              // of the capacity, from which a p95 is not one at low load
	sloFactor  = 3                // how much slower than at low load is still good, when nobody says
	sloBusy    = 2.2              // the same, while low load has not been seen
	baseClimb  = 0.01             // per hour: a base that rises faster would call an overload normal
	baseNear   = 1.1              // × the base, up to which a p95 is the same
	baseDoubt  = 100              // answers with which a lower p95 is believed by half
	baseErrors = 0.01             // snapshots with more of them say nothing about the base
)

// A Guard is what is remembered of a target in trouble.
type Guard struct {
	State string  `json:"state"`
	Cuts  int     `json:"cuts,omitempty"` // in the present episode
	Rest  bool    `json:"rest,omitempty"` // the last snapshot had a cut: this one shows the queue of before
	Trial Trouble `json:"trial"`          // before the first cut
	Last  Trouble `json:"last"`           // before the last
	Fault Fault   `json:"fault"`
}

// Trouble is what a bad snapshot showed.
type Trouble struct {
	Rate     float64 `json:"rate,omitempty"`     // the limit
	Admitted float64 `json:"admitted,omitempty"` // requests/s
	P95      float64 `json:"p95,omitempty"`      // s
	Errors   float64 `json:"errors,omitempty"`   // share
}

// A Fault is trouble that limits do not cure: as many requests fail, or take as long,
// when fewer are let through. While it is active its kind of trouble is overlooked,
// and nothing is learned about the capacity.
type Fault struct {
	Active bool      `json:"active"`
	Since  time.Time `json:"since"`
	Errors float64   `json:"errors,omitempty"` // share
	P95    float64   `json:"p95,omitempty"`    // s; 0: only errors
}

// lowest is a share's lower bound that chance undercuts one time in six: with few
// requests behind it a share says little.
func lowest(share, n float64) float64 {
	if n < 1 {
		return 0
	}
	return max(0, share-math.Sqrt(share*(1-share)/n)-1/n)
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
// nothing is known. The less load the base was learned under, the surer it is.
func (s *State) LearnedSLO() float64 {
	if s.BaseLoad > baseBusy {
		return sloBusy * s.Base
	}
	return sloFactor * s.Base
}

// baseline follows the p95 at low load: down at once, up slowly.
func (p *Policy) baseline(r reading, elapsed float64) {
	base, load := &p.st.Base, &p.st.BaseLoad
	takes := p.st.Capacity.Q50
	if takes == 0 { // nothing is known yet
		takes = p.set.CapacityHint
	}
	now := min(1, r.admitted/max(takes, 1e-9))
	switch {
	case r.p95 <= 0 || r.answers < few || r.errors > baseErrors:
		return
	case *base == 0:
		*base, *load = r.p95, now
	case r.p95 < *base:
		*base += (r.p95 - *base) * r.answers / (r.answers + baseDoubt)
	default:
		*base = min(r.p95, *base*(1+baseClimb*min(elapsed/3600, 24)))
	}
	if r.p95 < baseNear**base {
		*load = min(*load, now)
	}
}

// severity names the state that r shows, with the doubt that few requests leave. A
// fault that is known counts only where it got worse.
func (p *Policy) severity(r reading) string {
	slow, errors := 0.0, lowest(r.errors, r.answers)
	if r.answers >= 1 {
		slow = r.p95 * math.Exp(-1.5/math.Sqrt(r.answers)) / p.slo()
	}
	if f := &p.st.Guard.Fault; f.Active {
		if errors <= 1.5*f.Errors+0.02 {
			errors = 0
		}
		if f.P95 > 0 && r.p95 <= 1.5*f.P95 {
			slow = 0
		}
	}
	switch {
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
	case g.Rest && g.State != stateOK && r.errors < hopeless && r.p95 <= 1.2*g.Last.P95 && r.errors <= 1.2*g.Last.Errors+0.05:
		g.Rest = false
		t.because(Recovering)
	case g.State == stateBad:
		p.cut(r, t)
	case g.State == stateWarn:
		t.rate = warnCut * r.rate
		t.because(Slow)
	default:
		g.Cuts, g.Rest = 0, false
		p.lift(r, o, t)
	}
}

// lift raises the limit of a target that is well: boldly to what it is thought to take,
// then in steps that get smaller as its queue grows. When there is a queue, a limit beyond
// what it is known to take falls to that.
func (p *Policy) lift(r reading, o Outlook, t *target) {
	c := &p.st.Capacity
	safe := p.st.Belief.quantile(-shy)
	most := max(p.set.CapacityHint, roomAlone*p.proven())
	shyly := r.rate * (1 + stepShy*(easy-r.p95/p.slo()))
	switch {
	case p.st.Guard.Fault.Active:
		t.because(BackendFault)
		return
	case r.rate >= safe && r.p95 > easy*p.slo():
		if p.sure() {
			t.rate = min(r.rate, max(c.Q80, r.rate*(1-stepDown)))
		}
		t.because(AtCapacity)
		return
	case r.rate >= safe:
		most = min(most, shyly)
	default:
		most = min(most, max(safe, shyly))
	}
	t.raise(r, o, most, stepBold)
}

func (p *Policy) sure() bool { return p.st.Capacity.Confidence >= sure }

// cut lowers the limit of a target in trouble, unless that does not help.
func (p *Policy) cut(r reading, t *target) {
	g := &p.st.Guard
	now := Trouble{r.rate, r.admitted, r.p95, r.errors}
	if g.Cuts == 0 {
		g.Trial = now
	} else if p.isFault(r) {
		g.Fault = Fault{Active: true, Since: r.at, Errors: r.errors}
		if r.p95 > p.slo() {
			g.Fault.P95 = r.p95
		}
		t.rate = min(max(r.rate, g.Trial.Rate), r.rate*restore)
		t.because(BackendFault)
		g.Cuts = 0
		// What the cuts taught was wrong.
		p.st.Belief = Belief{}
		if takes := max(roomAlone*p.proven(), g.Trial.Admitted); takes > 0 {
			p.st.Belief = Belief{math.Log(takes), hintSpread * hintSpread}
		}
		return
	}
	g.Cuts++
	g.Rest, g.Last = !r.calm, now
	t.because(Overload)
	least := r.rate * (1 - stepBad)
	switch {
	case r.calm && r.errors > badErrors: // it refuses what is too much: what it answers is what it takes
		if r.good > 0 && r.answers >= few {
			p.st.Belief.measured(r.good, kneeNoise)
		}
		t.rate = max(min(r.rate, r.good), least)
	case p.sure():
		t.rate = max(g.draining(r)*min(r.rate, p.st.Capacity.Q50), least)
	default:
		t.rate = max(badCut*min(r.rate, r.admitted), least)
	}
	if r.errors > warnErrors {
		t.rate = min(t.rate, trialCut*r.rate)
	}
	t.rate = min(t.rate, warnCut*r.rate)
}

// draining is the share of what the target takes with which it works off the queue that r
// shows. When some gave up it is longer than answer times show, and when it is still there
// after a cut the target takes less.
func (g *Guard) draining(r reading) float64 {
	if g.Cuts > 1 || r.errors > warnErrors {
		return drain
	}
	return max(drain, 1-r.p95/(drainSpan*r.dt))
}

// isFault reports whether the trouble is the same although less is let through. Of a
// target that refuses what is too much the good answers stay as many and the share of
// errors falls; of one that is at fault the share stays.
func (p *Policy) isFault(r reading) bool {
	b := &p.st.Guard.Trial
	if b.Errors > badErrors && r.errors > badErrors {
		overload := max(0, 1-b.Admitted*(1-b.Errors)/max(r.admitted, 1e-9))
		return r.calm && r.admitted <= trialCut*b.Admitted && r.errors > (b.Errors+overload)/2
	}
	return max(r.admitted, p.st.Guard.Last.Admitted) <= trialDeep*b.Admitted && b.P95 > p.slo() && r.p95 >= unmoved*b.P95
}

// faultEnds clears the flag when the trouble is gone, or when slowness has lasted so
// long that it is how the target is now.
func (p *Policy) faultEnds(r reading) {
	f := &p.st.Guard.Fault
	if !f.Active || r.answers < few {
		return
	}
	gone := r.errors <= max(warnErrors, faultLeft*f.Errors) && (f.P95 == 0 || r.p95 <= p.slo())
	usual := f.P95 > 0 && r.at.Sub(f.Since) >= faultSpan
	if gone || usual {
		*f = Fault{}
	}
	if usual {
		p.st.Base, p.st.Belief = 0, Belief{}
	}
}
