package forecast

import "math"

// The ways in which forecasts of experts are made one.
const (
	byLong  = iota // weights by loss, long memory
	byShort        // weights by loss, short memory
	byRegret
	byStackLong
	byStackShort
	byMiddle // the median of the good ones
	waysN
)

const (
	lossMax  = 4.0  // in mean errors of the last value: one slot decides nothing
	errorMax = 20.0 // the same for squares, which are weighed down besides
	// sharpness is how much weight is lost by being worse than the best: at 2 % a
	// factor of two.
	sharpness = 40.0
	scaleMin  = .1 // that unit is at least this share of c
)

// A mixer makes one forecast of those of all experts, for one horizon, and learns
// from what came.
type mixer struct {
	scale  float64 // mean |error| of the last value
	scaled float64 // weight behind scale
	long   ranking
	short  ranking
	regret regret
	stacks [2]stack
	ways   ranking // of the ways
}

// A ranking is the mean loss of each of several, forgetting by half in halfLife.
type ranking struct {
	decay float64
	n     float64
	loss  []float64
}

func newRanking(n int, halfLife float64) ranking {
	return ranking{decay: math.Exp2(-1 / halfLife), loss: make([]float64, n)}
}

func (r *ranking) learn(loss []float64) {
	r.n = r.n*r.decay + 1
	for i, l := range loss {
		r.loss[i] += (l - r.loss[i]) / r.n
	}
}

// weigh fills w with weights that sum to 1 over those with a forecast: e to the
// minus sharp times how much worse than the best.
func (r *ranking) weigh(w, forecasts []float64, sharp float64) {
	best := math.Inf(1)
	for i, f := range forecasts {
		if f == f {
			best = min(best, r.loss[i])
		}
	}
	sum := 0.0
	for i, f := range forecasts {
		w[i] = 0
		if f != f {
			continue
		}
		d := 0.0
		if best > 0 {
			d = (r.loss[i] - best) / best
		}
		if d *= sharp; d < 16 {
			w[i] = math.Exp(-d)
			sum += w[i]
		}
	}
	for i := range w {
		w[i] /= sum
	}
}

// A regret is ML-Poly (Gaillard, Stoltz, van Erven 2014) on linearised absolute
// losses: it competes with the best fixed convex mixture.
type regret struct {
	decay float64
	sum   []float64
	sq    []float64
}

func (g *regret) learn(r []float64) {
	for i, v := range r {
		g.sum[i] = g.sum[i]*g.decay + v
		g.sq[i] = g.sq[i]*g.decay + v*v
	}
}

func (g *regret) weigh(w, forecasts []float64) {
	sum := 0.0
	for i, f := range forecasts {
		w[i] = 0
		if f == f && g.sum[i] > 0 {
			w[i] = g.sum[i] / (1 + g.sq[i])
			sum += w[i]
		}
	}
	if sum > 0 {
		for i := range w {
			w[i] /= sum
		}
	}
}

// A stack finds the weights, none negative and all of them 1, whose mixture has the
// least squared error, over errors of which large ones count less.
type stack struct {
	k      int
	decay  float64
	n      float64
	c      []float64 // mean products of errors, lower triangle by rows
	w      []float64
	g      []float64 // scratch: c w
	shrink float64
}

func newStack(k int, halfLife float64) stack {
	s := stack{k: k, decay: math.Exp2(-1 / halfLife), c: make([]float64, k*(k+1)/2), w: make([]float64, k), g: make([]float64, k), shrink: .02}
	for i := range s.w {
		s.w[i] = 1 / float64(k)
	}
	return s
}

func (s *stack) learn(e []float64, weight float64) {
	s.n = s.n*s.decay + 1
	by := 1 / s.n
	keep, at := 1-by, 0
	for i := range s.k {
		ei := e[i] * weight * by
		row := s.c[at : at+i+1]
		for j := range row {
			row[j] = row[j]*keep + ei*e[j]
		}
		at += i + 1
	}
}

// solve improves the weights by moving some from the worst to the best, n times.
// full is scratch for the whole matrix, k by k.
func (s *stack) solve(n int, full []float64) {
	mean, at := 0.0, 0
	for i := range s.k {
		for j := 0; j <= i; j++ {
			full[i*s.k+j], full[j*s.k+i] = s.c[at], s.c[at]
			at++
		}
		mean += s.c[at-1]
	}
	ridge := s.shrink * mean / float64(s.k)
	for i := range s.k {
		row := full[i*s.k : i*s.k+s.k]
		g := 0.0
		for j, w := range s.w {
			if w > 0 {
				g += row[j] * w
			}
		}
		s.g[i] = g + ridge*s.w[i]
	}
	for range n {
		up, down := 0, -1
		for i := range s.g {
			if s.g[i] < s.g[up] {
				up = i
			}
			if s.w[i] > 0 && (down < 0 || s.g[i] > s.g[down]) {
				down = i
			}
		}
		curve := full[up*s.k+up] + full[down*s.k+down] - 2*full[up*s.k+down] + 2*ridge
		gain := s.g[down] - s.g[up]
		if !(gain > 0) || !(curve > 0) {
			return
		}
		d := min(gain/curve, s.w[down])
		s.w[up] += d
		s.w[down] -= d
		for i := range s.g {
			s.g[i] += d * (full[up*s.k+i] - full[down*s.k+i])
		}
		s.g[up] += d * ridge
		s.g[down] -= d * ridge
	}
}

