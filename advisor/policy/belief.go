package policy

import "math"

// The belief is a distribution over what the target can do, on a grid of
//
//	C  requests/s at which its queue would grow for ever, and
//	c  how many it works on at a time, which shapes the way to there.
//
// By Sakasegawa's approximation the p95 at a load of u = a/C is about
//
//	f(u) = 1 + u^(sqrt(2(c+1))-1) / (c (1-u))
//
// times that at low load; c = 1 is M/M/1. A snapshot's p95 is a noisy reading of
// that, so each cell's weight is multiplied by how likely the reading is there,
// and time blurs the weights, because capacities change.
//
// Every C also carries the backlog that it would have built up: waiting work is an
// excuse for a high p95 at a low load, and without it the belief would follow the
// limit downwards while the target only clears its queue.

// cells of cellWidth in ln C span a factor of 7. Where C leaves this window the
// window moves.
const (
	cells     = 160
	cellWidth = 0.0125
)

// widths are the values of c, with what is believed of them before anything is seen.
var widths = [...]struct{ c, prior float64 }{{1, 0.1}, {4, 0.3}, {16, 0.3}, {64, 0.3}}

const (
	clip       = 10.0 // highest p95/base that is told apart from more; a client's patience cuts it off anyway
	lnClip     = 2.302585092994046
	noise      = 0.25  // scale of the error of ln p95
	thin       = 200.0 // requests from which a snapshot counts in full
	drift      = 0.015 // deviation of ln C after one minute
	driftAlert = 0.025 // the same within alertSpan of a sudden change
	alertSpan  = 600.0 // s
	surprise   = 0.004 // probability per minute that C jumps
	jumpLength = 0.4   // mean of |ln C| of a jump
	full       = 0.98  // load from which the queue is taken to grow
)

// laws are the tables of ln f. Immutable after newLaws.
type laws struct {
	lnf [len(widths)][lawCells]float64 // at ln u = -(i × cellWidth)
}

const lawCells = 400 // down to u = e^-5, where all are 1

func newLaws() laws {
	var l laws
	for k, w := range widths {
		power := math.Sqrt(2*(w.c+1)) - 1
		for i := range l.lnf[k] {
			u := min(math.Exp(-float64(i)*cellWidth), 0.9999)
			f := 1 + math.Pow(u, power)/(w.c*(1-u))
			l.lnf[k][i] = math.Log(min(f, clip))
		}
	}
	return l
}

// at is ln f of width k at ln u ≤ 0.
func (l *laws) at(k int, lnu float64) float64 {
	x := -lnu / cellWidth
	if x >= lawCells-1 {
		return 0
	}
	i := int(x)
	return l.lnf[k][i] + (x-float64(i))*(l.lnf[k][i+1]-l.lnf[k][i])
}

// loadAt is ln u at which width k slows the target down to ratio.
func (l *laws) loadAt(k int, ratio float64) float64 {
	want := math.Log(ratio)
	low, high := 0, lawCells-1 // lnf falls
	for high-low > 1 {
		if mid := (low + high) / 2; l.lnf[k][mid] > want {
			low = mid
		} else {
			high = mid
		}
	}
	drop := l.lnf[k][low] - l.lnf[k][high]
	if drop <= 0 {
		return -float64(high) * cellWidth
	}
	return -(float64(low) + (l.lnf[k][low]-want)/drop) * cellWidth
}

// A Belief is the weights of the grid: Weights[k][i] of width k at
// ln C = First + i × 0.0125, and the Backlog in seconds that each C would have.
type Belief struct {
	First   float64     `json:"first"`
	Weights [][]float64 `json:"weights"`
	Backlog []float64   `json:"backlog"`
	Alert   float64     `json:"alert,omitempty"`  // s left of a wider blur
	Missed  int         `json:"missed,omitempty"` // snapshots in a row that no cell explains
}

// believe takes r into the belief.
func (p *Policy) believe(r reading, elapsed float64) {
	b := &p.st.Belief
	if b.Weights == nil {
		if r.admitted <= 0 && p.set.CapacityHint == 0 {
			return
		}
		p.prior(r)
	}
	b.blur(elapsed)
	switch {
	case r.p95 <= 0 || r.admitted <= 0 || p.st.Guard.Fault.P95 > 0:
	case p.st.Base > 0:
		p.weigh(r, math.Log(min(max(r.p95/p.st.Base, 0.2), clip)), p.st.Base)
	case lowest(r.errors, r.n) > collapsed:
		p.weigh(r, lnClip, r.p95/clip)
	}
	b.recentre()
}

