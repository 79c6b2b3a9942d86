package profile

import (
	"math/bits"
	"math/rand/v2"
	"time"
)

// A Flood is an attack as seen by its target: spikes alternate at random with pauses at MinRps.
// It starts with a pause.
type Flood struct {
	MinRps, MaxRps           float64
	MaxSpikeDuration         float64 // seconds
	MinIdleTime, MaxIdleTime float64 // seconds
}

// spikesMax bounds the spikes of a run.
const spikesMax = 100_000

// NewFlood returns the profile of f for a run of the given length. The spikes depend only
// on f and the seed, so they are the same wherever they are drawn, and a longer run
// starts like a shorter one. Each has a rate from the upper half of the range, and lasts
// from a tenth of MaxSpikeDuration to all of it. The pauses last from MinIdleTime to
// MaxIdleTime.
func NewFlood(f Flood, seed int64, length time.Duration) (*Profile, error) {
	var c checker
	low, high := c.restingRate("minRps", f.MinRps), c.rate("maxRps", f.MaxRps)
	spike := c.span("maxSpikeDuration", f.MaxSpikeDuration)
	idleMin, idleMax := c.restingSpan("minIdleTime", f.MinIdleTime), c.restingSpan("maxIdleTime", f.MaxIdleTime)
	c.Check(c.Count() == 0 && low > high, "minRps", "must not be above maxRps (%g), is %g", f.MaxRps, f.MinRps)
	c.Check(c.Count() == 0 && idleMin > idleMax, "minIdleTime", "must not be above maxIdleTime (%g), is %g", f.MaxIdleTime, f.MinIdleTime)
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
	c.Check(b.at < length, "maxSpikeDuration", "is too short for the run, with so little idle time: there would be more than %d spikes", spikesMax)
	p.pieces = b.finish()
	return c.done(p)
}

// floodStream separates the random numbers for spikes from others with the same seed.
const floodStream = 0x64646f73
