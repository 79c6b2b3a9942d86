package envoy

import (
	"math"
	"sync/atomic"

	"weir/proxy/limit"
)

// A DescriptorCounts counts the hits of descriptors with one name, as envoyproxy/ratelimit does.
//
// Safe for concurrent use: atomic words.
type DescriptorCounts struct {
	TotalHits, OverLimit, NearLimit, Cached, WithinLimit, ShadowMode atomic.Uint64
}

// RequestCounts has the counts of requests.
type RequestCounts struct {
	// Series returns the series of a name in a domain. Both are borrowed.
	Series func(domain string, name []byte) *DescriptorCounts
	// NotFound counts descriptors of an unknown domain, which is borrowed.
	NotFound func(domain []byte, n int)

	GlobalShadow atomic.Uint64 // requests that were admitted only because of Settings.Shadow
	Clipped      atomic.Uint64 // descriptors that were not charged in full because of Settings.DebtMax
}

// tally counts the result of a descriptor. Hits above the share NearRatio of the limit are near
// it.
func (c *Evaluation) tally(a *asked) {
	if !a.known {
		return
	}
	hits, s := uint64(a.hits), a.series
	if !a.decision.Allowed {
		s.OverLimit.Add(hits)
		if a.cached {
			s.Cached.Add(hits)
		}
		if a.limit.Shadow {
			s.ShadowMode.Add(hits)
		}
		return
	}
	s.WithinLimit.Add(hits)
	if a.decision.Limit == limit.Unlimited {
		return
	}
	after := max(0, a.decision.Limit-a.decision.Remaining)
	near := int64(math.Floor(float64(float32(a.decision.Limit) * float32(c.settings.NearRatio))))
	if after > near {
		s.NearLimit.Add(uint64(min(a.hits, after-near)))
	}
}
