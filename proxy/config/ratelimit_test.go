package config

import (
	"testing"

	"weir/proxy/ask/envoy"
	"weir/proxy/rules/decide"
)

// The settings of envoyproxy/ratelimit mean here what they mean there.
func TestRateLimitSettings(t *testing.T) {
	if have := must(t).RateLimit.Settings(0); have != (envoy.Settings{AllOrNothing: true, DebtMax: 100, NearRatio: 0.8}) {
		t.Errorf("by default %+v", have)
	}
	c := must(t, "DECISION_PORT", "8083", "RATELIMIT_CONFIG", "limits", "MERGE_DOMAIN_CONFIG", "true",
		"RATELIMIT_CHARGE", "independent", "SHADOW_MODE", "true",
		"QUOTA_MODE", "true", "RESPONSE_DYNAMIC_METADATA", "true", "NEAR_LIMIT_RATIO", "0.5", "DEBT_MAX", "7",
		"RATE_LIMIT_HEADERS", "envoy")
	want := envoy.Settings{Shadow: true, Quota: true, Metadata: true, DebtMax: 7, NearRatio: 0.5,
		LimitFields: decide.Envoy}
	if have := c.RateLimit.Settings(c.Session().Style.LimitFields); have != want || c.RateLimit.Config != "limits" ||
		!c.RateLimit.Merge {
		t.Errorf("%+v", c.RateLimit)
	}
}
