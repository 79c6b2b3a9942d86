package policy

import (
	"math"
	"slices"
	"time"

	"weir/advisor/forecast"
)

const (
	headroom  = 1.1             // above the demand
	planSpan  = 5 * time.Minute // how far ahead of a forecast a limit rises
	room      = 2.0             // × proven rate, if a gate protects the target
	above     = 1.2             // × the capacity that the gate has measured
	used      = 0.85            // share of a limit from which demand exceeds that of short crowds
	stepUp    = 1.0             // of the limit in force, per update
	stepDown  = 0.3             // likewise, towards the known capacity
	deadBand  = 0.015           // of the limit in force: a change that is not worth making
	gateIdle  = 0.1             // share of the interval up to which the gate only holds back short crowds
	gateFull  = 0.25            // share from which it holds back more than those
	fullSpan  = 25.0            // seconds for which it must have been full before a limit falls
	fullFade  = 10.0            // times as long as that until they are forgotten: many crowds count like one
	fullMax   = 60.0            // seconds that are remembered
	bindsFrom = 0.002           // share of requests that a limit refuses when it binds
)

// A target is the recommended sustained rate and the reasons.
type target struct {
	rate    float64
	reasons []Reason
}

func (t *target) because(why Reason) {
	if !slices.Contains(t.reasons, why) {
		t.reasons = append(t.reasons, why)
	}
}

// raise raises t to what the demand needs, now or soon, but not beyond most and one step.
func (t *target) raise(r reading, o DemandForecast, most, step float64) {
	rate, why := r.rate, Hold
	for _, q := range o.within(planSpan) {
		if need := headroom * q.Q95; need > rate {
			rate, why = need, ForecastRise
		}
	}
	if need := headroom * r.demand; r.binds && r.Forwarded >= used*r.rate && need > rate {
		rate, why = need, Refusing
	}
	if why == Hold {
		return
	}
	if most < rate {
		t.because(Unproven)
		rate = most
	}
	if rate > r.rate*(1+step) {
		t.because(StepLimited)
		rate = r.rate * (1 + step)
	}
	if rate > r.rate*(1+deadBand) {
		t.rate = rate
		t.reasons = slices.Insert(t.reasons, 0, why)
	}
}

// ceiling computes the limit of a target protected by a gate: a little above its
// capacity. The limit stops crowds before they reach the gate, and falls only when the
// gate stays full or is full repeatedly: one that falls with every short slowdown
// recovers too late.
func (p *Policy) ceiling(r reading, o DemandForecast, t *target) {
	top := above * max(p.st.Capacity.Q50, r.good) // what is answered well now is possible
	switch {
	case r.Errors > badErrors:
		if f := &p.st.Guard.Fault; r.GateShare <= gateIdle && !f.Active { // overload would have filled the gate
			*f = Fault{Active: true, Since: r.At, Errors: r.Errors}
		}
		t.because(BackendFault)
	case r.GateShare > gateFull && p.st.Full >= fullSpan && r.rate > top:
		t.rate = max(top, r.rate*(1-stepDown))
		t.because(AtCapacity)
	case r.GateShare > gateIdle:
		t.because(AtCapacity)
	case r.binds && r.Forwarded >= used*r.rate:
		t.raise(r, o, max(p.set.CapacityHint, room*p.st.Proven), stepUp)
	default: // crowds may be refused, but not for long
		t.raise(r, o, max(p.set.CapacityHint, min(top, room*p.st.Proven)), stepUp)
	}
}

// bounded applies the dead band, and finally the bounds.
func (p *Policy) bounded(r reading, t *target) {
	if math.Abs(t.rate/r.rate-1) < deadBand {
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
}

// within returns the points up to span ahead.
func (f DemandForecast) within(span time.Duration) []forecast.Point {
	if f.Step <= 0 {
		return nil
	}
	return f.Points[:min(len(f.Points), int(span/f.Step))]
}
