package closedloop

import (
	"math"
	"time"

	"weir/advisor/core"
	"weir/advisor/series"
	"weir/proxy/limit"
)

// A Scenario is a world without who chooses the limit.
//
// Immutable while it is played.
type Scenario struct {
	Name   string
	Trace  string // where the demand comes from
	Event  string // what happens to the capacity
	Demand Demand
	Target Target
	Retry  float64       // probability that a client comes again
	Cycle  time.Duration // between snapshots while the gate does not bind
	Hint   float64       // what the operator believes the capacity to be; 0: nothing
	Away   [2]float64    // from and until when the store is unavailable and all is let through; seconds since the start
	Seed   uint64
	// History is what was seen before, and Memory what an advisor's core has made of
	// it; empty: nothing.
	History []series.Row
	Memory  []core.Part
	// Record keeps a timeline in the result.
	Record bool
	// Listen, when set, receives what an advisor recommends.
	Listen func(n Snapshot, r core.Reply)
}

// Promise returns the latency that the 95th percentile is to stay below, in
// seconds: three times what it is without a queue. A request is good when it
// is done within it.
func (s *Scenario) Promise() float64 {
	return 3 * newLogNormal(s.Target.ServiceMean, s.Target.ServiceCV).quantile(z95)
}

// z95 is the normal score of 95 %.
const z95 = 1.6448536269514722

// Bounds returns the limits between which the operator allows the rate.
func (s *Scenario) Bounds() (least, most float64) {
	c := float64(s.Target.Workers) / s.Target.ServiceMean
	return c / 20, 10 * c
}

// Initial returns the limit that is configured at first: what the operator
// believes the capacity to be, and without a belief one that is half as much
// again as it is.
func (s *Scenario) Initial() limit.Config {
	rate := s.Hint
	if rate == 0 {
		rate = 1.5 * s.Target.Capacity(0)
	}
	return tokens(rate)
}

// tokens is the limit of who chooses rates only: a bucket that lets through what
// a second brings at once, but at most a fifth of it.
func tokens(rate float64) limit.Config {
	rate = max(rate, 0.1)
	return limit.Config{Algorithm: limit.Token, Capacity: int64(max(1, math.Round(rate/5))), FillRate: rate}.Rounded()
}

// A Snapshot is what the limiter tells about the span that ends at At.
type Snapshot struct {
	core.Snapshot
	Elapsed float64 // seconds since the start
}

// A Control chooses the limit, and says who else protects the target. At most one
// of Gate and Perfect is set.
type Control struct {
	Initial limit.Config
	// Advise answers a snapshot with a limit, which is in force a second later within
	// the proxy's guard rails; false: nothing changes. nil: the limit stays.
	Advise func(Snapshot) (limit.Config, bool)
	// Gate puts the proxy's gate in front of the target.
	Gate bool
	// Perfect, if not 0, is a gate that sees the target's queue and lets a request in
	// when its turn comes within that share of the promise.
	Perfect float64
	// Trail is what was forecast, when the scenario records; nil: nothing.
	Trail *[]Foreseen
}

// A Foreseen is what was forecast for an instant, some minutes before.
type Foreseen struct{ At, Low, Middle, High float64 }

// A Contestant makes a Control for a scenario.
type Contestant struct {
	Name string
	New  func(*Scenario) Control
}
