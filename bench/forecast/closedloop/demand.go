package closedloop

import (
	"math"
	"time"
)

// A Demand is how many requests would arrive per second if none were refused.
//
// Immutable.
type Demand struct {
	Start time.Time
	Step  time.Duration
	Rates []float64 // mean of each step, requests per second
	// Dispersion is the variance of the count of a second divided by its mean:
	// 0 is a replay, 1 Poisson, more a negative binomial.
	Dispersion float64
}

// Seconds returns how long the demand is.
func (d *Demand) Seconds() int {
	return int(time.Duration(len(d.Rates)) * d.Step / time.Second)
}

// At returns the rate t seconds after the start: linear between the middles of
// steps, constant within steps of a second and less.
func (d *Demand) At(t float64) float64 {
	x := t / d.Step.Seconds()
	if d.Step > time.Second {
		x -= 0.5
	}
	i := int(math.Floor(x))
	switch {
	case i < 0:
		return d.Rates[0]
	case i >= len(d.Rates)-1:
		return d.Rates[len(d.Rates)-1]
	case d.Step <= time.Second:
		return d.Rates[i]
	}
	share := x - float64(i)
	return (1-share)*d.Rates[i] + share*d.Rates[i+1]
}

// Mean returns the mean rate over [from, to) seconds, sampled once per second.
func (d *Demand) Mean(from, to float64) float64 {
	sum, n := 0.0, 0.0
	for t := from; t < to; t++ {
		sum += d.At(t + 0.5)
		n++
	}
	return sum / max(1, n)
}

// Peak returns the largest mean of a minute.
func (d *Demand) Peak() float64 {
	const minute = 60
	peak, sum := 0.0, 0.0
	seconds := d.Seconds()
	span := min(minute, seconds)
	for t := range seconds {
		sum += d.second(t)
		if t >= span {
			sum -= d.second(t - span)
		}
		if t >= span-1 {
			peak = max(peak, sum/float64(span))
		}
	}
	return peak
}

func (d *Demand) second(t int) float64 {
	if d.Step >= time.Second {
		return d.At(float64(t) + 0.5)
	}
	n := int(time.Second / d.Step)
	sum := 0.0
	for i := t * n; i < (t+1)*n && i < len(d.Rates); i++ {
		sum += d.Rates[i]
	}
	return sum / float64(n)
}

// Scaled returns the demand times factor.
func (d Demand) Scaled(factor float64) Demand {
	rates := make([]float64, len(d.Rates))
	for i, r := range d.Rates {
		rates[i] = r * factor
	}
	d.Rates = rates
	return d
}