func newMixer(k int, halfLife float64) *mixer {
	return &mixer{
		long: newRanking(k, halfLife*8), short: newRanking(k, halfLife),
		regret: regret{decay: math.Exp2(-1 / (halfLife * 8)), sum: make([]float64, k), sq: make([]float64, k)},
		stacks: [2]stack{newStack(k, halfLife*8), newStack(k, halfLife*2)},
		ways:   newRanking(waysN, halfLife),
	}
}

// blend makes one forecast; ways gets those it is made of.
func (m *mixer) blend(forecasts []float64, ways *[waysN]float64) float64 {
	var w [expertsN]float64
	m.long.weigh(w[:], forecasts, sharpness)
	ways[byLong] = dot(w[:], forecasts)
	ways[byMiddle] = middleOf(w[:], forecasts)
	m.short.weigh(w[:], forecasts, sharpness)
	ways[byShort] = dot(w[:], forecasts)
	m.regret.weigh(w[:], forecasts)
	ways[byRegret] = dotOr(w[:], forecasts, ways[byLong])
	for i := range m.stacks {
		ways[byStackLong+i] = dotOr(m.stacks[i].w, forecasts, ways[byLong])
	}
	var v [waysN]float64
	m.ways.weigh(v[:], ways[:], sharpness)
	return dot(v[:], ways[:])
}

// shares is what each expert has in the mixture. The median of experts has no shares;
// those of the ranking that it goes by stand for it.
func (m *mixer) shares(forecasts []float64, ways *[waysN]float64) (out [expertsN]float64) {
	var v [waysN]float64
	m.ways.weigh(v[:], ways[:], sharpness)
	var w [expertsN]float64
	add := func(by float64) {
		sum := 0.0
		for i, f := range forecasts {
			if f == f {
				sum += w[i]
			}
		}
		for i, f := range forecasts {
			if f == f && sum > 0 {
				out[i] += by * w[i] / sum
			}
		}
	}
	m.long.weigh(w[:], forecasts, sharpness)
	add(v[byLong] + v[byMiddle])
	m.short.weigh(w[:], forecasts, sharpness)
	add(v[byShort])
	m.regret.weigh(w[:], forecasts)
	add(v[byRegret])
	for i := range m.stacks {
		copy(w[:], m.stacks[i].w)
		add(v[byStackLong+i])
	}
	total := 0.0
	for _, s := range out {
		total += s
	}
	for i := range out {
		out[i] /= max(total, 1e-300)
	}
	return out
}

// learn takes in what came for a forecast of before.
func (m *mixer) learn(y float64, p *promise) {
	last := math.Abs(y - p.experts[0])
	m.scaled = min(m.scaled+1, 500)
	m.scale += (last - m.scale) / m.scaled
	s := max(m.scale, scaleMin*p.c)
	var loss, err, reg [expertsN]float64
	sign := 1.0
	if y > p.mix {
		sign = -1
	}
	for i, f := range p.experts {
		if f != f {
			f = p.mix
		}
		err[i] = min(max((f-y)/s, -errorMax), errorMax)
		loss[i] = min(lossMax, math.Abs(err[i]))
		reg[i] = sign * max(-lossMax, min(lossMax, (p.mix-f)/s))
	}
	m.long.learn(loss[:])
	m.short.learn(loss[:])
	m.regret.learn(reg[:])
	own := math.Abs(p.mix-y) / s
	for i := range m.stacks {
		m.stacks[i].learn(err[:], 1/max(own, .25))
	}
	var way [waysN]float64
	for i, f := range p.ways {
		way[i] = min(lossMax, math.Abs(f-y)/s)
	}
	m.ways.learn(way[:])
}

func (r *ranking) walk(c *codec) {
	c.f64(&r.n)
	c.all(r.loss)
}

func (s *stack) walk(c *codec) {
	c.f64(&s.n)
	c.all(s.c)
	c.all(s.w)
}

func (m *mixer) walk(c *codec) {
	c.f64(&m.scale, &m.scaled)
	m.long.walk(c)
	m.short.walk(c)
	c.all(m.regret.sum)
	c.all(m.regret.sq)
	for i := range m.stacks {
		m.stacks[i].walk(c)
	}
	m.ways.walk(c)
}

func dot(w, f []float64) float64 {
	sum := 0.0
	for i, v := range w {
		if v > 0 {
			sum += v * f[i]
		}
	}
	return sum
}

// dotOr is the mean of those that have a forecast; none: what is given.
func dotOr(w, f []float64, none float64) float64 {
	sum, n := 0.0, 0.0
	for i, v := range w {
		if v > 0 && f[i] == f[i] {
			sum += v * f[i]
			n += v
		}
	}
	if n < .05 {
		return none
	}
	return sum / n
}

// middleOf is the weighted median.
func middleOf(w, f []float64) float64 {
	var order [expertsN]int
	n := 0
	for i := range f {
		if f[i] != f[i] || w[i] < 1e-6 {
			continue
		}
		j := n
		for j > 0 && f[order[j-1]] > f[i] {
			order[j] = order[j-1]
			j--
		}
		order[j] = i
		n++
	}
	sum := 0.0
	for _, i := range order[:n] {
		sum += w[i]
		if sum >= .5 {
			return f[i]
		}
	}
	return f[order[max(0, n-1)]]
}
