package policy_test

import (
	"fmt"
	"time"

	"weir/advisor/forecast"
	"weir/advisor/policy"
)

// A rise is predicted, and the target is known to take it.
func Example() {
	p := policy.New(policy.Settings{LimitMin: 5, LimitMax: 1000, CapacityHint: 400})
	now := time.Date(2026, 1, 19, 16, 0, 0, 0, time.UTC)
	limit := policy.Limit{Algorithm: policy.Token, Capacity: 10, FillRate: 50}
	for minute := range 5 {
		ahead := forecast.Point{Q05: 40, Q50: 45, Q80: 45, Q95: 45, Q99: 45}
		if minute == 3 {
			ahead = forecast.Point{Q05: 45, Q50: 50, Q80: 52, Q95: 55, Q99: 57}
		}
		r := p.Advise(policy.Snapshot{
			At: now.Add(time.Duration(minute) * time.Minute), Interval: time.Minute,
			Observed: 40, Forwarded: 40, P95: 20 * time.Millisecond, Limit: limit,
		}, policy.DemandForecast{Step: time.Minute, Points: []forecast.Point{ahead}})
		fmt.Printf("%s %v/s: %s\n", r.Algorithm, r.Rate(), r.Reason)
		limit = r.Limit
	}
	// Output:
	// token 50/s: forecast=45 req/s, the limit fits
	// token 50/s: forecast=45 req/s, the limit fits
	// token 50/s: forecast=45 req/s, the limit fits
	// token 60.5/s: forecast=50 req/s, raised ahead of it
	// token 60.5/s: forecast=45 req/s, the limit fits
}
