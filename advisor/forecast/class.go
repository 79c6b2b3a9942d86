package forecast

import "math"

const (
	// pendingMax is how many forecasts of a horizon wait for their truth.
	pendingMax = 64
	// strideFrom is how many slots a horizon has before only some of its forecasts are
	// kept: an hour in seconds learns once a minute.
	strideFrom = 60

	// Memories, in forecasts scored. Targets that overlap say the same again, so a
	// regression over them remembers longer.
	mixerLeast, mixerMost = 10, 150 // a quarter of a day within these
	ridgeShort            = 300     // and ten targets' length
	ridgeLong             = 1500    // and two weeks, at most ridgeWeeks, and thirty targets' length
	ridgeWeeks            = 4000

	// What regressions take for likely: coefficients of about half, hardly a constant.
	tauFeature, tauConstant = .5, .05
	// robustAt is the error, in usual ones, from which a row counts by its error and not
	// by its square.
	robustAt = .7
	// logMax bounds how far a regression goes from its base, in z.
	logMax = 2.5
)

// A promise is a forecast made, kept until its truth is known.
type promise struct {
	due       float64 // seconds since the epoch
	c, base   float64
	unit      float64
	heft      float64 // how much errors matter now: the level in parts of its mean
	experts   [expertsN]float64
	ways      [waysN]float64
	mix       float64
	point     float64
	sigma     float64
	quantiles [quantilesN]float64
	x, plain  [featuresLong]float64
}

// A class is everything about one horizon: its regressions, the mixture, the band.
type class struct {
	steps   float64 // slots ahead
	ahead   float64 // seconds
	stride  int     // a forecast is kept for scoring every stride slots
	pending []promise
	first   int
	waiting int
	learnt  int
	mixer   *mixer
	band    band
	ridges  [ridgesN]*ridge
	errs    measure
	now     promise
}

// measureKeep makes a measure one of about the last thousand.
const measureKeep = .999

// measure is a running measure of errors.
type measure struct{ abs, truth, n float64 }

func newClass(ahead, dt float64) *class {
	steps := math.Round(ahead / dt)
	k := &class{steps: steps, ahead: ahead, stride: int(math.Ceil(steps / strideFrom))}
	k.pending = make([]promise, min(pendingMax, int(steps)/k.stride+2))
	perDay := max(day/dt/float64(k.stride), 1)
	overlap := k.overlap()
	k.mixer = newMixer(expertsN, max(mixerLeast, min(perDay/4, mixerMost))+overlap)
	long := math.Exp2(-1 / (ridgeLong + min(14*perDay, ridgeWeeks) + 30*overlap))
	short := math.Exp2(-1 / (ridgeShort + 10*overlap))
	tau := make([]float64, featuresLong)
	for i := range tau {
		tau[i] = tauFeature
	}
	tau[0] = tauConstant
	k.ridges = [...]*ridge{
		newRidge(tau, long, overlap), newRidge(tau, short, overlap),
		newRidge(tau[:featuresShort], short, overlap), newRidge(tau, long, overlap),
	}
	k.band = newBand()
	return k
}

// overlap is how many forecasts in a row have targets that overlap.
func (k *class) overlap() float64 { return max(1, k.steps/float64(k.stride)) }

// forecast makes the forecast of the slot that is ahead of at; no rate above most is
// believed.
func (k *class) forecast(v *view, s *[seasonsN]float64, at, dt, most float64) {
	p := &k.now
	p.due, p.c, p.base = at+k.ahead, v.c, v.base()
	p.unit, p.heft = v.unit, v.heft
	k.ask(p, v, s, k.steps, most)
	p.mix = k.mixer.blend(p.experts[:], &p.ways)
	p.point = max(0, min(p.mix, most))
	p.sigma = k.band.sigma(p.point, v.c, dt)
	k.band.fill(&p.quantiles, p.point, p.sigma)
}

