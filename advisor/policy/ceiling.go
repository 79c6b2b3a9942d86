package policy

import (
	"math"
	"slices"
	"time"
)

const (
	headroom  = 1.1             // above the demand
	planSpan  = 5 * time.Minute // that a limit rises ahead of a forecast
	room      = 2.0             // × proven rate, where a gate protects the target
	above     = 1.2             // × what the target can take, as the gate has measured it
	used      = 0.85            // share of a limit that is used when more is wanted than crowds bring
	stepUp    = 1.0             // of the limit in force, per update
	gateIdle  = 0.1             // share of the interval up to which the gate holds back passing crowds only
	stepDown  = 0.3             // of the limit in force, per update, to what the target is known to take
	gateFull  = 0.25            // share from which it holds back more than those
	fullSpan  = 25.0            // seconds for which it must have been full before a limit falls
	fullFade  = 10.0            // times as long as that it takes until they are forgotten: many crowds count like one
	fullMax   = 60.0            // seconds that are remembered
	bindsFrom = 0.002           // share of requests that a limit refuses when it binds
)

// A target is the sustained rate to recommend, with why.
type target struct {
	rate  float64
	codes []string
}

func (t *target) because(code string) {
	if !slices.Contains(t.codes, code) {
		t.codes = append(t.codes, code)
	}
}

// wanted is the rate that the demand asks for, now or soon, if it is more than the
// limit in force; else that, and no code.
func wanted(r reading, o Outlook) (rate float64, code string) {
	rate = r.rate
	for _, q := range o.within(planSpan) {
		if need := headroom * q.Q95; need > rate {
			rate, code = need, ForecastRise
		}
	}
	if need := headroom * r.demand; r.binds && r.Forwarded >= used*r.rate && need > rate {
		rate, code = need, Refusing
	}
	return rate, code
}

// raise lifts t as far as the demand needs, but no further than most and a step.
func (t *target) raise(r reading, o Outlook, most, step float64) {
	rate, code := wanted(r, o)
	if code == "" {
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
		t.codes = append([]string{code}, t.codes...)
	}
}

// ceiling finds the limit of a target that a gate protects: a little above what it can
// take. The gate reacts within a few answers. The limit holds back crowds before they
// reach it, and falls only when the gate stays full or is full again and again: a limit
// that falls with every short slowness comes back too late.
func (p *Policy) ceiling(r reading, o Outlook, t *target) {
	top := above * max(p.st.Capacity.Q50, r.good) // what is answered well now is possible
	switch {
	case r.Errors > badErrors:
		if f := &p.st.Guard.Fault; r.GateShare <= gateIdle && !f.Active { // too much would have closed the gate
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

// bounded applies the dead band, and the bounds last.
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

// deadBand is the share of the limit by which a change is not worth making.
const deadBand = 0.015

// within returns the points up to span ahead.
func (o Outlook) within(span time.Duration) []Point {
	if o.Step <= 0 {
		return nil
	}
	return o.Points[:min(len(o.Points), int(span/o.Step))]
}
