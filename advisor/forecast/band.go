package forecast

import (
	"math"
	"weir/advisor/codec"
)

// quantiles are the probabilities that a band tracks.
var quantiles = [...]float64{.05, .5, .8, .95, .99}

const (
	quantilesN = len(quantiles)
	// The memory of the scale, in forecasts: two hours within these bounds. That of
	// errors relative to the forecast is longer by a factor.
	bandSpan            = 7200.0 // seconds
	bandLeast, bandMost = 30, 240
	bandSlow            = 8
	scoreMax            = 10.0 // of the scores that count for their range
	// gainFirst/√n and then gainLeast are the steps of the quantiles, relative to that
	// range. The step of the median is gainMedian of that, since the mixture has already
	// found it.
	gainFirst, gainLeast = .3, .02
	gainMedian           = .1
	chanceShare          = .2  // how small the errors may be, relative to those of counting alone
	extraMax             = 2.0 // of the temporary widening of a band
	extraFade            = .8  // by which that decays with every forecast scored
	idleShare            = .2  // of c is the forecast from which an idle slot counts half as much as others
)

// A band turns a point forecast into quantiles. It tracks scores
//
//	u = (y - forecast) / σ
//
// and moves each quantile a little up when too many scores lie above it, and a little
// down when too few do. In the long run the share below is correct for any sequence
// (Angelopoulos, Candès, Tibshirani: Conformal PID Control, 2023).
type band struct {
	n     float64 // forecasts learned from
	fast  float64 // mean |error|, short memory
	slow  float64 // mean |error|/(forecast+c), long memory
	width float64 // range of scores
	extra float64 // temporary factor on σ above 1: after gaps and alarms
	q     [quantilesN]float64

	halfLife, overlap float64 // half-life of the short memory, and overlap of the targets: both in forecasts
}

// newBand begins with the quantiles of a Laplace distribution, in mean errors.
func newBand(halfLife, overlap float64) band {
	return band{width: 4, q: [...]float64{-2.3, 0, .92, 2.3, 3.91}, halfLife: halfLife, overlap: overlap}
}

// sigma returns the scale of the errors of a forecast for slots of width dt.
func (b *band) sigma(forecast, c, dt float64) float64 {
	chance := math.Sqrt((forecast + .25/dt) / dt) // of counts without any other noise
	if b.n < 3 {
		return max(.5*forecast, chance)
	}
	s := math.Sqrt(b.fast * b.slow * (forecast + c))
	return (1 + b.extra) * max(s, chanceShare*chance)
}

// learn updates the band with the actual rate for a forecast. Where targets overlap the
// same error appears repeatedly, so steps are smaller. An idle slot without requests
// counts the less, the less was expected in it.
func (b *band) learn(y float64, p *promise, idle bool) {
	w := 1.0
	b.extra *= extraFade
	if idle {
		w = p.point / (p.point + idleShare*p.c)
	}
	if w == 0 {
		return
	}
	e := math.Abs(y - p.point)
	b.n += w
	b.fast += w * (e - b.fast) * max(1-math.Exp2(-1/b.halfLife), 1/b.n)
	b.slow += w * (e/(p.point+p.c) - b.slow) * max(1-math.Exp2(-1/(bandSlow*b.halfLife)), min(1, 2/b.n))
	u := min(e/p.sigma, scoreMax)
	b.width += w * (2*u - b.width) * max(.002, 1/(b.n+10))
	gain := w * max(gainLeast, gainFirst/math.Sqrt(b.n+10)) * b.width / math.Sqrt(b.overlap)
	tied := p.upTo(y)
	for i, tau := range quantiles {
		step := gain * tau
		switch {
		case y < p.quantiles[i]:
			step -= gain
		case y == p.quantiles[i]:
			step -= gain * tau / tied
		}
		if tau == .5 {
			step *= gainMedian
		}
		b.q[i] += step
	}
	for i := 1; i < quantilesN; i++ {
		b.q[i] = max(b.q[i], b.q[i-1])
	}
}

// upTo returns the probability of a rate of at most y according to the quantiles: that of
// the first one above y. If several quantiles are cut off at 0 and tie with y, a share of
// τ/upTo counts as below the quantile τ.
func (p *promise) upTo(y float64) float64 {
	for i, q := range p.quantiles {
		if q > y {
			return quantiles[i]
		}
	}
	return 1
}

// fill writes the quantiles of a forecast: ascending, none negative.
func (b *band) fill(out *[quantilesN]float64, point, sigma float64) {
	for i := range out {
		out[i] = max(0, point+b.q[i]*sigma)
	}
}

// widen widens the band temporarily by a factor.
func (b *band) widen(by float64) { b.extra = min(max(b.extra, by-1), extraMax) }

func (b *band) walk(c *codec.Codec) {
	c.Float(&b.n, &b.fast, &b.slow, &b.width, &b.extra)
	c.Floats(b.q[:])
}
