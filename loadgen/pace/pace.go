// Package pace says when each request of a run is due.
//
// There is one schedule for the whole run, and for all generators that share
// it: arrival k is due at Λ⁻¹(s) of the profile, whatever happened to the
// arrivals before it, where s is k + ½ for uniform arrivals and the sum of k + 1
// exponential gaps, drawn from the seed, for Poisson ones. (Inverting the
// cumulative rate in this way is known for Poisson arrivals from E. Çinlar,
// Introduction to Stochastic Processes, 1975.)
//
// The schedule is dealt out like cards. Of several generators, number i of n
// takes the arrivals k ≡ i (mod n); each deals its own on to its loops in the
// same way. Nobody needs to ask anybody else, and the sum of all hands is the
// schedule, so that the rate is that of the plan and not a sum of rates that
// each drift or bunch up on their own. For Poisson arrivals everybody draws all
// gaps, some nanoseconds each, and uses its own.
//
// Due times are durations since the start of the run. The package asks no
// clock.
package pace

import (
	"fmt"
	"time"

	"weir/loadgen/profile"
)

// A Shard is the hand of one generator: number Index of Of, counted from 0.
// The zero value stands for the only one.
type Shard struct {
	Index, Of int
}

// shardsMax bounds the number of generators that share a schedule.
const shardsMax = 10_000

// arrivalsMax bounds the arrivals of a schedule, so that what lies a little
// beyond its end can still be counted. It is a week at the highest rate.
const arrivalsMax = 7 << 40

// Validate says what is wrong with the shard, naming the field.
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

// A Config says what a schedule is made of.
type Config struct {
	Profile  *profile.Profile
	Length   time.Duration
	Arrivals Process
	Seed     int64 // of random arrivals
	Shard    Shard
}

// A Schedule is what one generator has to send: its share of the arrivals due
// before the end.
//
// Immutable after New.
type Schedule struct {
	config Config
	limit  profile.Count // arrivals before here are due before the end
}

// New returns the schedule of c. It panics on a shard that Validate refuses,
// and when there are more arrivals than a Count holds with room to spare.
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

// Length is how long the schedule lasts.
func (s Schedule) Length() time.Duration { return s.config.Length }

// Expected is how many arrivals this shard has, up to one when they are
// uniform, on average when they are random.
func (s Schedule) Expected() float64 {
	return s.config.Profile.Cumulative(s.config.Length).Float() / float64(s.config.Shard.Of)
}

// Rate is this shard's rate at t in arrivals per second; 0 outside the run.
func (s Schedule) Rate(t time.Duration) float64 {
	if t < 0 || t >= s.config.Length {
		return 0
	}
	return s.config.Profile.Rate(t) / float64(s.config.Shard.Of)
}

// PeakFrom is the first peak of this shard's rate that starts at t or later
// within the run, and false when there is none.
func (s Schedule) PeakFrom(t time.Duration) (profile.Peak, bool) {
	peak, ok := s.config.Profile.PeakFrom(t)
	if !ok || peak.Start >= s.config.Length {
		return profile.Peak{}, false
	}
	peak.RPS /= float64(s.config.Shard.Of)
	return peak, true
}

// first is a walk at this shard's first arrival.
func (s Schedule) first() walk {
	w := newWalk(s.config.Arrivals, s.config.Seed)
	w.step(uint64(s.config.Shard.Index))
	return w
}

// A Counter counts this shard's arrivals as time goes by.
//
// Owned by its user.
type Counter struct {
	schedule Schedule
	walk     walk
	count    uint64
}

// Counter returns a Counter at the start of the schedule.
func (s Schedule) Counter() Counter { return Counter{schedule: s, walk: s.first()} }

// Before is how many of this shard's arrivals are due before t. Time does not
// go back: for an earlier t than before the answer is the same as then.
func (c *Counter) Before(t time.Duration) uint64 {
	limit := min(c.schedule.config.Profile.Before(t), c.schedule.limit)
	c.count += c.walk.seek(limit, uint64(c.schedule.config.Shard.Of))
	return c.count
}
