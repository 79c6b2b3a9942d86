package forecast

import "math"

// quantiles are the probabilities that a band tracks.
var quantiles = [...]float64{.05, .5, .8, .95, .99}

const (
	quantilesN = len(quantiles)
	extraMax   = 2.0
	extraFade  = .8 // per forecast scored
)

// A band turns a point forecast into quantiles. It follows scores
//
//	u = (y - forecast) / σ
//
// and moves each quantile a little up when too many scores lie above it, a little
// down when too few do: in the long run the share below is right for any sequence
// (Angelopoulos, Candès, Tibshirani: Conformal PID Control, 2023).
type band struct {
	n     float64
	fast  float64 // mean |error|, short memory
	slow  float64 // mean |error|/(forecast+c), long memory
	width float64 // range of scores
	extra float64 // factor on σ above 1, fading: after gaps and alarms
	q     [quantilesN]float64
}

// newBand begins with the quantiles of a Laplace distribution, in mean errors.
func newBand() band {
	return band{width: 4, q: [...]float64{-2.3, 0, .92, 2.3, 3.91}}
}

// sigma is the scale of the errors of a forecast of slots of width dt.
func (b *band) sigma(forecast, c, dt float64) float64 {
	chance := math.Sqrt((forecast + .25/dt) / dt) // of counts without any other noise
	if b.n < 3 {
		return max(.5*forecast, chance)
	}
	s := math.Sqrt(b.fast * b.slow * (forecast + c))
	return (1 + b.extra) * max(s, .2*chance)
}

// learn takes in what came for a forecast, its scale and its quantiles of before.
func (b *band) learn(y float64, p *promise, c, halfLife, overlap float64) {
	e := math.Abs(y - p.point)
	b.n++
	b.extra *= extraFade
	b.fast += (e - b.fast) * max(1-math.Exp2(-1/halfLife), 1/b.n)
	b.slow += (e/(p.point+c) - b.slow) * max(1-math.Exp2(-1/(20*halfLife)), 1/b.n)
	u := (y - p.point) / p.sigma
	r := min(math.Abs(u), 10)
	b.width += (2*r - b.width) * max(.002, 1/(b.n+10))
	g := max(.02, .3/math.Sqrt(b.n+10)) * b.width / math.Sqrt(overlap)
	for i, tau := range quantiles {
		if y <= p.quantiles[i] {
			b.q[i] -= g * (1 - tau) * spread(tau)
		} else {
			b.q[i] += g * tau * spread(tau)
		}
	}
	for i := 1; i < quantilesN; i++ {
		b.q[i] = max(b.q[i], b.q[i-1])
	}
}

// spread makes steps at the ends smaller, where a hit is rarer.
func spread(tau float64) float64 {
	if tau == .5 {
		return .1
	}
	return 1
}

// fill writes the quantiles of a forecast: ascending, none negative.
func (b *band) fill(out *[quantilesN]float64, point, sigma float64) {
	for i := range out {
		out[i] = max(0, point+b.q[i]*sigma)
	}
}

// widen expects larger errors for a while, by a factor.
func (b *band) widen(by float64) { b.extra = min(max(b.extra, by-1), extraMax) }

func (b *band) walk(c *codec) {
	c.f64(&b.n, &b.fast, &b.slow, &b.width, &b.extra)
	c.all(b.q[:])
}
