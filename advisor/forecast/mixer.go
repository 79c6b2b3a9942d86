package forecast

import (
	"math"
	"weir/advisor/codec"
)

// The ways to combine the forecasts of experts.
const (
	byLately = iota // weights by recent losses
	byLong          // weights by losses over a long time
	byStack         // weights by least squares, so that errors cancel
	waysN
)

const (
	longBy, stackBy, waysBy = 12, 4, 6 // the memories of a mixer, in half-lives

	// errorMax bounds an error, relative to mean changes of the rate. It is large,
	// because predicting a crowd that comes once a week is worth more than being slightly
	// better the rest of the time.
	errorMax = 20.0
	// sharpness is how fast weight is lost with worse losses than the best: at 2 % a
	// factor of two, for a half-life of sharpFrom. A mean over fewer forecasts is less
	// certain, by the square root.
	sharpness, sharpFrom = 40.0, 150.0
	scaleMin             = .1  // the unit of losses is at least this share of c
	ownLeast             = .25 // least error of the mixture by which a row of the stack is weighted
	knownLeast           = .05 // least total weight of experts with a forecast
	// stackSteps is how often a stack moves weight when it is solved, stackShrink the
	// penalty for uneven weights, relative to the mean squared error.
	stackSteps, stackShrink = 20, .005
)

// A mixer combines the forecasts of all experts for one horizon, and learns from the
// actual rates.
type mixer struct {
	scale  float64          // mean |error| of the last value
	scaled float64          // weight behind scale
	ranks  [byStack]ranking // by recent losses, and by those over a long time
	stack  stack
	ways   ranking
	heard  [expertsN]float64 // 1: a forecast of the expert has been scored
}

func newMixer(k int, halfLife float64) *mixer {
	return &mixer{
		ranks: [...]ranking{newRanking(k, halfLife), newRanking(k, longBy*halfLife)},
		stack: newStack(k, stackBy*halfLife), ways: newRanking(waysN, waysBy*halfLife),
	}
}

// A ranking has the mean loss of each expert, with a half-life of halfLife.
type ranking struct {
	decay float64
	sharp float64
	n     float64
	loss  []float64
}

func newRanking(n int, halfLife float64) ranking {
	return ranking{sharp: sharpness * min(1, math.Sqrt(halfLife/sharpFrom)), decay: math.Exp2(-1 / halfLife),
		loss: make([]float64, n)}
}

// learn updates with losses. NaN leaves an expert's loss unchanged.
func (r *ranking) learn(loss []float64) {
	r.n = r.n*r.decay + 1
	for i, l := range loss {
		if l == l {
			r.loss[i] += (l - r.loss[i]) / r.n
		}
	}
}

// weigh fills w with weights that sum to 1 over the experts with a forecast, proportional
// to exp(-sharp × excess loss over the best).
func (r *ranking) weigh(w, forecasts []float64) {
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
		if d *= r.sharp; d < 16 {
			w[i] = math.Exp(-d)
			sum += w[i]
		}
	}
	for i := range w {
		w[i] /= sum
	}
}

// A stack finds the non-negative weights with sum 1 whose mixture has the least squared
// error, with large errors counting less.
type stack struct {
	k      int
	decay  float64
	n      float64
	c      []float64 // mean products of errors, k by k
	w      []float64
	g      []float64 // scratch: c w
	shrink float64
}

func newStack(k int, halfLife float64) stack {
	s := stack{k: k, decay: math.Exp2(-1 / halfLife), c: make([]float64, k*k), w: make([]float64, k),
		g: make([]float64, k), shrink: stackShrink}
	for i := range s.w {
		s.w[i] = 1 / float64(k)
	}
	return s
}

// learn updates with the errors of all experts. NaN leaves an expert unchanged.
func (s *stack) learn(e []float64, weight float64) {
	s.n = s.n*s.decay + 1
	by := 1 / s.n
	for i, ei := range e {
		row := s.c[i*s.k : (i+1)*s.k]
		for j, ej := range e {
			if p := ei * ej; p == p {
				row[j] += (p*weight - row[j]) * by
			}
		}
	}
}

