package policy

import "math"

// collapsed is the share of errors that is an overload even when nobody knows how
// fast the target is.
const collapsed = 0.3

// weigh multiplies the weights by how likely r, with x = ln(p95/base), is at each
// cell.
func (p *Policy) weigh(r reading, x, base float64) {
	b := &p.st.Belief
	trust := min(1, r.n/thin)
	lnA := math.Log(r.load)
	failing := x > 0.4 && lowest(r.errors, r.n) > 0.02 && !p.st.Guard.Fault.Active
	best := 0.0
	for i := range cells {
		lnu := lnA - b.First - float64(i)*cellWidth
		doubt := p.mildness(r, b.Backlog[i], lnA-lnu)
		excuse := math.Inf(-1)
		if b.Backlog[i] > 0 {
			excuse = math.Log(min(clip, 1+b.Backlog[i]/base))
		}
		for k := range widths {
			like := likelihood(x, lnu, excuse, &p.laws, k)
			switch {
			case failing && lnu < math.Log(0.9) && excuse < x:
				like *= 0.2
			case failing:
				like *= doubt
			case r.errors < 0.005 && lnu > 0:
				like *= 0.3
			}
			best = max(best, like)
			if trust < 1 {
				like = math.Pow(like, trust)
			}
			b.Weights[k][i] *= like + 1e-12
		}
	}
	b.normalise()
	b.queue(r, base)
	p.missed(r, best, x)
}

// likelihood of x = ln(p95/base) at a load of width k, when a backlog explains
// anything up to excuse: Student's t with 4 degrees of freedom around the law.
// A queue that grows shows at least three times the base.
func likelihood(x, lnu, excuse float64, l *laws, k int) float64 {
	if lnu > lnFull {
		return math.Exp(-8 * max(0, lnThree-x))
	}
	law := l.at(k, lnu)
	d := x - law
	if d > 0 {
		d = max(0, x-max(law, excuse))
	}
	d /= noise
	y := 1 + d*d/4
	return 1 / (y * y * math.Sqrt(y))
}

const (
	lnFull  = -0.020202707317519466 // ln 0.98
	lnThree = 1.0986122886681098
)

// mildness is how well a capacity explains the share of errors when these are
// clients that gave up: a queue that grows by u-1 seconds each second reaches their
// patience, which is about the p95 then, after so long, and nobody before that gave
// up. While the limit refuses the load is at times what it lets through at most.
func (p *Policy) mildness(r reading, backlog, lnC float64) float64 {
	load := r.load
	if r.binds {
		load = max(load, r.rate)
	}
	growth := load*math.Exp(-lnC) - 1
	if growth <= 0 && backlog > r.p95/2 {
		return 1 // they gave up in the queue of before
	}
	early := r.dt
	if growth > 0 {
		early = max(0, r.p95-backlog) / growth
	}
	if r.errors > max(0, 1-early/r.dt)+0.15 {
		return 0.01
	}
	return 1
}

// queue lets each capacity work off, or build up, its backlog over r. What was
// seen bounds it: without errors nobody waited longer than the p95 by much.
func (b *Belief) queue(r reading, base float64) {
	seen := math.Inf(1)
	if r.errors < 0.01 {
		seen = max(0, 1.2*(r.p95-1.5*base))
	}
	for i := range b.Backlog {
		capacity := math.Exp(b.First + float64(i)*cellWidth)
		u := r.load / capacity
		q := b.Backlog[i] + (u-1)*r.dt
		if u > 0.95 { // chance alone lets it wait as long as was seen
			q = max(q, r.p95-1.5*base)
		}
		b.Backlog[i] = min(max(q, 0), seen, backlogMax)
	}
}

// backlogMax is the longest queue that is imagined, in seconds: servers shed and
// clients leave before.
const backlogMax = 10.0

// missed starts afresh around the present rate when three snapshots in a row are
// slow although every capacity believed in would be at ease.
func (p *Policy) missed(r reading, best, x float64) {
	b := &p.st.Belief
	outside := x > lnThree && r.n >= thin && best < 0.05 && r.binds
	if !outside {
		b.Missed = 0
		return
	}
	if b.Missed++; b.Missed >= 3 {
		*b = newBelief(math.Log(r.admitted), func(x float64) float64 { return normal(x, 1) })
	}
}
