package policy

import "math"

// Capacity is what is believed of the highest rate at which the target answers well,
// in requests/s. All zero: nothing is known.
type Capacity struct {
	Q05        float64 `json:"q05"`
	Q20        float64 `json:"q20"`
	Q50        float64 `json:"q50"`
	Q80        float64 `json:"q80"`
	Q95        float64 `json:"q95"`
	Confidence float64 `json:"confidence"` // 1 - (q80-q20)/q50, at least 0
}

// A Belief is a normal distribution over the logarithm of the capacity. A measurement
// moves it as a Kalman filter does; a bound, that the capacity is at least or at most
// so much, cuts it off softly, and what is left is described by its mean and variance.
type Belief struct {
	Mean     float64 `json:"mean"`
	Variance float64 `json:"variance"` // 0: nothing is known
}

const (
	hintSpread    = 0.3   // deviation of ln C around the operator's hint
	blindSpread   = 1.0   // around the limit in force
	driftMinute   = 0.015 // deviation of ln C after a minute
	spreadMax     = 1.0   // nothing is forgotten beyond this deviation
	spreadMin     = 0.02  // nothing is known better
	surprise      = 3.0   // deviations from which a measurement says that C has jumped
	z80           = 0.8416212335729143
	z95           = 1.6448536269514722
	atLeastSpread = 0.05 // deviation of a bound's error in ln C
)

// blur lets seconds pass in which the capacity may have changed.
func (b *Belief) blur(seconds float64) {
	if b.Variance > 0 {
		b.Variance = min(b.Variance+driftMinute*driftMinute*min(seconds, 3600)/60, max(b.Variance, spreadMax*spreadMax))
	}
}

// measured takes in that the capacity is rate, give or take a deviation of its logarithm.
func (b *Belief) measured(rate, deviation float64) {
	d, v := math.Log(rate)-b.Mean, deviation*deviation
	if d*d > surprise*surprise*(b.Variance+v) {
		b.Variance = min(d*d, spreadMax*spreadMax)
	}
	gain := b.Variance / (b.Variance + v)
	b.Mean += gain * d
	b.Variance = max(b.Variance*(1-gain), spreadMin*spreadMin)
}

// bounded takes in that the capacity is at least rate (side 1) or at most rate (side -1).
func (b *Belief) bounded(rate, side float64) {
	deviation := math.Sqrt(b.Variance + atLeastSpread*atLeastSpread)
	z := side * (b.Mean - math.Log(rate)) / deviation
	if !(z < 5) { // nothing new, or no rate
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

// quantile is the rate that the capacity is below with a normal score of z.
func (b *Belief) quantile(z float64) float64 { return math.Exp(b.Mean + z*math.Sqrt(b.Variance)) }

// capacity returns the quantiles.
func (b *Belief) capacity() Capacity {
	if b.Variance == 0 {
		return Capacity{}
	}
	c := Capacity{Q05: b.quantile(-z95), Q20: b.quantile(-z80), Q50: b.quantile(0), Q80: b.quantile(z80), Q95: b.quantile(z95)}
	c.Confidence = max(0, 1-(c.Q80-c.Q20)/c.Q50)
	return c
}

// believe takes r into the belief about the capacity.
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
	switch slow := r.p95 / p.slo(); {
	case r.good <= 0 || r.Forwarded <= 0:
	case r.gated && r.Errors > badErrors: // by how much it fails is not what it can take
	case r.gated && r.GateShare >= gateBinds:
		b.measured(r.good, gateNoise+noise)
	case r.Errors > badErrors && !r.calm:
		b.bounded(r.Forwarded, -1)
	case r.Errors > badErrors: // it refuses what is too much, or is at fault
	case r.gated || slow < easy:
		b.bounded(min(r.good, p.st.Good), 1)
	case slow < badSlow:
		b.measured(r.Forwarded, kneeNoise+noise)
	default:
		b.bounded(r.Forwarded, -1)
	}
}

const (
	few       = 20.0 // answers, below which a snapshot says nothing
	gateBinds = 0.7  // share of the interval from which good answers are what the target can do
	gateNoise = 0.03 // deviation of the logarithm of a capacity measured that way
	kneeNoise = 0.08 // the same where a target that nobody protects becomes slow
)