// ask lets all experts speak of the slot that is steps ahead.
func (k *class) ask(p *promise, v *view, s *[seasonsN]float64, steps, most float64) {
	v.simple(p.experts[:], s, steps)
	v.features(&p.x, &p.plain, s)
	low, high := reach(p.experts[:expertRidge])
	for i, r := range k.ridges {
		f := math.NaN()
		switch {
		case r.rows < r.p+10+int(2*r.overlap):
		case i == ridgePlain:
			f = p.base + p.unit*r.predict(p.plain[:])
		default:
			f = (p.base+p.c)*math.Exp(min(max(r.predict(p.x[:]), -logMax), logMax)) - p.c
		}
		if f == f {
			f = min(max(f, low/reachBy), high*reachBy, most)
		}
		p.experts[expertRidge+i] = f
	}
}

// reachBy is by how much a regression may leave what the other experts span: beyond,
// it extrapolates from what it has never seen.
const reachBy = 1.2

// reach is the smallest and the largest of the forecasts there are.
func reach(forecasts []float64) (low, high float64) {
	low, high = forecasts[0], forecasts[0]
	for _, f := range forecasts {
		if f == f {
			low, high = min(low, f), max(high, f)
		}
	}
	return low, high
}

// keep puts the newest forecast among those that wait.
func (k *class) keep() {
	if k.waiting == len(k.pending) {
		k.first = (k.first + 1) % len(k.pending)
		k.waiting--
	}
	k.pending[(k.first+k.waiting)%len(k.pending)] = k.now
	k.waiting++
}

// settle scores what was forecast for the slot of width dt that ended at at.
func (k *class) settle(at, dt, y float64) (p *promise) {
	for k.waiting > 0 {
		p = &k.pending[k.first]
		if p.due > at+dt/2 {
			return nil
		}
		k.first = (k.first + 1) % len(k.pending)
		k.waiting--
		if p.due > at-dt/2 {
			k.learn(p, y, dt)
			return p
		}
	}
	return nil
}

func (k *class) learn(p *promise, y, dt float64) {
	k.learnt++
	k.mixer.learn(y, p)
	k.band.learn(y, p, p.c, max(bandLeast, min(bandSpan/dt, bandMost))+k.overlap(), k.overlap())
	target := min(max(math.Log((y+p.c)/(p.base+p.c)), -logMax), logMax)
	for i, r := range k.ridges {
		x, t := p.x[:r.p], target
		if i == ridgePlain {
			x, t = p.plain[:r.p], min(max((y-p.base)/p.unit, -plainMax), plainMax)
		}
		e := math.Abs(t - r.predict(x))
		size := math.Sqrt(r.err/max(r.n, 1)) + 1e-9
		w := 1.0
		if r.n > 20 {
			w = min(1, robustAt*size/max(e, 1e-12))
		}
		r.learn(x, t, w*p.heft)
	}
	e := math.Abs(y - p.point)
	k.errs.abs = k.errs.abs*measureKeep + e
	k.errs.truth = k.errs.truth*measureKeep + y
	k.errs.n++
}

// solve works out what the rows learnt so far say; full is scratch.
func (k *class) solve(full []float64) {
	for _, r := range k.ridges {
		r.solve()
	}
	for i := range k.mixer.stacks {
		k.mixer.stacks[i].solve(20, full)
	}
}

// alarm is told that the level has shifted.
func (k *class) alarm() {
	k.band.widen(widenBy)
}

func (p *promise) walk(c *codec) {
	c.f64(&p.due, &p.c, &p.base, &p.unit, &p.heft, &p.mix, &p.point, &p.sigma)
	c.all(p.experts[:])
	c.all(p.ways[:])
	c.all(p.quantiles[:])
	c.all(p.x[:])
	c.all(p.plain[:])
}

// walkLearnt walks over what does not depend on the width of slots.
func (k *class) walkLearnt(c *codec) {
	k.mixer.walk(c)
	k.band.walk(c)
	for _, r := range k.ridges {
		r.walk(c)
	}
	c.f64(&k.errs.abs, &k.errs.truth, &k.errs.n)
}

func (k *class) walk(c *codec) {
	k.walkLearnt(c)
	c.int(&k.learnt)
	k.now.walk(c)
	if c.reading {
		k.first = 0
	}
	k.waiting = c.count(k.waiting, len(k.pending))
	for i := range k.waiting {
		k.pending[(k.first+i)%len(k.pending)].walk(c)
	}
}
