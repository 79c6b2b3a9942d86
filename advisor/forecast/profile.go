package forecast

import (
	"math"
	"weir/advisor/codec"
)

const (
	binWidth = 300.0 // seconds
	hour     = 3600.0
	day      = 86400.0
	week     = 7 * day
	// weekOffset moves the epoch, a Thursday, to a Monday.
	weekOffset = 3 * day
)

// A profile is the mean course of z over a day or a week, in bins of five minutes. Each
// bin is a mean with a half-life of halfLife seconds.
type profile struct {
	halfLife float64
	period   float64
	width    float64 // of a bin
	sum      []float64
	weight   []float64 // in slots of five minutes
	at       []float64 // when the bin was last updated
}

func newProfile(period, width, halfLife float64) *profile {
	n := int(period / width)
	return &profile{halfLife: halfLife, period: period, width: width, sum: make([]float64, n),
		weight: make([]float64, n), at: make([]float64, n)}
}

func (p *profile) bin(local float64) int {
	x := math.Mod(local+weekOffset, p.period)
	if x < 0 {
		x += p.period
	}
	return min(int(x/p.width), len(p.sum)-1)
}

// learn updates with the mean z of the span (from, to] of local time.
func (p *profile) learn(from, to, z float64) {
	for to-from > 1e-6 {
		end := min(to, (math.Floor(from/p.width)+1)*p.width)
		i := p.bin((from + end) / 2)
		w := (end - from) / p.width
		fade := p.fade(i, end)
		p.sum[i] = p.sum[i]*fade + w*z
		p.weight[i] = p.weight[i]*fade + w
		p.at[i] = end
		from = end
	}
}

func (p *profile) fade(i int, now float64) float64 {
	if p.weight[i] == 0 {
		return 0
	}
	return math.Exp2(-max(0, now-p.at[i]) / p.halfLife)
}

// value returns z of the bin at a local time together with its neighbours, which count
// half, or NaN if it is unknown. Where bins have little data this has less noise, but it
// smooths steps.
func (p *profile) value(local float64) float64 {
	n := len(p.sum)
	i := p.bin(local)
	l, r := (i+n-1)%n, (i+1)%n
	sum := p.sum[i] + .5*(p.sum[l]+p.sum[r])
	weight := p.weight[i] + .5*(p.weight[l]+p.weight[r])
	if weight < .4 {
		return math.NaN()
	}
	return sum / weight
}

// exact returns z of the bin alone, or NaN if it is unknown. A step stays a step.
func (p *profile) exact(local float64) float64 {
	i := p.bin(local)
	if p.weight[i] < .5 {
		return math.NaN()
	}
	return p.sum[i] / p.weight[i]
}

func (p *profile) walk(c *codec.Codec) {
	c.Floats(p.sum)
	c.Floats(p.weight)
	c.Floats(p.at)
}
