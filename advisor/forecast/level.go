package forecast

import "math"

// alphas are the weights of the newest slot in the simple exponential smoothings.
var alphas = [...]float64{.02, .05, .1, .2, .35, .6}

const (
	levelsN  = len(alphas)
	recentN  = 5 // newest slots kept as they are
	baseOf   = 4 // the level that regressions start from
	holtsN   = len(holtSettings)
	tracksN  = len(trackings)
	growthOf = 1.0986 // ln 3: the most that a trend may add or take
)

// holtSettings are alpha, beta, phi of the damped trends.
var holtSettings = [...][3]float64{{.5, .1, .9}, {.3, .05, .95}, {.8, .4, .9}}

// trackings are the memories of the levels that choose their own α.
var trackings = [...]float64{.1, .3}

// A tracker is a level that follows at once when its errors are all on one side, and
// hardly moves when they cancel (Trigg and Leach 1967): α = |mean error| / mean |error|.
type tracker struct{ level, err, abs float64 }

func (r *tracker) learn(y, memory float64) {
	e := y - r.level
	r.err += memory * (e - r.err)
	r.abs += memory * (math.Abs(e) - r.abs)
	if r.abs > 0 {
		r.level += min(math.Abs(r.err)/r.abs, 1) * e
	}
}

// holt is a level and a damped trend of z.
type holt struct{ level, trend float64 }

// levels are what the last slots say, without any calendar.
type levels struct {
	n      float64 // slots seen since the start
	ses    [levelsN]float64
	recent [recentN]float64 // newest first
	holts  [holtsN]holt
	tracks [tracksN]tracker
	jump   float64 // mean |z - z of the base level|
	swing  float64 // mean |z of the base level - z of a slow one|
}

// learn takes in the rate of a slot, seen k slots' time after the one before.
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
		for i := range l.holts {
			l.holts[i] = holt{level: z}
		}
		for i := range l.tracks {
			l.tracks[i] = tracker{level: y}
		}
		return
	}
	for i, a := range alphas {
		// The mean of all until it is remembered longer than that.
		w := max(share(a, k), 1/l.n)
		l.ses[i] += w * (y - l.ses[i])
	}
	for i, m := range trackings {
		l.tracks[i].learn(y, m)
	}
	base := math.Log(l.ses[baseOf] + c)
	w := max(.003, 1/l.n)
	l.jump += w * (math.Abs(z-base) - l.jump)
	l.swing += w * (math.Abs(base-math.Log(l.ses[1]+c)) - l.swing)
	for i := range l.holts {
		h, s := &l.holts[i], holtSettings[i]
		guess := h.level + s[2]*h.trend
		level := guess + s[0]*(z-guess)
		h.trend = s[2]*h.trend + s[1]*s[0]*(z-guess)
		h.level = level
	}
}

// scale multiplies all levels: after a gap the calendar knows how far they moved.
func (l *levels) scale(by float64) {
	for i := range l.ses {
		l.ses[i] *= by
	}
	for i := range l.recent {
		l.recent[i] *= by
	}
	for i := range l.holts {
		l.holts[i].level += math.Log(by)
		l.holts[i].trend = 0
	}
	for i := range l.tracks {
		l.tracks[i].level *= by
	}
}

// holtAhead is the i-th damped trend k slots on.
func (l *levels) holtAhead(i int, k, c float64) float64 {
	phi := holtSettings[i][2]
	growth := l.holts[i].trend * phi * (1 - math.Pow(phi, k)) / (1 - phi)
	growth = min(max(growth, -growthOf), growthOf)
	return max(0, math.Exp(l.holts[i].level+growth)-c)
}

// middle is the median of the newest slots: it does not follow a single spike.
func (l *levels) middle() float64 {
	s := l.recent
	for i := 1; i < len(s); i++ {
		for j := i; j > 0 && s[j] < s[j-1]; j-- {
			s[j], s[j-1] = s[j-1], s[j]
		}
	}
	return s[len(s)/2]
}

func (l *levels) walk(c *codec) {
	c.f64(&l.n, &l.jump, &l.swing)
	c.all(l.ses[:])
	c.all(l.recent[:])
	for i := range l.holts {
		c.f64(&l.holts[i].level, &l.holts[i].trend)
	}
	for i := range l.tracks {
		c.f64(&l.tracks[i].level, &l.tracks[i].err, &l.tracks[i].abs)
	}
}

// share is the weight of the newest after k slots' time.
func share(alpha, k float64) float64 {
	if k == 1 {
		return alpha
	}
	return 1 - math.Pow(1-alpha, k)
}
