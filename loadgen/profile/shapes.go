package profile

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"weir/internal/data/number"
	"weir/internal/data/strict"
)

// The bounds of a rate, in arrivals per second. Where a shape allows pauses, its rate may
// also be 0.
const (
	RateMin = 0.001
	RateMax = 10_000_000
)

// The bounds of a span of time within a shape.
const (
	spanMin = time.Millisecond
	spanMax = 7 * 24 * time.Hour
)

// stepsMax bounds the steps of a shape.
const stepsMax = 10_000

// A checker converts parameters and collects faults, whose paths are the names of
// parameters, as in spikeRps or steps[2].rps.
type checker struct{ strict.Reader }

// rate converts rps, which must be above zero, to millionths of an arrival per second.
func (c *checker) rate(param string, rps float64) uint64 {
	if !(rps >= RateMin && rps <= RateMax) { // NaN is neither
		c.Fault(param, "must be a number from %g to %d, is %g", RateMin, RateMax, rps)
		return 1
	}
	return uint64(math.Round(rps * micros))
}

// restingRate is like rate for a parameter that may be zero.
func (c *checker) restingRate(param string, rps float64) uint64 {
	if rps != 0 && !(rps >= RateMin && rps <= RateMax) {
		c.Fault(param, "must be 0 or a number from %g to %d, is %g", RateMin, RateMax, rps)
		return 0
	}
	return uint64(math.Round(rps * micros))
}

// span converts a time in seconds.
func (c *checker) span(param string, seconds float64) time.Duration {
	if !(seconds >= spanMin.Seconds() && seconds <= spanMax.Seconds()) {
		c.Fault(param, "must be from %g to %g seconds, is %g", spanMin.Seconds(), spanMax.Seconds(), seconds)
		return spanMin
	}
	return time.Duration(math.Round(seconds * nanos))
}

// restingSpan is like span for a parameter that may be zero.
func (c *checker) restingSpan(param string, seconds float64) time.Duration {
	if seconds == 0 {
		return 0
	}
	return c.span(param, seconds)
}

// done returns p, or the faults.
func (c *checker) done(p *Profile) (*Profile, error) {
	if err := c.Err(); err != nil {
		return nil, err
	}
	return p, nil
}

// describe returns the text of a profile: its name and its rates.
func describe(name string, params ...any) string {
	var b strings.Builder
	b.WriteString(name)
	for i := 0; i < len(params); i += 2 {
		sep := ", "
		if i == 0 {
			sep = " ("
		}
		fmt.Fprintf(&b, "%s%v=%s", sep, params[i], number.Decimal(params[i+1].(float64)))
	}
	b.WriteString(")")
	return b.String()
}

// NewConstant returns the profile of rps arrivals per second. Rates are rounded to
// millionths. Errors of this and of all other shapes are strict.Faults.
func NewConstant(rps float64) (*Profile, error) {
	var c checker
	u := c.rate("rps", rps)
	var b builder
	return c.done(&Profile{
		text: describe("constant", "rps", float64(u)/micros), pieces: b.finish(), tail: u, most: float64(u) / micros,
	})
}

// A Burst has spikes in the last SpikeDuration of each SpikePeriod.
type Burst struct {
	BaseRps, SpikeRps          float64
	SpikeDuration, SpikePeriod float64 // seconds
}

// NewBurst returns the profile of s.
func NewBurst(s Burst) (*Profile, error) {
	var c checker
	base, spike := c.restingRate("baseRps", s.BaseRps), c.rate("spikeRps", s.SpikeRps)
	length, period := c.span("spikeDuration", s.SpikeDuration), c.span("spikePeriod", s.SpikePeriod)
	c.Check(c.Count() == 0 && length >= period, "spikeDuration", "must be less than spikePeriod (%g), is %g",
		s.SpikePeriod, s.SpikeDuration)
	var b builder
	b.slope(period-length, base, base)
	b.slope(length, spike, spike)
	return c.done(&Profile{
		text:   describe("burst", "baseRps", s.BaseRps, "spikeRps", s.SpikeRps),
		pieces: b.finish(), repeat: true, most: max(s.BaseRps, s.SpikeRps),
		peaks: []Peak{{period - length, period, s.SpikeRps}},
	})
}

