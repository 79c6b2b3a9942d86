package closedloop

import (
	"fmt"
	"math"
	"time"

	"weir/advisor/policy"
	"weir/proxy/limit"
)

// A foresight is what a contestant knows of the demand to come, told snapshots
// in their order.
type foresight func(Snapshot) policy.Outlook

// outlookMax is how far the advisor looks ahead when it recommends.
const outlookMax = 15 * time.Minute

// A trail keeps what was forecast.
type trail struct{ points []Foreseen }

// trailAhead is the horizon that is kept for a plot.
const trailAhead = 5 * time.Minute

func (t *trail) note(n Snapshot, o policy.Outlook) {
	i := int(trailAhead/max(o.Step, 1)) - 1
	if i < 0 || i >= len(o.Points) {
		return
	}
	p := o.Points[i]
	t.points = append(t.points, Foreseen{n.Elapsed + trailAhead.Seconds(), p.Q05, p.Q50, p.Q95})
}

// advised is the advisor's policy with a foresight.
func advised(name string, make func(*Scenario) foresight) Contestant {
	return Contestant{name, func(s *Scenario) Control {
		least, most := s.Bounds()
		cost := s.Target.DenyCost
		if cost == 0 {
			cost = -1
		}
		p := policy.New(policy.Settings{LimitMin: least, LimitMax: most, CapacityHint: s.Hint, RejectCost: cost})
		see, t := make(s), new(trail)
		return Control{Initial: s.Initial(), Bound: true, Trail: &t.points, Advise: func(n Snapshot) (limit.Config, bool) {
			outlook := see(n)
			if s.Record {
				t.note(n, outlook)
			}
			r := p.Advise(policy.Snapshot{At: n.At, Interval: n.Interval, Observed: n.Observed, Forwarded: n.Forwarded, RejectedShare: n.RejectedShare,
				P95: n.P95, Errors: n.Errors, Limit: told(n.Limit)}, outlook)
			if s.Listen != nil {
				s.Listen(n, r.Rate(), r.Algorithm, fmt.Sprint(r.Codes, " ", r.Reason))
			}
			return understood(r.Limit)
		}}
	}}
}

// told is a configuration as the policy reads it.
func told(c limit.Config) policy.Limit {
	return policy.Limit{Algorithm: c.Algorithm.String(), Limit: float64(c.Limit), Window: c.Window, Capacity: float64(c.Capacity), FillRate: c.FillRate, Burst: float64(c.Burst)}
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

// Blind is the advisor without a forecast.
func Blind() Contestant {
	return advised("advisor, no forecast", func(*Scenario) foresight {
		return func(Snapshot) policy.Outlook { return policy.Outlook{} }
	})
}

// LastValue is the advisor who thinks that all stays as it is, give or take the
// noise of counting.
func LastValue() Contestant {
	return advised("advisor, last value", func(s *Scenario) foresight {
		return func(n Snapshot) policy.Outlook { return flat(s, func(float64) float64 { return n.Observed }) }
	})
}

// Prescient is the advisor who knows the demand to come, but not how many
// requests chance and clients make of it.
func Prescient() Contestant {
	return advised("advisor, perfect forecast", func(s *Scenario) foresight {
		cycle := s.Cycle.Seconds()
		return func(n Snapshot) policy.Outlook {
			return flat(s, func(ahead float64) float64 { return s.Demand.Mean(n.Elapsed+ahead-cycle, n.Elapsed+ahead) })
		}
	})
}

// flat is an outlook of rates as noisy as counts over a cycle are.
func flat(s *Scenario, rate func(ahead float64) float64) policy.Outlook {
	o := policy.Outlook{Step: s.Cycle}
	for ahead := s.Cycle; ahead <= outlookMax; ahead += s.Cycle {
		v := rate(ahead.Seconds())
		sd := math.Sqrt(max(1, s.Demand.Dispersion) * v / s.Cycle.Seconds())
		at := func(z float64) float64 { return max(0, v+z*sd) }
		o.Points = append(o.Points, policy.Point{Q05: at(-z95), Q50: v, Q80: at(z80), Q95: at(z95), Q99: at(z99)})
	}
	return o
}
