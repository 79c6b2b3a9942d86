// Package pace computes when each request of a run is due.
//
// There is one schedule for the whole run, and for all generators that share
// it: arrival k is due at Λ⁻¹(s) of the profile, whatever happened to the
// arrivals before it, where s is k + ½ for uniform arrivals and the sum of k + 1
// exponential gaps, drawn from the seed, for Poisson ones. (Inverting the
// cumulative rate in this way is known for Poisson arrivals from E. Çinlar,
// Introduction to Stochastic Processes, 1975.)
//
// The schedule is divided without communication. Of n generators, number i takes the
// arrivals k ≡ i (mod n), and distributes them to its loops in the same way. Together
// they send exactly the schedule, so the rate is that of the plan and not a sum of rates
// that drift or bunch independently. For Poisson arrivals every generator draws all gaps,
// which takes some nanoseconds each, and uses its own.
//
// Due times are durations since the start of the run. A [LagSplit] splits the lag of a
// request, which is start − due, by what caused it: the generator, or a lack of free
// connections. The package reads no clock.
package pace

import (
	"fmt"
	"time"

	"weir/loadgen/profile"
)

// A Shard is the part of one generator: number Index of Of, counted from 0. The zero
// value means that there is only one.
type Shard struct {
	Index int `json:"index"`
	Of    int `json:"of"`
}

// shardsMax bounds the number of generators that share a schedule.
const shardsMax = 10_000

// arrivalsMax bounds the arrivals of a schedule, so that arrivals a little beyond its end
// can still be counted. It is a week at the highest rate.
const arrivalsMax = 7 << 40

// Validate returns the invalid field and what is wrong with it, or empty strings.
func (s Shard) Validate() (field, fault string) {
	switch {
	case s == Shard{}:
		return "", ""
	case s.Of < 1 || s.Of > shardsMax:
		return "of", fmt.Sprintf("must be from 1 to %d, is %d", shardsMax, s.Of)
	case s.Index < 0 || s.Index >= s.Of:
		return "index", fmt.Sprintf("must be from 0 to %d (below of), is %d", s.Of-1, s.Index)
	}
	return "", ""
}

// A Config describes a schedule.
type Config struct {
	Profile  *profile.Profile
	Length   time.Duration
	Arrivals Process
	Seed     int64 // of random arrivals
	Shard    Shard
}

// A Schedule has the arrivals that one generator has to send: its share of those due
// before the end.
//
// Immutable after New.
type Schedule struct {
	config Config
	limit  profile.Count // arrivals before here are due before the end
}

// New returns the schedule of c. It panics if Validate refuses the shard, or if there are
// more arrivals than a Count can safely hold.
func New(c Config) Schedule {
	if c.Shard == (Shard{}) {
		c.Shard.Of = 1
	}
	if _, fault := c.Shard.Validate(); fault != "" {
		panic("bug: shard " + fault)
	}
	s := Schedule{config: c, limit: c.Profile.Before(c.Length)}
	if s.limit >= profile.Arrivals(arrivalsMax) {
		panic(fmt.Sprintf("bug: more than %d arrivals", arrivalsMax))
	}
	return s
}

// Length returns the length of the schedule.
func (s Schedule) Length() time.Duration { return s.config.Length }

// Expected returns the number of arrivals of this shard: to within one if they are
// uniform, on average if they are random.
func (s Schedule) Expected() float64 {
	return s.config.Profile.Cumulative(s.config.Length).Float() / float64(s.config.Shard.Of)
}

// Rate returns this shard's rate at t in arrivals per second. It is 0 outside the run.
func (s Schedule) Rate(t time.Duration) float64 {
	if t < 0 || t >= s.config.Length {
		return 0
	}
	return s.config.Profile.Rate(t) / float64(s.config.Shard.Of)
}

// PeakFrom returns the first peak of this shard's rate that starts at t or later within
// the run; ok is false if there is none.
func (s Schedule) PeakFrom(t time.Duration) (profile.Peak, bool) {
	peak, ok := s.config.Profile.PeakFrom(t)
	if !ok || peak.Start >= s.config.Length {
		return profile.Peak{}, false
	}
	peak.RPS /= float64(s.config.Shard.Of)
	return peak, true
}
