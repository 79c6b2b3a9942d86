package forecast

import (
	"math"
	"weir/advisor/codec"
)

// The waves of a [course]: daily ones, weekly ones, and daily ones that only count
// at weekends.
const (
	dailyN   = 8
	weeklyN  = 3
	weekendN = 3
	wavesN   = 1 + 2*(dailyN+weeklyN+weekendN)
)

// A course is z as a sum of a few waves over the day and the week, learned every five
// minutes by a regression with forgetting. It is smooth where a profile is noisy, and
// therefore better for small counts.
type course struct {
	fit     *ridge
	span    float64 // seconds of data seen
	learnt  float64 // when the last row was learned
	sum     float64 // of z since then, weighted by seconds
	seconds float64
}

func newCourse(halfLife float64) *course {
	tau := make([]float64, 0, wavesN)
	tau = append(tau, 100)
	for _, n := range [...]int{dailyN, weeklyN, weekendN} {
		for k := 1; k <= n; k++ {
			s := 1 / (1 + float64(k*k)/16)
			tau = append(tau, s, s)
		}
	}
	return &course{fit: newRidge(tau, math.Exp2(-binWidth/halfLife), 1)}
}

// waves fills x with the features at a local time.
func waves(x *[wavesN]float64, local float64) {
	x[0] = 1
	i := 1
	put := func(s1, c1 float64, n int, by float64) {
		s, c := s1, c1
		for range n {
			x[i], x[i+1] = by*s, by*c
			i += 2
			s, c = s*c1+c*s1, c*c1-s*s1
		}
	}
	ds, dc := math.Sincos(2 * math.Pi * math.Mod(local, day) / day)
	inWeek := math.Mod(local+weekOffset, week)
	ws, wc := math.Sincos(2 * math.Pi * inWeek / week)
	weekend := 0.0
	if inWeek >= 5*day || inWeek < 0 {
		weekend = 1
	}
	put(ds, dc, dailyN, 1)
	put(ws, wc, weeklyN, 1)
	put(ds, dc, weekendN, weekend)
}

// learn updates with the mean z of the span (from, to] of local time.
func (c *course) learn(from, to, z float64) {
	c.sum += z * (to - from)
	c.seconds += to - from
	c.span += to - from
	if to-c.learnt < binWidth-1e-6 {
		return
	}
	var x [wavesN]float64
	mid := to - c.seconds/2
	waves(&x, mid)
	c.fit.learn(x[:], c.sum/c.seconds, min(c.seconds/binWidth, 12))
	if int64(to/3600) != int64(c.learnt/3600) {
		c.fit.solve()
	}
	c.learnt, c.sum, c.seconds = to, 0, 0
}

// value returns z at a local time, or NaN before there is a day and a half of data.
func (c *course) value(local float64) float64 {
	if c.span < 1.5*day {
		return math.NaN()
	}
	var x [wavesN]float64
	waves(&x, local)
	return c.fit.predict(x[:])
}

func (c *course) walk(k *codec.Codec) {
	c.fit.walk(k)
	k.Float(&c.span, &c.learnt, &c.sum, &c.seconds)
}
