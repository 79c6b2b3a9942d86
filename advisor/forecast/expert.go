package forecast

import "math"

// Which forecast stands where.
const (
	expertLast    = 0
	expertSes     = 1
	expertHolt    = expertSes + levelsN
	expertMiddle  = expertHolt + holtsN
	expertTrack   = expertMiddle + 1
	expertSeason  = expertTrack + tracksN
	expertRidge   = expertSeason + seasonsN*seasonWays
	expertsN      = expertRidge + ridgesN
	seasonWays    = 1 + len(barAlphas)
	ridgesN       = 4
	ridgePlain    = 3      // the one on plain rates
	ratioOf       = 1.6094 // ln 5: the most that a season may multiply by
	featuresShort = 11
	featuresLong  = featuresShort + 2*seasonsN
)

// barAlphas are the weights with which a level is taken out of its season.
var barAlphas = [...]float64{.1, .35, 1}

const barOf = 1 // the one that regressions use

// The seasons that experts know.
const (
	seasonYesterday = iota
	seasonLastWeek
	seasonDay
	seasonWeek
	seasonCourse
	seasonCore
	seasonFine
	seasonHour
	seasonsN
)

var seasonNames = [...]string{"yesterday", "last_week", "day_profile", "week_profile", "course", "core", "minute_of_day", "minute_of_hour"}

// bars are the smoothed z of each season at the instants seen.
type bars [seasonsN][len(barAlphas)]float64

// learn takes in z of the seasons now.
func (b *bars) learn(s *[seasonsN]float64, k float64) {
	for j, z := range s {
		for i, a := range barAlphas {
			if b[j][i] != b[j][i] || z != z {
				b[j][i] = z
				continue
			}
			b[j][i] += share(a, k) * (z - b[j][i])
		}
	}
}

// A view is what is known at an instant, for the experts to say what follows.
type view struct {
	c      float64
	levels *levels
	bars   *bars
	heft   float64
	unit   float64                // of the regressions on plain rates
	logs   [featuresShort]float64 // the features that hold for every horizon
	plains [featuresShort]float64
	z      float64           // of the base level
	bar    [seasonsN]float64 // the bars that regressions use, as rates
}

func newView(l *levels, b *bars, c, mean float64) view {
	v := view{c: c, levels: l, bars: b, unit: l.ses[0] + c}
	v.heft = min(max((l.ses[baseOf]+c)/(mean+c), .1), 5)
	var z [levelsN]float64
	for i, y := range l.ses {
		z[i] = math.Log(y + c)
	}
	r := &l.recent
	z0, z1, z2 := math.Log(r[0]+c), math.Log(r[1]+c), math.Log(r[2]+c)
	v.z = z[baseOf]
	x, p := &v.logs, &v.plains
	x[0], x[1], x[2], x[3] = 1, z0-z1, z1-z2, z0-z[5]
	p[0], p[1], p[2], p[3] = 1, (r[0]-r[1])/v.unit, (r[1]-r[2])/v.unit, (r[0]-l.ses[5])/v.unit
	for i := range levelsN - 1 {
		x[4+i] = z[i+1] - z[i]
		p[4+i] = (l.ses[i+1] - l.ses[i]) / v.unit
	}
	x[9] = beyond(z0-z[baseOf], 2*l.jump)
	x[10] = beyond(z[baseOf]-z[1], 2*l.swing)
	p[9] = beyond((r[0]-l.ses[baseOf])/v.unit, 2*l.jump)
	p[10] = beyond((l.ses[baseOf]-l.ses[1])/v.unit, 2*l.swing)
	for i := range p {
		p[i] = min(max(p[i], -plainMax), plainMax)
	}
	for j := range v.bar {
		v.bar[j] = math.Exp(b[j][barOf]) - c
	}
	return v
}

// plainMax bounds the features and targets of regressions on plain rates.
const plainMax = 9

// base is the level that regressions start from.
func (v *view) base() float64 { return v.levels.ses[baseOf] }

// simple fills in the experts that learn nothing by themselves; s are the z of the
// seasons at the slot that is k slots ahead.
func (v *view) simple(out []float64, s *[seasonsN]float64, k float64) {
	l := v.levels
	out[expertLast] = l.recent[0]
	copy(out[expertSes:], l.ses[:])
	for i := range holtsN {
		out[expertHolt+i] = l.holtAhead(i, k, v.c)
	}
	out[expertMiddle] = l.middle()
	for i := range l.tracks {
		out[expertTrack+i] = max(0, l.tracks[i].level)
	}
	for j := range seasonsN {
		at := out[expertSeason+j*seasonWays:]
		z := s[j]
		if z != z {
			for i := range seasonWays {
				at[i] = z
			}
			continue
		}
		at[0] = max(0, math.Exp(z)-v.c)
		for i, level := range [...]float64{l.ses[2], l.ses[baseOf], l.recent[0]} {
			d := min(max(z-v.bars[j][i], -ratioOf), ratioOf)
			at[1+i] = max(0, (level+v.c)*math.Exp(d)-v.c)
		}
	}
}

// features fills in what the regressions see of the seasons s at the slot ahead, as
// z and as rates: how the season moves from now on, and how far from it the level is.
func (v *view) features(x, plain *[featuresLong]float64, s *[seasonsN]float64) {
	copy(x[:], v.logs[:])
	copy(plain[:], v.plains[:])
	base := v.base()
	for j, z := range s {
		i := featuresShort + 2*j
		x[i], x[i+1], plain[i], plain[i+1] = 0, 0, 0, 0
		bar := v.bars[j][barOf]
		if z != z || bar != bar {
			continue
		}
		x[i], x[i+1] = z-bar, bar-v.z
		plain[i] = min(max((math.Exp(z)-v.c-v.bar[j])/v.unit, -plainMax), plainMax)
		plain[i+1] = min(max((v.bar[j]-base)/v.unit, -plainMax), plainMax)
	}
}

// beyond is how far v lies outside of [-bound, bound]: a jump that is more than
// noise is worth more than one that is not.
func beyond(v, bound float64) float64 {
	switch {
	case v > bound:
		return v - bound
	case v < -bound:
		return v + bound
	}
	return 0
}
