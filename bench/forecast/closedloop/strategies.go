package closedloop

import (
	"math"
	"time"

	"weir/advisor/core"
	"weir/advisor/forecast"
	"weir/advisor/policy"
	"weir/proxy/limit"
)

// The names of the strategies that tables and verdicts refer to.
const (
	PerfectName = "perfect gate"
	AdvisorName = "limit, gate and advisor"
)

// perfectPart is the share of the SLO for which the perfect gate lets a request wait:
// short crowds are served in time, and few answers are late in long ones.
const perfectPart = 0.5

// perfectLimit returns the gate that knows the target's queue. Limits, and gates that have to
// learn, are hardly ever much better.
func perfectLimit() Strategy {
	return Strategy{PerfectName, func(*Scenario) Control {
		return Control{Initial: limit.Config{Algorithm: limit.Off}, Perfect: perfectPart}
	}}
}

// unprotected returns the strategy that admits everything.
func unprotected() Strategy {
	return Strategy{"no limit", func(*Scenario) Control { return Control{Initial: limit.Config{Algorithm: limit.Off}} }}
}

// gateOnly returns the proxy's gate without a limit.
func gateOnly() Strategy {
	return Strategy{"gate",
		func(*Scenario) Control { return Control{Initial: limit.Config{Algorithm: limit.Off}, Gate: true} }}
}

// limited returns a constant limit, with the gate or alone.
func limited(name string, gate bool) Strategy {
	return Strategy{name, func(s *Scenario) Control { return Control{Initial: s.Initial(), Gate: gate} }}
}

// Advisor returns the advisor with the gate.
func Advisor() Strategy { return advised(AdvisorName, true) }

// advisorWithoutGate returns the advisor of a proxy without a gate.
func advisorWithoutGate() Strategy { return advised("limit and advisor", false) }

// Strategies returns all, first the one that the others are compared with.
func Strategies() []Strategy {
	return []Strategy{perfectLimit(), unprotected(), limited("limit", false), advisorWithoutGate(),
		gateOnly(), limited("limit and gate", true), Advisor()}
}

// trailAhead is the horizon that is kept for a plot.
const trailAhead = 5 * time.Minute

// An adviser is the advisor's core with the history.
//
// Owned by its run.
type adviser struct {
	s     *Scenario
	core  *core.Core
	trail []ForecastPoint
	most  float64 // of the gate's limit
}

// AdvisorSettings returns the settings of an advisor in the scenario.
func (s *Scenario) AdvisorSettings() core.Settings {
	least, most := s.Bounds()
	return core.Settings{Forecast: forecast.Settings{Location: time.UTC},
		Policy: policy.Settings{LimitMin: least, LimitMax: most, CapacityHint: s.Hint}}
}

// advised returns the advisor, with the gate or alone.
func advised(name string, gate bool) Strategy {
	return Strategy{name, func(s *Scenario) Control {
		a := &adviser{s: s, core: core.New(s.AdvisorSettings())}
		if len(s.Memory) > 0 {
			c, partErrors := core.Restore(s.AdvisorSettings(), s.Memory)
			if len(partErrors) > 0 {
				panic("bug: a scenario's memory cannot be read: " + partErrors[0].Error())
			}
			a.core = c
		}
		return Control{Initial: s.Initial(), Gate: gate, Advise: a.advise, Forecasts: &a.trail, GateMax: &a.most}
	}}
}

func (a *adviser) advise(n Snapshot) (limit.Config, bool) {
	reply := a.core.HandleSnapshot(&n.Snapshot)
	if reply.Err != nil {
		return limit.Config{}, false
	}
	a.most = reply.Recommendation.GateMax
	if i := int(trailAhead/core.ForecastStep) - 1; a.s.Record && i < len(reply.Points) {
		p := reply.Points[i]
		a.trail = append(a.trail, ForecastPoint{n.Elapsed + trailAhead.Seconds(), p.Q05, p.Q50, p.Q95})
	}
	if a.s.OnRecommendation != nil {
		a.s.OnRecommendation(n, reply)
	}
	return configOf(reply.Limit)
}

// configOf converts a recommendation to the limiter's form; false if it is invalid, then
// the limit stays.
func configOf(l policy.Limit) (limit.Config, bool) {
	var a limit.Algorithm
	if a.UnmarshalText([]byte(l.Algorithm)) != nil {
		return limit.Config{}, false
	}
	c := limit.Config{Algorithm: a, Limit: int64(math.Round(l.Limit)), Window: l.Window,
		Capacity: int64(math.Round(l.Capacity)), FillRate: l.FillRate, Burst: int64(l.Burst)}.Rounded()
	return c, c.Validate() == nil
}
