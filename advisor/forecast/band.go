package forecast

import (
	"math"
	"weir/advisor/codec"
)

// quantiles are the probabilities that a band tracks.
var quantiles = [...]float64{.05, .5, .8, .95, .99}

const (
	quantilesN = len(quantiles)
	// The memory of the scale, in forecasts: two hours within these bounds; of errors
	// in parts of the forecast so many times as long.
	bandSpan            = 7200.0 // seconds
	bandLeast, bandMost = 30, 240
	bandSlow            = 8
	// scoreMax is the largest score that counts for their range.
	scoreMax = 10.0
	// gainFirst/√n and then gainLeast are the steps of the quantiles, in parts of that
	// range; the median, which the mixture has found already, moves gainMedian of that.
	gainFirst, gainLeast = .3, .02
	gainMedian           = .1
	// chanceShare is how small the errors may be beside those of counting alone.
	chanceShare = .2
	// extraMax bounds how much wider a band is for a while; that fades by extraFade with
	// every forecast scored.
	extraMax  = 2.0
	extraFade = .8
	// idleShare of c is the forecast from which an idle slot teaches half of what others do.
	idleShare = .2
)

// A band turns a point forecast into quantiles. It follows scores
//
//	u = (y - forecast) / σ
//
// and moves each quantile a little up when too many scores lie above it, a little
// down when too few do: in the long run the share below is right for any sequence
// (Angelopoulos, Candès, Tibshirani: Conformal PID Control, 2023).
type band struct {
	n     float64 // forecasts learnt from
	fast  float64 // mean |error|, short memory
	slow  float64 // mean |error|/(forecast+c), long memory
	width float64 // range of scores
	extra float64 // factor on σ above 1, fading: after gaps and alarms
	q     [quantilesN]float64

	halfLife, overlap float64 // of the short memory; of the targets: both in forecasts
}

// newBand begins with the quantiles of a Laplace distribution, in mean errors.
func newBand(halfLife, overlap float64) band {
	return band{width: 4, q: [...]float64{-2.3, 0, .92, 2.3, 3.91}, halfLife: halfLife, overlap: overlap}
}

// sigma is the scale of the errors of a forecast of slots of width dt.
func (b *band) sigma(forecast, c, dt float64) float64 {
	chance := math.Sqrt((forecast + .25/dt) / dt) // of counts without any other noise
	if b.n < 3 {
		return max(.5*forecast, chance)
	}
	s := math.Sqrt(b.fast * b.slow * (forecast + c))
	return (1 + b.extra) * max(s, chanceShare*chance)
}

// learn takes in what came for a forecast.
// Where targets overlap the same error is seen again and again, so steps are smaller. That
// nothing came in an idle slot says the less about errors the less was expected there.
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

// upTo is the probability of what is no more than y, as the quantiles have it: that of the
// first above y. Of the truths that tie with several quantiles, all cut at 0, a share of
// τ/upTo lies below the quantile τ.
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

// widen expects larger errors for a while, by a factor.
func (b *band) widen(by float64) { b.extra = min(max(b.extra, by-1), extraMax) }

func (b *band) walk(c *codec.Codec) {
	c.Float(&b.n, &b.fast, &b.slow, &b.width, &b.extra)
	c.Floats(b.q[:])
}
