package config

import (
	"weir/internal/program/service"
	"weir/proxy/ask/envoy"
	"weir/proxy/rules/decide"
)

// RateLimit has the settings of Envoy's rate limit service. They have the names that
// envoyproxy/ratelimit uses where they mean the same.
type RateLimit struct {
	Config   string // a file or a folder; empty: no limits
	Merge    bool   // files may share a domain
	settings envoy.Settings
}

func (r *RateLimit) register(s *service.Settings) {
	d := &r.settings
	s.String(&r.Config, "RATELIMIT_CONFIG", "",
		"configuration file of envoyproxy/ratelimit, or folder of such files (.yaml, .yml, .json), for POST /json on "+
			"DECISION_PORT; read again when it changes")
	s.Bool(&r.Merge, "MERGE_DOMAIN_CONFIG", false, "true: several files of RATELIMIT_CONFIG may have the same domain")
	s.Word("RATELIMIT_CHARGE", "together", []string{"together", "independent"},
		"together: a request to /json that any limit refuses is charged to none; independent: each limit is charged "+
			"separately, as in envoyproxy/ratelimit", is(&d.Together, "together"))
	s.Bool(&d.Shadow, "SHADOW_MODE", false, "true: requests to /json are counted and never refused")
	s.Bool(&d.Quota, "QUOTA_MODE", false, "true: a request to /json is refused only when all its limits refuse it")
	s.Bool(&d.Metadata, "RESPONSE_DYNAMIC_METADATA", false,
		"true: answers of /json contain dynamic metadata: the request, and the metadata of limits that admitted it")
	s.Float(&d.NearRatio, "NEAR_LIMIT_RATIO", 0.8, 0, 1, "share of a limit above which hits count as near the limit")
	s.NoEffect("DECISION_PORT", "0", "RATELIMIT_CONFIG")
	s.NoEffect("RATELIMIT_CONFIG", "", "MERGE_DOMAIN_CONFIG", "RATELIMIT_CHARGE", "SHADOW_MODE", "QUOTA_MODE",
		"RESPONSE_DYNAMIC_METADATA", "NEAR_LIMIT_RATIO")
}

// Settings returns the settings for decisions; families are the fields for clients.
func (r *RateLimit) Settings(families decide.Families) envoy.Settings {
	d := r.settings
	d.Families = families
	return d
}
