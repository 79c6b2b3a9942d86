package policy

import (
	"math"
	"slices"
	"time"
)

const (
	stepUp        = 0.25 // of the limit in force, per update
	stepDown      = 0.30
	stepBad       = 0.50 // while the target suffers
	headroom      = 1.1  // above the 95 % quantile of the demand
	planSpan      = 15 * time.Minute
	sure          = 0.5   // confidence from which the belief may lower limits
	beyond        = 1.25  // × proven rate, as far as an unsure policy goes
	deadBand      = 0.03  // changes that are not worth making
	deadBandBinds = 0.015 // while the limit refuses
)

// A target is the sustained rate to recommend, with why.
type target struct {
	rate  float64
	codes []string
	cap   float64 // what the target is thought to take
	fast  bool    // steps as wide as in an emergency are allowed
}

func (t *target) because(code string) {
	if !slices.Contains(t.codes, code) {
		t.codes = append(t.codes, code)
	}
}

// stays takes back the reasons of a change that is not made.
func (t *target) stays() {
	change := func(code string) bool {
		return code == ForecastRise || code == Refusing || code == ForecastOverload || code == StepLimited
	}
	t.codes = slices.DeleteFunc(t.codes, change)
}

// aim finds the rate that demand and capacity ask for, with the guard's demands.
func (p *Policy) aim(r reading, v verdict, o Outlook) target {
	limit, soonest := p.caps(o, r)
	t := target{rate: r.rate, cap: limit}
	if v.restore > r.rate {
		t.rate = v.restore
		t.because(BackendFault)
		return t
	}
	switch {
	case v.raise:
		p.raise(r, o, &t)
	case p.st.Count < firstSnapshots && v.state == stateOK:
		t.because(Starting)
	case v.state == stateOK:
		t.because(Recovering)
	}
	if !v.clears {
		p.lower(r, o, soonest, &t)
	}
	if v.atMost < t.rate {
		t.rate = v.atMost
		t.codes = append([]string{v.code}, t.codes...)
		t.fast = v.state == stateBad
	} else if v.code != "" {
		t.because(v.code)
	}
	return t
}

// sure says whether the belief is good enough to lower a limit.
func (p *Policy) sure() bool { return p.st.Capacity.Confidence >= sure && p.st.Base > 0 }

// lower takes t down to cap, when that is known well enough.
func (p *Policy) lower(r reading, o Outlook, cap float64, t *target) {
	if !p.sure() || p.st.Guard.Fault.Active || cap >= t.rate {
		return
	}
	t.rate = cap
	if cap >= r.rate {
		t.because(AtCapacity)
		return
	}
	code := AtCapacity
	for _, q := range o.within(planSpan) {
		if q.Q50 > cap && q.Q50 > headroom*r.demand {
			code = ForecastOverload
		}
	}
	t.codes = []string{code}
}

// caps returns the cap now, and the one that keeps every later cap in reach of
// steps down.
func (p *Policy) caps(o Outlook, r reading) (now, soonest float64) {
	if p.st.Belief.Weights == nil {
		return math.Inf(1), math.Inf(1)
	}
	amax := p.best(r)
	now = p.capFor(amax, r.demand)
	soonest = now
	reach := 1.0
	for _, q := range o.within(planSpan) {
		soonest = min(soonest, p.capFor(amax, q.Q50)/reach)
		reach *= 1 - stepDown
	}
	return now, soonest
}

// best is the rate of work to aim at. What the target is at ease with now it can
// take: a limit that binds must not talk itself down.
func (p *Policy) best(r reading) float64 {
	best := p.odds.best(p.work(r.rate*(1+stepUp), r.demand), p.st.Capacity.Confidence)
	if p.atEase(r) {
		best = max(best, r.load, p.work(p.stride(r), r.demand))
	}
	return best
}

// work is what a limit lets the target do at a demand.
func (p *Policy) work(limit, demand float64) float64 {
	return limit + p.set.RejectCost*max(0, demand-limit)
}

// atEase says whether the target shows no queue worth mentioning.
func (p *Policy) atEase(r reading) bool {
	return p.st.Guard.State == stateOK && r.p95 > 0 && r.n >= thin && r.p95 < easy*p.slo()
}

