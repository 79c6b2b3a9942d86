package config

import (
	"weir/internal/service"
	"weir/proxy/decide"
	"weir/proxy/envoy"
)

// RateLimit is the settings of Envoy's rate limit service. Those of envoyproxy/ratelimit have
// its names where they mean the same.
type RateLimit struct {
	Config    string // a file or a folder; empty: there are no limits
	Merge     bool   // files may share a domain
	charge    string
	shadow    bool
	quota     bool
	metadata  bool
	nearRatio float64
}

// register adds the settings to s.
func (r *RateLimit) register(s *service.Settings) {
	s.String(&r.Config, "RATELIMIT_CONFIG", "", "file of envoyproxy/ratelimit, or folder of such files (.yaml, .yml, .json), whose limits DECISION_PORT has at POST /json; read again when it changes")
	s.Bool(&r.Merge, "MERGE_DOMAIN_CONFIG", false, "true: several files of RATELIMIT_CONFIG may have the same domain")
	s.Enum(&r.charge, "RATELIMIT_CHARGE", "together", []string{"together", "independent"},
		"together: nothing is charged for a request to /json that any of its limits refuses; independent: each limit is charged by itself, as by envoyproxy/ratelimit")
	s.Bool(&r.shadow, "SHADOW_MODE", false, "true: requests to /json are counted, and none is refused")
	s.Bool(&r.quota, "QUOTA_MODE", false, "true: a request to /json is refused when all its limits refuse it, instead of any")
	s.Bool(&r.metadata, "RESPONSE_DYNAMIC_METADATA", false, "true: answers of /json have dynamic metadata: what was asked, and the metadata of limits that let it pass")
	s.Float(&r.nearRatio, "NEAR_LIMIT_RATIO", 0.8, 0, 1, "share of a limit above which hits are counted as near it")
	s.NoEffect("DECISION_PORT", "0", "RATELIMIT_CONFIG")
	s.NoEffect("RATELIMIT_CONFIG", "", "MERGE_DOMAIN_CONFIG", "RATELIMIT_CHARGE", "SHADOW_MODE", "QUOTA_MODE", "RESPONSE_DYNAMIC_METADATA", "NEAR_LIMIT_RATIO")
}

// Settings are what requests are decided by; families are the fields for clients.
func (r *RateLimit) Settings(families decide.Families) envoy.Settings {
	return envoy.Settings{Together: r.charge == "together", Shadow: r.shadow, Quota: r.quota, Metadata: r.metadata, NearRatio: r.nearRatio, Families: families}
}