// NewRamp returns the profile whose rate changes linearly from startRps to endRps in a
// run of the given length.
func NewRamp(startRps, endRps float64, length time.Duration) (*Profile, error) {
	var c checker
	from, to := c.restingRate("startRps", startRps), c.restingRate("endRps", endRps)
	c.Check(c.Count() == 0 && from|to == 0, "endRps", "must not be 0 when startRps is")
	var b builder
	b.slope(length, from, to)
	return c.done(&Profile{
		text: describe("ramp", "startRps", startRps, "endRps", endRps), pieces: b.finish(), tail: to,
		most: max(startRps, endRps),
	})
}

// A Step is a rate that holds for a time.
type Step struct {
	Rps      float64
	Duration float64 // seconds
}

// NewSteps returns the profile of consecutive steps; the last one's rate continues after
// them. length is how long the steps last.
func NewSteps(steps []Step) (p *Profile, length time.Duration, err error) {
	var c checker
	if len(steps) == 0 || len(steps) > stepsMax {
		c.Fault("steps", "must be from 1 to %d steps, are %d", stepsMax, len(steps))
		return nil, 0, c.Err()
	}
	byRate := func(a, b Step) int { return cmp.Compare(a.Rps, b.Rps) }
	least, most := slices.MinFunc(steps, byRate).Rps, slices.MaxFunc(steps, byRate).Rps
	var b builder
	var tail uint64
	for i, s := range steps {
		tail = c.restingRate(fmt.Sprintf("steps[%d].rps", i), s.Rps)
		b.slope(c.span(fmt.Sprintf("steps[%d].duration", i), s.Duration), tail, tail)
	}
	c.Check(c.Count() == 0 && most == 0, "steps", "must have one with rps above 0")
	p = &Profile{
		text:   fmt.Sprintf("steps (steps=%d, rps=%s to %s)", len(steps), number.Decimal(least), number.Decimal(most)),
		pieces: b.finish(), tail: tail, most: most,
	}
	if c.Count() == 0 {
		p.findPeaks()
	}
	p, err = c.done(p)
	return p, b.at, err
}

// A DDoS is an attack as seen by its target: spikes alternate at random with pauses at MinRps.
// It starts with a pause.
type DDoS struct {
	MinRps, MaxRps           float64
	MaxSpikeDuration         float64 // seconds
	MinIdleTime, MaxIdleTime float64 // seconds
}

// spikesMax bounds the spikes of a run.
const spikesMax = 100_000

// NewDDoS returns the profile of f for a run of the given length. The spikes depend only
// on f and the seed, so they are the same wherever they are drawn, and a longer run
// starts like a shorter one. Each has a rate from the upper half of the range, and lasts
// from a tenth of MaxSpikeDuration to all of it. The pauses last from MinIdleTime to
// MaxIdleTime.
func NewDDoS(f DDoS, seed int64, length time.Duration) (*Profile, error) {
	var c checker
	low, high := c.restingRate("minRps", f.MinRps), c.rate("maxRps", f.MaxRps)
	spike := c.span("maxSpikeDuration", f.MaxSpikeDuration)
	idleMin, idleMax := c.restingSpan("minIdleTime", f.MinIdleTime), c.restingSpan("maxIdleTime", f.MaxIdleTime)
	c.Check(c.Count() == 0 && low > high, "minRps", "must not be above maxRps (%g), is %g", f.MaxRps, f.MinRps)
	c.Check(c.Count() == 0 && idleMin > idleMax, "minIdleTime", "must not be above maxIdleTime (%g), is %g",
		f.MaxIdleTime, f.MinIdleTime)
	if err := c.Err(); err != nil {
		return nil, err
	}
	source := rand.NewPCG(uint64(seed), floodStream)
	draw := func(from, to uint64) uint64 { // both included
		hi, _ := bits.Mul64(source.Uint64(), to-from+1)
		return from + hi
	}
	var b builder
	p := &Profile{text: describe("ddos", "minRps", f.MinRps, "maxRps", f.MaxRps), tail: low, most: f.MaxRps}
	for b.at < length && len(p.peaks) < spikesMax {
		b.slope(time.Duration(draw(uint64(idleMin), uint64(idleMax))), low, low)
		rate := draw(low+(high-low)/2, high)
		start := b.at
		b.slope(time.Duration(draw(uint64(spike)/10, uint64(spike))), rate, rate)
		p.peaks = append(p.peaks, Peak{start, b.at, float64(rate) / micros})
	}
	c.Check(b.at < length, "maxSpikeDuration",
		"is too short for the run, with so little idle time: there would be more than %d spikes", spikesMax)
	p.pieces = b.finish()
	return c.done(p)
}

// floodStream separates the random numbers for spikes from others with the same seed.
const floodStream = 0x64646f73
