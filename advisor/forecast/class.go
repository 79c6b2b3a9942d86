package forecast

import (
	"math"
	"slices"
	"weir/advisor/codec"
)

const (
	pendingMax = 64 // forecasts of a horizon that wait for the actual rate
	// strideFrom is the number of slots of a horizon from which only some of its
	// forecasts are kept: an hour of slots of a second learns once a minute.
	strideFrom = 60

	// Memories, in forecasts scored. Overlapping targets repeat the same information, so
	// a regression over them has a longer memory.
	mixerLeast, mixerMost = 10, 150 // a quarter of a day within these
	ridgeMemory           = 1000    // and ten targets' length

	// Priors of the regression: coefficients of about half, and a small constant.
	tauFeature, tauConstant = .5, .05
	robustAt                = .7   // relative error from which a row counts by its error and not by its square
	logMax                  = 2.5  // distance of the regression from its base, in z
	reachBy                 = 1.2  // how far it may leave the range of the other experts: beyond, it extrapolates
	errsKeep                = .999 // makes the errors cover about the last thousand forecasts
)

// A promise is a forecast that waits for the actual rate.
type promise struct {
	due       float64 // seconds since the epoch
	c, base   float64
	heft      float64 // weight of its errors: the level relative to its mean
	experts   [expertsN]float64
	ways      [waysN]float64
	mix       float64
	point     float64
	sigma     float64
	quantiles [quantilesN]float64
	x         [featuresN]float64
}

// A class has the regression, the mixture and the band of one horizon. The regression is the expert
//
//	(base + c) exp(θ·x) - c, of all features x
//
// which learns z ahead minus z of the base level.
type class struct {
	ahead   float64   // seconds
	stride  int       // a forecast is kept for scoring every stride slots
	pending []promise // the oldest first; its capacity bounds them
	settled promise   // scratch of settle
	mixer   *mixer
	band    band
	ridge   *ridge
	errs    struct{ abs, truth, n float64 }
	now     promise
}

func newClass(ahead, dt float64) *class {
	steps := math.Round(ahead / dt)
	k := &class{ahead: ahead, stride: int(math.Ceil(steps / strideFrom))}
	k.pending = make([]promise, 0, min(pendingMax, int(steps)/k.stride+2))
	perDay := max(day/dt/float64(k.stride), 1)
	overlap := max(1, steps/float64(k.stride)) // how many consecutive forecasts have overlapping targets
	k.mixer = newMixer(expertsN, max(mixerLeast, min(perDay/4, mixerMost))+overlap)
	tau := slices.Repeat([]float64{tauFeature}, featuresN)
	tau[featureConstant] = tauConstant
	k.ridge = newRidge(tau, math.Exp2(-1/(ridgeMemory+10*overlap)), overlap)
	k.band = newBand(max(bandLeast, min(bandSpan/dt, bandMost))+overlap, overlap)
	return k
}

// forecast makes the forecast for the slot after at; m has the seasons.
func (k *class) forecast(m *moment, at, dt float64) {
	p := &k.now
	p.due, p.c, p.base, p.heft = at+k.ahead, m.c, m.levels.ses[levelBase], m.heft
	k.ask(p, m)
	p.mix = k.mixer.blend(p.experts[:], &p.ways)
	p.point = max(0, min(p.mix, m.most))
	p.sigma = k.band.sigma(p.point, m.c, dt)
	k.band.fill(&p.quantiles, p.point, p.sigma)
}

// ask gets the forecasts of all experts.
func (k *class) ask(p *promise, m *moment) {
	for i, e := range experts {
		p.experts[i] = e.ask(m)
	}
	m.features(&p.x)
	r, f := k.ridge, math.NaN()
	if r.rows >= r.p+10+int(2*r.overlap) {
		low, high := reach(p.experts[:expertRidge])
		f = math.Exp(m.z[levelBase]+min(max(r.predict(p.x[:]), -logMax), logMax)) - m.c
		f = min(max(f, low/reachBy), high*reachBy, m.most)
	}
	p.experts[expertRidge] = f
}

// reach returns the smallest and the largest available forecast.
func reach(forecasts []float64) (low, high float64) {
	low, high = forecasts[0], forecasts[0]
	for _, f := range forecasts {
		if f == f {
			low, high = min(low, f), max(high, f)
		}
	}
	return low, high
}

// keep stores the newest forecast until the actual rate is known.
func (k *class) keep() {
	if len(k.pending) == cap(k.pending) {
		k.pending = slices.Delete(k.pending, 0, 1)
	}
	k.pending = append(k.pending, k.now)
}

// settle scores the forecast for the slot of width dt that ended at at.
func (k *class) settle(at, dt, y float64, idle bool) (p *promise) {
	for p == nil && len(k.pending) > 0 && k.pending[0].due <= at+dt/2 {
		k.settled = k.pending[0]
		k.pending = slices.Delete(k.pending, 0, 1)
		if k.settled.due > at-dt/2 {
			k.learn(&k.settled, y, idle)
			p = &k.settled
		}
	}
	return p
}

func (k *class) learn(p *promise, y float64, idle bool) {
	k.mixer.learn(y, p)
	k.band.learn(y, p, idle)
	target := min(max(math.Log((y+p.c)/(p.base+p.c)), -logMax), logMax)
	r, w := k.ridge, 1.0
	e := math.Abs(target - r.predict(p.x[:]))
	if r.n > 20 {
		size := math.Sqrt(r.err/max(r.n, 1)) + 1e-9
		w = min(1, robustAt*size/max(e, 1e-12))
	}
	r.learn(p.x[:], target, w*p.heft)
	e = math.Abs(y - p.point)
	k.errs.abs = k.errs.abs*errsKeep + e
	k.errs.truth = k.errs.truth*errsKeep + y
	k.errs.n++
}

// solve solves the regression and the weights of the mixture.
func (k *class) solve() {
	k.ridge.solve()
	k.mixer.stack.solve(stackSteps, k.now.experts[:])
}

func (p *promise) walk(c *codec.Codec) {
	c.Float(&p.due, &p.c, &p.base, &p.heft, &p.mix, &p.point, &p.sigma)
	c.Floats(p.experts[:])
	c.Floats(p.ways[:])
	c.Floats(p.quantiles[:])
	c.Floats(p.x[:])
}

// walkLearnt walks over what does not depend on the width of slots.
func (k *class) walkLearnt(c *codec.Codec) {
	k.mixer.walk(c)
	k.band.walk(c)
	k.ridge.walk(c)
	c.Float(&k.errs.abs, &k.errs.truth, &k.errs.n)
}

func (k *class) walk(c *codec.Codec) {
	k.walkLearnt(c)
	k.now.walk(c)
	k.pending = k.pending[:c.Len(len(k.pending), cap(k.pending))]
	for i := range k.pending {
		k.pending[i].walk(c)
	}
}
