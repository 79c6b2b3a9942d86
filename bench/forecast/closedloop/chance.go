package closedloop

import (
	"math"
	"math/rand/v2"
)

// Streams of random numbers. They are separate, so that an additional number in one does not
// change the others.
const (
	streamArrivals = iota + 1
	streamClients
	streamService
	streamFaults
	streamSnapshots
)

func newRand(seed uint64, stream uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, stream))
}

// count draws the number of requests for a mean and a ratio of variance to mean.
func count(r *rand.Rand, mean, dispersion float64) int {
	switch {
	case mean <= 0:
		return 0
	case dispersion < 1: // a replay: the whole part, and the fraction as a probability
		whole := math.Floor(mean)
		if r.Float64() < mean-whole {
			whole++
		}
		return int(whole)
	case dispersion == 1:
		return poisson(r, mean)
	}
	// A Poisson count whose rate is itself drawn from a gamma distribution is a
	// negative binomial: variance = mean + mean × scale.
	scale := dispersion - 1
	return poisson(r, scale*gamma(r, mean/scale))
}

// poissonExact is the mean up to which a Poisson count is drawn exactly. Above it the
// normal approximation differs by less than a hundredth of the standard deviation.
const poissonExact = 60

func poisson(r *rand.Rand, mean float64) int {
	if mean > poissonExact {
		return int(max(0, math.Round(mean+math.Sqrt(mean)*r.NormFloat64())))
	}
	n, left := 0, mean
	for left -= r.ExpFloat64(); left > 0; left -= r.ExpFloat64() {
		n++
	}
	return n
}

// gamma draws from the gamma distribution with scale 1 (Marsaglia and Tsang, A
// simple method for generating gamma variables, 2000).
func gamma(r *rand.Rand, shape float64) float64 {
	if shape < 1 {
		return gamma(r, shape+1) * math.Pow(1-r.Float64(), 1/shape)
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := r.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v *= v * v
		if math.Log(1-r.Float64()) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}

// A logNormal draws service times of a mean and a coefficient of variation.
type logNormal struct{ mu, sigma float64 }

func newLogNormal(mean, cv float64) logNormal {
	s2 := math.Log(1 + cv*cv)
	return logNormal{math.Log(mean) - s2/2, math.Sqrt(s2)}
}

func (l logNormal) draw(r *rand.Rand) float64 {
	return math.Exp(l.mu + l.sigma*r.NormFloat64())
}

// quantile returns the service time at a normal score of z.
func (l logNormal) quantile(z float64) float64 { return math.Exp(l.mu + l.sigma*z) }
