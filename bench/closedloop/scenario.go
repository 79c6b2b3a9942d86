package closedloop

import (
	"math"
	"time"

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
	Cycle  time.Duration // between snapshots
	Hint   float64       // what the operator believes the capacity to be; 0: nothing
	// Load is the share of the capacity at which the most requests are answered in
	// time: see [Calibrate].
	Load float64
	Seed uint64
	// History is what was seen before, for who forecasts.
	History []Past
	// Memory is the state of a forecaster that has seen the history; empty: it has
	// seen nothing.
	Memory []byte
	// Record keeps a timeline in the result.
	Record bool
	// Listen, when set, is told what an advisor recommends, and why.
	Listen func(n Snapshot, rate float64, algorithm, reason string)
}

// A Past is the mean rate of a slot of history that ends at At.
type Past struct {
	At   time.Time
	Rate float64
}

// Promise returns the latency that the 95th percentile is to stay below, in
// seconds: three times what it is without a queue. A request is good when it
// is done within it.
func (s *Scenario) Promise() float64 {
	return 3 * newLogNormal(s.Target.ServiceMean, s.Target.ServiceCV).quantile(z95)
}

// Normal scores of 80 %, 95 % and 99 %.
const (
	z80 = 0.8416212335729143
	z95 = 1.6448536269514722
	z99 = 2.3263478740408408
)

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

// Best returns the requests per second that a limiter who knows everything would
// let through at t at most.
func (s *Scenario) Best(t float64) float64 { return s.Load * s.Target.Capacity(t) }

// tokens is the limit of who chooses rates only: a bucket that lets through what
// a second brings at once, but at most a fifth of it.
func tokens(rate float64) limit.Config {
	rate = max(rate, 0.1)
	return limit.Config{Algorithm: limit.Token, Capacity: int64(max(1, math.Round(rate/5))), FillRate: rate}.Rounded()
}

// A Snapshot is what the limiter tells about the span that ends at At.
type Snapshot struct {
	At            time.Time
	Elapsed       float64 // seconds since the start
	Interval      time.Duration
	Observed      float64 // requests per second that arrived
	Forwarded     float64 // that were let through
	RejectedShare float64
	P95           time.Duration // of the answers to those let through
	Errors        float64       // share of answers 5xx or none
	Limit         limit.Config  // in force
}

// A Control chooses the limit. One of Advise, Prompt and Local is set, or none:
// then the limit stays as it is.
type Control struct {
	Initial limit.Config
	// Advise is told a snapshot; its answer is applied a second later. It is false
	// when nothing changes.
	Advise func(Snapshot) (limit.Config, bool)
	// Prompt is asked at each second and applied at once, and told how many requests
	// are about to arrive in it: for who sees all.
	Prompt func(second, offered float64) limit.Config
	// Local limits how many are in flight, from answer to answer.
	Local Local
	// Bound says that the guard rails of the policy hold: a step, a switch or a limit
	// outside of them is a violation.
	Bound bool
	// Trail is what was forecast, when the scenario records; nil: nothing.
	Trail *[]Foreseen
}

// A Local is a limiter that looks at answers instead of being told.
type Local interface {
	// Admits says whether one more may be let in.
	Admits(now float64, inflight int) bool
	// Answered is told a latency in seconds, and whether the client gave up.
	Answered(now, latency float64, inflight int, dropped bool)
	// Watch is told the share of workers at work, twice a second.
	Watch(now, busy float64)
}

// A Foreseen is what was forecast for an instant, some minutes before.
type Foreseen struct{ At, Low, Middle, High float64 }

// A Contestant makes a Control for a scenario.
type Contestant struct {
	Name string
	New  func(*Scenario) Control
}