// capFor is what may be let through at a demand by a target that can do amax:
// refusals cost it something too.
func (p *Policy) capFor(amax, demand float64) float64 {
	if demand <= amax {
		return amax
	}
	g := p.set.RejectCost
	return max((amax-g*demand)/(1-g), p.set.LimitMin)
}

// raise lifts t as far as the demand, now or predicted, needs and the target takes.
func (p *Policy) raise(r reading, o Outlook, t *target) {
	want, code := r.rate, ""
	reach := 1.0
	for _, q := range o.within(planSpan) {
		if need := headroom * q.Q95 * reach; need > want {
			want, code = need, ForecastRise
		}
		reach /= 1 + stepUp
	}
	if r.binds {
		if probe := headroom * r.demand; probe > want {
			want, code = probe, Refusing
		}
	}
	if code == "" {
		return
	}
	if want > t.cap {
		want = t.cap
		t.because(AtCapacity)
	}
	if most := p.vouched(r); want > most {
		want = most
		t.because(Unproven)
	}
	if proven := p.proven(); p.st.Capacity.Confidence < sure && proven > 0 && want > beyond*proven {
		want = beyond * proven
		t.because(Unproven)
	}
	if g := &p.st.Guard; want > g.Ceiling && r.at.Before(g.CeilingUntil) {
		want = g.Ceiling
		t.because(Blocked)
	}
	if want > r.rate {
		t.rate = want
		t.codes = append([]string{code}, t.codes...)
	}
}

// vouched is how far limits may rise by what somebody has said or seen: the hint,
// but for the share of it that a target at its capacity has no use for, what the
// target was well with, and while the limit refuses a step more. Low answer
// times at half the load do not tell a target of one and a half times the hint
// from one of the hint. Without a hint nobody has said anything, and the belief
// decides.
func (p *Policy) vouched(r reading) float64 {
	if p.set.CapacityHint == 0 {
		return math.Inf(1)
	}
	most := max(hintShare*p.set.CapacityHint, p.proven())
	if r.binds { // what it is asked for now is evidence, and more comes with each step
		most = max(most, r.rate*(1+stepVouched))
	}
	return most
}

// stepVouched is the step up beyond the hint while a limit refuses.
const stepVouched = 0.05

// hintShare is the load at which a target of some workers answers most requests
// in time.
const hintShare = 0.95

// stride is how far a limit that refuses may rise against the belief: the longer
// the target shows no queue at all the further, since a belief that is wrong would
// otherwise be put right by small steps only. It ends below the rate at which a
// queue was seen lately.
func (p *Policy) stride(r reading) float64 {
	g := &p.st.Guard
	if g.Calm == 0 {
		return 0
	}
	rate := r.rate * (1 + min(stepUp, strideFirst*math.Pow(2, float64(min(g.Calm, 8)-1))))
	if g.Knee > 0 {
		rate = min(rate, p.capFor(strideShy*g.Knee, r.demand))
	}
	return rate
}

const (
	strideFirst = 0.03
	strideShy   = 0.95
)

// bounded applies the guard rails: steps, dead band, and the bounds last.
func (p *Policy) bounded(r reading, t target) target {
	down := stepDown
	if t.fast {
		down = stepBad
	}
	low, high := r.rate*(1-down), r.rate*(1+stepUp)
	if t.rate > high || t.rate < low {
		t.rate = min(max(t.rate, low), high)
		t.because(StepLimited)
	}
	band := deadBand
	if r.binds {
		band = deadBandBinds
	}
	if math.Abs(t.rate/r.rate-1) < band {
		t.rate = r.rate
	}
	if t.rate < p.set.LimitMin {
		t.rate = p.set.LimitMin
		t.because(BoundMin)
	}
	if t.rate > p.set.LimitMax {
		t.rate = p.set.LimitMax
		t.because(BoundMax)
	}
	if t.rate == r.rate {
		t.stays()
	}
	return t
}

// within returns the points up to span ahead.
func (o Outlook) within(span time.Duration) []Point {
	if o.Step <= 0 {
		return nil
	}
	return o.Points[:min(len(o.Points), int(span/o.Step))]
}
