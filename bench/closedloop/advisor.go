package closedloop

import (
	"math"
	"time"

	"weir/advisor/forecast"
	"weir/advisor/policy"
	"weir/proxy/limit"
)

// outlookMax is how far the advisor looks ahead when it recommends.
const outlookMax = 15 * time.Minute

// trailAhead is the horizon that is kept for a plot.
const trailAhead = 5 * time.Minute

// An adviser is the forecaster with the history and the policy, joined as the service
// joins them.
//
// Owned by its run.
type adviser struct {
	s        *Scenario
	forecast *forecast.Forecaster
	policy   *policy.Policy
	trail    []Foreseen
}

// advised is the advisor, beside the gate or alone.
func advised(name string, gate bool) Contestant {
	return Contestant{name, func(s *Scenario) Control {
		least, most := s.Bounds()
		a := &adviser{s: s, forecast: remembered(s), policy: policy.New(policy.Settings{LimitMin: least, LimitMax: most, CapacityHint: s.Hint})}
		return Control{Initial: s.Initial(), Gate: gate, Advise: a.advise, Trail: &a.trail}
	}}
}

func (a *adviser) advise(n Snapshot) (limit.Config, bool) {
	a.forecast.Observe(n.At, n.Interval, n.Observed)
	o := policy.Outlook{Step: a.s.Cycle}
	for _, p := range a.forecast.Outlook(outlookMax, a.s.Cycle) {
		o.Points = append(o.Points, policy.Point{Q05: p.Q05, Q50: p.Q50, Q80: p.Q80, Q95: p.Q95, Q99: p.Q99})
	}
	if i := int(trailAhead/a.s.Cycle) - 1; a.s.Record && i < len(o.Points) {
		p := o.Points[i]
		a.trail = append(a.trail, Foreseen{n.Elapsed + trailAhead.Seconds(), p.Q05, p.Q50, p.Q95})
	}
	r := a.policy.Advise(n.Snapshot, o)
	if a.s.Listen != nil {
		a.s.Listen(n, r)
	}
	return understood(r.Limit)
}

// remembered is a forecaster with the scenario's memory. It is learned once per
// scenario and copied for each contestant.
func remembered(s *Scenario) *forecast.Forecaster {
	f := forecast.New(forecast.Settings{Location: time.UTC})
	if len(s.Memory) == 0 {
		return f
	}
	if err := f.UnmarshalBinary(s.Memory); err != nil {
		panic("bug: a scenario's memory cannot be read: " + err.Error())
	}
	return f
}

// understood is a recommendation as the limiter takes it; false when it is none,
// then the limit stays.
func understood(l policy.Limit) (limit.Config, bool) {
	a, err := limit.ParseAlgorithm(l.Algorithm)
	if err != nil {
		return limit.Config{}, false
	}
	c := limit.Config{Algorithm: a, Limit: int64(math.Round(l.Limit)), Window: l.Window, Capacity: int64(math.Round(l.Capacity)), FillRate: l.FillRate, Burst: int64(l.Burst)}.Rounded()
	return c, c.Validate() == nil
}
