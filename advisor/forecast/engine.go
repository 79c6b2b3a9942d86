package forecast

import (
	"math"
	"weir/advisor/codec"
)

// horizonsAhead are the horizons in seconds that a forecaster learns in addition to the
// first two slots.
var horizonsAhead = [...]float64{15, 60, 300, 600, 900, 1800, 3600}

const (
	// solvedAllFrom is the width of slots, in seconds, from which all classes are solved
	// in every step; otherwise one is.
	solvedAllFrom = 600.0
	// oddMax is how many consecutive intervals must differ from the width of the slots,
	// and agree with each other to within oddShare, before the width changes.
	oddMax   = 5
	oddShare = .2
)

// An engine learns from slots of one width.
type engine struct {
	dt      float64
	classes []*class
	levels  levels
	seasons seasons
	moment  moment // scratch of predict
	turn    int    // index of the class whose regression is solved next
	odd     int    // consecutive intervals that differ from dt
	oddDt   float64
}

func newEngine(dt float64) *engine {
	e := &engine{dt: dt, seasons: newSeasons()}
	e.classes = append(e.classes, newClass(dt, dt), newClass(2*dt, dt))
	for _, h := range horizonsAhead {
		if steps := math.Round(h / dt); steps >= 2.5 {
			e.classes = append(e.classes, newClass(steps*dt, dt))
		}
	}
	return e
}

// solve solves the regression and the mixture of some classes, in turn.
func (e *engine) solve() {
	n := 1
	if e.dt >= solvedAllFrom {
		n = len(e.classes)
	}
	for range n {
		e.turn %= len(e.classes)
		e.classes[e.turn].solve()
		e.turn++
	}
}

// settled reports whether the width of slots has changed, and returns the new one.
func (e *engine) settled(interval float64) (dt float64, changed bool) {
	if math.Abs(interval-e.dt) <= oddShare*e.dt {
		e.odd = 0
		return 0, false
	}
	if e.odd > 0 && math.Abs(interval-e.oddDt) > oddShare*e.oddDt {
		e.odd = 0
	}
	if e.odd == 0 {
		e.oddDt = interval
	}
	e.odd++
	return e.oddDt, e.odd >= oddMax
}

// retimed returns an engine for slots of another width. It starts with what the nearest
// horizons have learned.
func (e *engine) retimed(dt float64) *engine {
	n := newEngine(dt)
	n.levels, n.seasons = e.levels, e.seasons
	for _, k := range n.classes {
		best := e.classes[0]
		for _, o := range e.classes {
			if math.Abs(math.Log(o.ahead/k.ahead)) < math.Abs(math.Log(best.ahead/k.ahead)) {
				best = o
			}
		}
		codec.Copy(best.walkLearnt, k.walkLearnt)
	}
	return n
}

// walk walks over an engine whose width is that of newEngine.
func (e *engine) walk(c *codec.Codec) {
	e.levels.walk(c)
	e.seasons.walk(c)
	c.Int(&e.turn, &e.odd)
	c.Float(&e.oddDt)
	for _, k := range e.classes {
		k.walk(c)
	}
}
