package core

import (
	"fmt"
	"math"

	"weir/advisor/policy"
)

// reasonUnshared is the reason code of a limit that is a part of the recommendation for all
// proxies.
const reasonUnshared = "unshared"

// sharers returns the number of proxies between which the limit is divided for s: those
// that count and have a store of their own. It is 1 if the proxy of s shares its store.
func (f *fleet) sharers(s *Snapshot) int {
	if !s.OwnStore {
		return 1
	}
	n, replaced := 0, f.replaced()
	for _, m := range f.Members {
		if m.Unshared && f.live(m) && !replaced[m] {
			n++
		}
	}
	return max(n, 1)
}

// divided answers with a proxy's part of the recommendation, in its own algorithm.
func divided(s *Snapshot, what Result, a *LatestRecommendation, n int) Response {
	r := Response{Result: what, Limit: times(a.Rec.Limit, 1/float64(n)), Recommendation: a.Rec}
	if s.Limit.Algorithm != a.Rec.Limit.Algorithm {
		r.Limit = times(s.Limit, a.Rec.Rate()/float64(n)/s.Limit.Rate())
	}
	r.Recommendation.Codes = append(append([]string{}, a.Rec.Codes...), reasonUnshared)
	r.Recommendation.Reason = fmt.Sprintf("%s; %d proxies without a shared store get a part each", a.Rec.Reason, n)
	return r
}

// times returns the limit l multiplied by factor. Numbers that must be integers of at
// least 1 are rounded down, so that the parts do not exceed the whole; if a part is less
// than 1 the window is extended instead.
func times(l policy.Limit, factor float64) policy.Limit {
	whole := func(v float64) float64 { return math.Max(1, math.Floor(v*factor*(1+1e-9))) }
	switch l.Algorithm {
	case policy.Fixed, policy.Sliding, policy.SlidingLog, policy.GCRA:
		if l.Limit*factor < 1 {
			l.Window /= l.Limit * factor
		}
		l.Limit = whole(l.Limit)
		if l.Burst > 0 {
			l.Burst = whole(l.Burst)
		}
	case policy.Token, policy.Leaky:
		l.Capacity, l.FillRate = whole(l.Capacity), l.FillRate*factor
	}
	return l
}
