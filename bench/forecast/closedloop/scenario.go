package closedloop

import (
	"math"
	"time"

	"weir/advisor/core"
	"weir/advisor/series"
	"weir/proxy/limit"
)

// A Scenario is everything but the protection of the target.
//
// Immutable while it is played.
type Scenario struct {
	Name             string
	Trace            string // where the demand comes from
	Event            string // what happens to the capacity
	Demand           Demand
	Target           Target
	Retry            float64       // probability that a client retries
	SnapshotInterval time.Duration // between snapshots while the gate does not bind
	Hint             float64       // the capacity that the operator expects; 0: unknown
	// Restarts are when the proxy is replaced by a new one, whole seconds since the start. The
	// limit stays, but the gate and the bound of its limit are lost.
	Restarts []int
	Seed     uint64
	// History is the traffic before the start, and Memory what an advisor's core has
	// learned from it.
	History []series.Row
	Memory  map[string][]byte
	Record  bool // keep a timeline in the result
	// OnRecommendation, when set, receives what an advisor recommends.
	OnRecommendation func(n Snapshot, r core.Response)
}

// SLO returns the bound on the 95th percentile of the latency in seconds: three times
// that without a queue. An answer within it is good.
func (s *Scenario) SLO() float64 {
	return 3 * newLogNormal(s.Target.ServiceMean, s.Target.ServiceCV).quantile(z95)
}

// z95 is the normal score of 95 %.
const z95 = 1.6448536269514722

// Bounds returns the limits between which the operator allows the rate.
func (s *Scenario) Bounds() (least, most float64) {
	c := float64(s.Target.Workers) / s.Target.ServiceMean
	return c / 20, 10 * c
}

// Initial returns the configured limit: the operator's hint, or one and a half times the
// capacity if there is none.
func (s *Scenario) Initial() limit.Config {
	rate := s.Hint
	if rate == 0 {
		rate = 1.5 * s.Target.Capacity(0)
	}
	return tokens(rate)
}

// tokens returns a token bucket for a rate. Its capacity is what arrives in a fifth of a
// second.
func tokens(rate float64) limit.Config {
	rate = max(rate, 0.1)
	return limit.Config{Algorithm: limit.Token, Capacity: int64(max(1, math.Round(rate/5))), FillRate: rate}.Rounded()
}

// A Snapshot is what the limiter reports about the interval that ends at At.
type Snapshot struct {
	core.Snapshot
	Elapsed float64 // seconds since the start
}

// A Control is a way to protect the target. At most one of Gate and Perfect is set.
type Control struct {
	Initial limit.Config
	// Advise answers a snapshot with a limit, which is in force a second later within
	// the proxy's guard rails; false: nothing changes. nil: the limit stays.
	Advise func(Snapshot) (limit.Config, bool)
	Gate   bool // the proxy's gate is in front of the target
	// GateMax is the upper bound of the gate's limit according to the advisor; 0 or nil: none.
	// It is read after Advise.
	GateMax *float64
	// Perfect, if not 0, is a gate that knows the target's queue, and admits a request if
	// it starts within that share of the SLO.
	Perfect   float64
	Forecasts *[]ForecastPoint // the forecasts, if the scenario records; nil: there are none
}

// A ForecastPoint is a forecast for the instant At, made five minutes before.
type ForecastPoint struct{ At, Low, Middle, High float64 }

// A Strategy makes a Control for a scenario.
type Strategy struct {
	Name string
	New  func(*Scenario) Control
}
