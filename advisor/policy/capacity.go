package policy

import "math"

// Capacity is the estimate of the highest rate that the target answers well, in
// requests/s. The zero value is unknown.
type Capacity struct {
	Q05        float64 `json:"q05"`
	Q20        float64 `json:"q20"`
	Q50        float64 `json:"q50"`
	Q80        float64 `json:"q80"`
	Q95        float64 `json:"q95"`
	Confidence float64 `json:"confidence"` // 1 - (q80-q20)/q50, at least 0
}

// A Belief is a normal distribution over the logarithm of the capacity. A measurement
// updates it like a Kalman filter. A lower or upper bound on the capacity truncates it
// softly, and the result is approximated by its mean and variance.
type Belief struct {
	Mean     float64 `json:"mean"`
	Variance float64 `json:"variance"` // 0: unknown
}

const (
	hintSpread    = 0.3   // deviation of ln C around the operator's hint
	blindSpread   = 1.0   // around the limit in force
	driftMinute   = 0.015 // deviation of ln C after a minute
	spreadMax     = 1.0   // the deviation does not grow beyond this
	spreadMin     = 0.02  // the deviation does not fall below this
	surprise      = 3.0   // deviations from which a measurement means that C has jumped
	z80           = 0.8416212335729143
	z95           = 1.6448536269514722
	atLeastSpread = 0.05 // deviation of a bound's error in ln C
)

// blur increases the variance for the time in which the capacity may have changed.
func (b *Belief) blur(seconds float64) {
	if b.Variance > 0 {
		b.Variance = min(b.Variance+driftMinute*driftMinute*min(seconds, 3600)/60, max(b.Variance, spreadMax*spreadMax))
	}
}

// measured updates with a measured rate, with a deviation of its logarithm.
func (b *Belief) measured(rate, deviation float64) {
	d, v := math.Log(rate)-b.Mean, deviation*deviation
	if d*d > surprise*surprise*(b.Variance+v) {
		b.Variance = min(d*d, spreadMax*spreadMax)
	}
	gain := b.Variance / (b.Variance + v)
	b.Mean += gain * d
	b.Variance = max(b.Variance*(1-gain), spreadMin*spreadMin)
}

// bounded updates with the knowledge that the capacity is at least rate (side 1) or at
// most rate (side -1).
func (b *Belief) bounded(rate, side float64) {
	deviation := math.Sqrt(b.Variance + atLeastSpread*atLeastSpread)
	z := side * (b.Mean - math.Log(rate)) / deviation
	if !(z < 5) { // no new information, or no rate
		return
	}
	// Of a normal distribution above a soft edge: z is how far inside its mean is, and
	// far outside the density over the tail is about -z.
	hazard := -z + 1/max(-z, 1)
	if z > -5 {
		hazard = math.Exp(-z*z/2) / math.Sqrt(2*math.Pi) / (0.5 * math.Erfc(-z/math.Sqrt2))
	}
	b.Mean += side * b.Variance / deviation * hazard
	share := b.Variance / (deviation * deviation)
	b.Variance = max(b.Variance*(1-share*min(1, hazard*(hazard+z))), spreadMin*spreadMin)
}

// quantile returns the quantile of the capacity for a normal score of z.
func (b *Belief) quantile(z float64) float64 { return math.Exp(b.Mean + z*math.Sqrt(b.Variance)) }

// capacity returns the quantiles.
func (b *Belief) capacity() Capacity {
	if b.Variance == 0 {
		return Capacity{}
	}
	c := Capacity{Q05: b.quantile(-z95), Q20: b.quantile(-z80), Q50: b.quantile(0), Q80: b.quantile(z80),
		Q95: b.quantile(z95)}
	c.Confidence = max(0, 1-(c.Q80-c.Q20)/c.Q50)
	return c
}

// believe updates the estimate of the capacity with r.
func (p *Policy) believe(r reading, elapsed float64) {
	b := &p.st.Belief
	if b.Variance == 0 {
		centre, spread := p.set.CapacityHint, hintSpread
		if centre == 0 {
			centre, spread = max(r.Forwarded, min(r.rate, 20*r.Forwarded)), blindSpread
		}
		if centre <= 0 {
			return
		}
		*b = Belief{math.Log(centre), spread * spread}
	}
	b.blur(elapsed)
	if r.Ended < few || p.st.Guard.Fault.Active {
		return
	}
	noise := 1 / math.Sqrt(r.Ended)
	switch slow := r.p95 / p.SLO(); {
	case r.good <= 0 || r.Forwarded <= 0:
	case r.gated && r.Errors > badErrors: // the number of failures does not give the capacity
	case r.gated && r.GateShare >= gateBinds:
		b.measured(r.good, gateNoise+noise)
	case r.Errors > badErrors && !r.calm:
		b.bounded(r.Forwarded, -1)
	case r.Errors > badErrors: // it refuses excess load, or is faulty
	case r.gated || slow < easy:
		b.bounded(min(r.good, p.st.Good), 1)
	case slow < badSlow:
		b.measured(r.Forwarded, kneeNoise+noise)
	default:
		b.bounded(r.Forwarded, -1)
	}
}

const (
	few       = 20.0    // answers, below which a snapshot is ignored
	gateBinds = 0.7     // share of the interval from which good answers are the capacity
	gateNoise = 0.03    // deviation of the logarithm of a capacity measured that way
	kneeNoise = 0.08    // likewise, when an unprotected target becomes slow
	proofSpan = 30.0    // seconds that a rate must last to count: within two, a third more may be chance
	proofHalf = 86400.0 // half-life of a proof in seconds
)

// prove records the rate of good answers of r, if the target was healthy.
func (p *Policy) prove(r reading, elapsed float64) {
	p.st.Proven *= math.Exp2(-elapsed / proofHalf)
	if r.Ended == 0 {
		return
	}
	p.st.Good += (r.good - p.st.Good) * min(1, r.dt/proofSpan)
	if r.gated || r.Errors <= badErrors && r.p95 <= p.SLO() {
		p.st.Proven = max(p.st.Proven, min(p.st.Good, r.good))
	}
}