// prior starts the belief: around the hint, half of it close by, or widely around
// the limit in force, which somebody chose.
func (p *Policy) prior(r reading) {
	if p.set.CapacityHint > 0 {
		p.st.Belief = newBelief(math.Log(p.set.CapacityHint), hinted)
		return
	}
	centre := max(r.admitted*1.5, min(r.rate, r.admitted*20))
	p.st.Belief = newBelief(math.Log(centre), func(x float64) float64 { return normal(x, 1) })
}

// hinted is the density of ln C around the hint.
func hinted(x float64) float64 { return normal(x, 0.1) + normal(x, 0.5) }

// forgetBase keeps of the belief only where it was, since the base that it was
// learned with is wrong.
func (p *Policy) forgetBase() {
	b := &p.st.Belief
	if b.Weights == nil {
		return
	}
	centre := b.First + float64(b.middle())*cellWidth
	hint := math.Log(p.set.CapacityHint)
	*b = newBelief(centre, func(x float64) float64 {
		if p.set.CapacityHint == 0 {
			return normal(x, 0.4)
		}
		return normal(x, 0.4) * (hinted(centre+x-hint) + 0.01)
	})
}

// normal is the density of a centred normal distribution.
func normal(x, sd float64) float64 { return math.Exp(-x*x/(2*sd*sd)) / sd }

func newBelief(lnCentre float64, density func(x float64) float64) Belief {
	b := Belief{
		First:   lnCentre - cellWidth*cells/2,
		Weights: make([][]float64, len(widths)),
		Backlog: make([]float64, cells),
	}
	for k := range widths {
		b.Weights[k] = make([]float64, cells)
		for i := range b.Weights[k] {
			b.Weights[k][i] = widths[k].prior * density(float64(i-cells/2)*cellWidth)
		}
	}
	b.normalise()
	return b
}

func (b *Belief) normalise() {
	sum := 0.0
	for _, w := range b.Weights {
		for _, v := range w {
			sum += v
		}
	}
	for _, w := range b.Weights {
		for i := range w {
			w[i] /= sum
		}
	}
}

// blur lets seconds pass.
func (b *Belief) blur(seconds float64) {
	sd := drift
	if b.Alert > 0 {
		sd = driftAlert
		b.Alert = max(0, b.Alert-seconds)
	}
	minutes := min(seconds/60, 60)
	variance := sd * sd * minutes / (cellWidth * cellWidth)
	passes := int(math.Ceil(variance / 0.5))
	q := variance / 2 / float64(max(passes, 1))
	for _, w := range b.Weights {
		for range passes {
			diffuse(w, q)
		}
	}
	b.jump(1 - math.Pow(1-surprise, minutes))
}

// jump lets the capacity be somewhere else with probability share: the further
// from what it was, the less likely.
func (b *Belief) jump(share float64) {
	middle := b.middle()
	sum := 0.0
	var kernel [cells]float64
	for i := range kernel {
		kernel[i] = math.Exp(-math.Abs(float64(i-middle)) * cellWidth / jumpLength)
		sum += kernel[i]
	}
	for k, w := range b.Weights {
		for i := range w {
			w[i] = (1-share)*w[i] + share*widths[k].prior*kernel[i]/sum
		}
	}
}

// middle is the cell of the median of C.
func (b *Belief) middle() int {
	sum := 0.0
	for i := range cells - 1 {
		for _, w := range b.Weights {
			sum += w[i]
		}
		if sum >= 0.5 {
			return i
		}
	}
	return cells - 1
}

// diffuse moves the share q of each cell to either neighbour.
func diffuse(w []float64, q float64) {
	before := w[0]
	for i := range w {
		after := before
		if i+1 < len(w) {
			after = w[i+1]
		} else {
			after = w[i]
		}
		here := w[i]
		w[i] = (1-2*q)*here + q*(before+after)
		before = here
	}
}

// recentre moves the window so that the middle of the belief stays away from its
// edges. What comes into view is as likely as what was at the edge.
func (b *Belief) recentre() {
	middle := b.middle()
	shift := middle - cells/2
	if middle > cells/5 && middle < cells*4/5 {
		return
	}
	for _, w := range b.Weights {
		slide(w, shift)
	}
	slide(b.Backlog, shift)
	b.First += float64(shift) * cellWidth
	b.normalise()
}

// slide moves w by shift places; new places get what is at the edge, less with
// each place as with a jump.
func slide(w []float64, shift int) {
	const fade = 1 - cellWidth/jumpLength
	if shift > 0 {
		for i := copy(w, w[shift:]); i < len(w); i++ {
			w[i] = w[i-1] * fade
		}
		return
	}
	copy(w[-shift:], w)
	for i := -shift - 1; i >= 0; i-- {
		w[i] = w[i+1] * fade
	}
}