// solve improves the weights of those with a forecast by moving weight from the worst to
// the best, n times. The others get none.
func (s *stack) solve(n int, forecasts []float64) {
	s.wake(forecasts)
	mean := 0.0
	for i := range s.k {
		mean += s.c[i*s.k+i]
	}
	ridge := s.shrink * mean / float64(s.k)
	for i := range s.g {
		s.g[i] = dot(s.w, s.c[i*s.k:(i+1)*s.k]) + ridge*s.w[i]
	}
	for range n {
		up, down := 0, -1
		for i, f := range forecasts {
			if f != f {
				continue
			}
			if s.g[i] < s.g[up] {
				up = i
			}
			if s.w[i] > 0 && (down < 0 || s.g[i] > s.g[down]) {
				down = i
			}
		}
		better, worse := s.c[up*s.k:(up+1)*s.k], s.c[down*s.k:(down+1)*s.k]
		curve := better[up] + worse[down] - 2*better[down] + 2*ridge
		gain := s.g[down] - s.g[up]
		if !(gain > 0) || !(curve > 0) {
			return
		}
		d := min(gain/curve, s.w[down])
		s.w[up] += d
		s.w[down] -= d
		for i := range s.g {
			s.g[i] += d * (better[i] - worse[i])
		}
		s.g[up] += d * ridge
		s.g[down] -= d * ridge
	}
}

// wake distributes the weight of those without a forecast among the others.
func (s *stack) wake(forecasts []float64) {
	awake, n := 0.0, 0.0
	for i, f := range forecasts {
		if f == f {
			awake += s.w[i]
			n++
		}
	}
	for i, f := range forecasts {
		switch {
		case f != f:
			s.w[i] = 0
		case awake < knownLeast:
			s.w[i] = 1 / n
		default:
			s.w[i] /= awake
		}
	}
}

// blend returns the combined forecast; ways is set to the forecasts that it combines.
func (m *mixer) blend(forecasts []float64, ways *[waysN]float64) float64 {
	var w [expertsN]float64
	for i := range m.ranks {
		m.ranks[i].weigh(w[:], forecasts)
		ways[i] = dot(w[:], forecasts)
	}
	ways[byStack] = dotOr(m.stack.w, forecasts, ways[byLately])
	var v [waysN]float64
	m.ways.weigh(v[:], ways[:])
	return dot(v[:], ways[:])
}

// shares returns the share of each expert in the mixture.
func (m *mixer) shares(forecasts []float64, ways *[waysN]float64) (out [expertsN]float64) {
	var v [waysN]float64
	m.ways.weigh(v[:], ways[:])
	var w [waysN][expertsN]float64
	for i := range m.ranks {
		m.ranks[i].weigh(w[i][:], forecasts)
	}
	known := 0.0
	for i, f := range forecasts {
		if f == f {
			w[byStack][i] = m.stack.w[i]
			known += m.stack.w[i]
		}
	}
	if known < knownLeast {
		w[byStack], known = w[byLately], 1
	}
	for i := range out {
		out[i] = v[byLately]*w[byLately][i] + v[byLong]*w[byLong][i] + v[byStack]*w[byStack][i]/known
	}
	return out
}

// learn updates with the actual rate for an earlier forecast.
func (m *mixer) learn(y float64, p *promise) {
	last := math.Abs(y - p.experts[expertLast])
	m.scaled = min(m.scaled+1, 500)
	m.scale += (last - m.scale) / m.scaled
	s := max(m.scale, scaleMin*p.c)
	var loss, err [expertsN]float64
	for i, f := range p.experts {
		if f == f {
			m.heard[i] = 1
		} else if m.heard[i] == 0 {
			f = p.experts[expertLast]
		}
		err[i] = min(max((f-y)/s, -errorMax), errorMax)
		loss[i] = math.Abs(err[i])
	}
	for i := range m.ranks {
		m.ranks[i].learn(loss[:])
	}
	own := math.Abs(p.mix-y) / s
	m.stack.learn(err[:], 1/max(own, ownLeast))
	var way [waysN]float64
	for i, f := range p.ways {
		way[i] = min(errorMax, math.Abs(f-y)/s)
	}
	m.ways.learn(way[:])
}

func (r *ranking) walk(c *codec.Codec) {
	c.Float(&r.n)
	c.Floats(r.loss)
}

func (m *mixer) walk(c *codec.Codec) {
	c.Float(&m.scale, &m.scaled, &m.stack.n)
	for i := range m.ranks {
		m.ranks[i].walk(c)
	}
	c.Floats(m.stack.c)
	c.Floats(m.stack.w)
	m.ways.walk(c)
	c.Floats(m.heard[:])
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

// dotOr returns the weighted mean of the available forecasts, or none if there are none.
func dotOr(w, f []float64, none float64) float64 {
	sum, n := 0.0, 0.0
	for i, v := range w {
		if v > 0 && f[i] == f[i] {
			sum += v * f[i]
			n += v
		}
	}
	if n < knownLeast {
		return none
	}
	return sum / n
}
