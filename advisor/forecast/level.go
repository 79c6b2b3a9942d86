package forecast

import (
	"math"
	"weir/advisor/codec"
)

// alphas are the weights of the newest slot in the simple exponential smoothings.
var alphas = [...]float64{.02, .05, .1, .2, .35, .6}

// Smoothings that are used by themselves.
const (
	levelSlow = 1 // corresponds to the last half hour with slots of a minute
	levelBase = 4 // base of the regression
	levelFast = 5
	levelsN   = len(alphas)
	recentN   = 3 // newest slots kept unchanged
)

// levels are predictions from the last slots, without a calendar.
type levels struct {
	n      float64 // slots seen since the start
	ses    [levelsN]float64
	recent [recentN]float64 // newest first
	jump   float64          // mean |z - z of the base level|
	swing  float64          // mean |z of the base level - z of a slow one|
}

// learn updates with the rate of a slot, k slots after the previous one.
func (l *levels) learn(y, c, k float64) {
	copy(l.recent[1:], l.recent[:])
	l.recent[0] = y
	l.n++
	z := math.Log(y + c)
	if l.n == 1 {
		for i := range l.recent {
			l.recent[i] = y
		}
		for i := range l.ses {
			l.ses[i] = y
		}
		return
	}
	for i, a := range alphas {
		// The mean of all slots until the memory is longer than that.
		w := max(share(a, k), 1/l.n)
		l.ses[i] += w * (y - l.ses[i])
	}
	base := math.Log(l.ses[levelBase] + c)
	w := max(.003, 1/l.n)
	l.jump += w * (math.Abs(z-base) - l.jump)
	l.swing += w * (math.Abs(base-math.Log(l.ses[levelSlow]+c)) - l.swing)
}

// scale multiplies all levels, after a gap over which the calendar knows how far they
// moved.
func (l *levels) scale(by float64) {
	for i := range l.ses {
		l.ses[i] *= by
	}
	for i := range l.recent {
		l.recent[i] *= by
	}
}

func (l *levels) walk(c *codec.Codec) {
	c.Float(&l.n, &l.jump, &l.swing)
	c.Floats(l.ses[:])
	c.Floats(l.recent[:])
}

// share returns the weight of the newest value after k slots.
func share(alpha, k float64) float64 {
	if k == 1 {
		return alpha
	}
	return 1 - math.Pow(1-alpha, k)
}
