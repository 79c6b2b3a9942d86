package gate

import (
	"math"
	"time"
)

const (
	// A limit has fallen too far if cutDeep times as many requests are worked on.
	cutDeep = 1.35
	// constant is the spread of answer times, from the 10th to the 75th percentile, relative to their
	// median, up to which they count as constant.
	constant = .15
)

// A cut is where the limit was before it fell, with the median answer time and the answers per second.
type cut struct{ limit, mid, rate float64 }

// tooFar checks answer times that hardly varied when calm, after the limit has fallen by half. As
// many requests are worked on as answers came per second before, times what they take now: if that is
// clearly more than the limit, it has fallen too far, or there was no queue at all. A long queue makes
// answer times vary little, too: where they varied when calm they must be constant now, and no slower
// than before. A cut is checked once.
func (g *Gate) tooFar(r *reading) bool {
	b := g.before
	if !r.full || b.limit == 0 || g.limit > .55*b.limit {
		return false
	}
	if g.baseline.wide() && (r.high-r.low > constant*r.mid || r.mid > (1+constant)*b.mid) {
		return false
	}
	if b.worked(r) >= cutDeep*g.limit {
		return true
	}
	g.before = cut{}
	return false
}

// worked returns how many requests are worked on by Little's law if as many answers come as before.
func (b *cut) worked(r *reading) float64 {
	return b.rate * r.takes * (1 + r.noise) / float64(time.Second)
}

// takeBack raises a limit that has fallen too far.
func (g *Gate) takeBack(_ time.Time, r *reading) {
	b := g.before
	worked := b.worked(r)
	g.before = cut{}
	g.slower = r.mid / g.baseline.mid
	g.set(min(b.limit, worked+math.Sqrt(worked)))
}
