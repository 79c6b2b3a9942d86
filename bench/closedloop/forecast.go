package closedloop

import (
	"time"

	"weir/advisor/forecast"
	"weir/advisor/policy"
)

// Advisor is the advisor as it is: the forecaster with the history, the policy,
// joined as the service joins them, refits in between.
func Advisor() Contestant {
	return advised("advisor", func(s *Scenario) foresight {
		f := remembered(s)
		return func(n Snapshot) policy.Outlook {
			f.Observe(n.At, n.Interval, n.Observed)
			refit(f)
			o := policy.Outlook{Step: s.Cycle}
			for _, p := range f.Outlook(outlookMax, s.Cycle) {
				o.Points = append(o.Points, policy.Point{Q05: p.Q05, Q50: p.Q50, Q80: p.Q80, Q95: p.Q95, Q99: p.Q99})
			}
			return o
		}
	})
}

// refit does at once what the service does beside.
func refit(f *forecast.Forecaster) {
	job, due := f.Refit()
	if !due {
		return
	}
	if m, err := job.Run(); err == nil {
		f.Adopt(m)
	}
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
