package config

import (
	"cmp"
	"errors"

	"weir/internal/net/http1"
	"weir/internal/program/service"
	"weir/proxy/ask/envoy"
	"weir/proxy/ask/port"
	"weir/proxy/rules/decide"
)

// RateLimit has the settings of Envoy's rate limit service. They have the names that
// envoyproxy/ratelimit uses where they mean the same.
type RateLimit struct {
	Config   string // a file or a folder; empty: no limits
	Check    string // a file or a folder that is only checked; empty: the proxy runs
	Merge    bool   // files may share a domain
	Needed   bool   // without limits the port is not healthy
	settings envoy.Settings
}

func (r *RateLimit) register(s *service.Settings) {
	d := &r.settings
	s.Add(service.SettingList{
		{Name: "RATELIMIT_CONFIG", Value: service.String(&r.Config), NoEffect: s.NoEffectWhen("DECISION_PORT", "0"),
			Help: "configuration file of envoyproxy/ratelimit, or folder of such files (.yaml, .yml, .json), for gRPC and " +
				"POST /json on DECISION_PORT; read again when it changes"},
		{Name: "CHECK_RATELIMIT", Value: service.String(&r.Check),
			Help: "file or folder as for RATELIMIT_CONFIG: check it, print what is wrong, and exit"},
	})
	s.AddWithNoEffect(s.NoEffectWhen("DECISION_PORT", "0"), service.SettingList{
		{Name: "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", Default: "false", Value: service.Bool(&r.Needed),
			Help: "true: DECISION_PORT is not healthy while there are no limits for descriptors"},
	})
	s.AddWithNoEffect(func() string {
		if s.Text("RATELIMIT_CONFIG") != "" || s.Text("CONFIG_TYPE") != "FILE" {
			return ""
		}
		return "while RATELIMIT_CONFIG is not set"
	}, service.SettingList{
		{Name: "MERGE_DOMAIN_CONFIG", Default: "false", Value: service.Bool(&r.Merge),
			Help: "true: several files of RATELIMIT_CONFIG may have the same domain"},
		{Name: "RATELIMIT_CHARGE", Default: "together",
			Value: service.Enum(&d.AllOrNothing, "together, independent", true, false),
			Help: "together: a request by gRPC or to /json that any limit refuses is charged to none; independent: each limit " +
				"is charged separately, as in envoyproxy/ratelimit"},
		{Name: "SHADOW_MODE", Default: "false", Value: service.Bool(&d.Shadow),
			Help: "true: requests by gRPC and to /json are counted and never refused"},
		{Name: "QUOTA_MODE", Default: "false", Value: service.Bool(&d.Quota),
			Help: "true: a request by gRPC or to /json is refused only when all its limits refuse it"},
		{Name: "RESPONSE_DYNAMIC_METADATA", Default: "false", Value: service.Bool(&d.Metadata),
			Help: "true: answers by gRPC and of /json have dynamic metadata: the request, and the metadata of limits that " +
				"admitted it"},
		{Name: "DEBT_MAX", Default: "100", Value: service.Int(&d.DebtMax, 0, 1_000_000),
			Help: "how far beyond its limit a descriptor with hits_addend of its own may be charged, as a multiple of the " +
				"limit; what exceeds that is not charged; 0: at most what is left"},
		{Name: "NEAR_LIMIT_RATIO", Default: "0.8", Value: service.Float(&d.NearRatio, 0, 1),
			Help: "share of a limit above which hits count as near the limit"},
	})
	s.AddWithNoEffect(func() string {
		if s.Text("RATE_LIMIT_HEADERS") == "envoy" {
			return ""
		}
		return "without RATE_LIMIT_HEADERS=envoy"
	}, service.SettingList{
		r.field("LIMIT_LIMIT_HEADER", "RateLimit-Limit", &d.Fields[0]),
		r.field("LIMIT_REMAINING_HEADER", "RateLimit-Remaining", &d.Fields[1]),
		r.field("LIMIT_RESET_HEADER", "RateLimit-Reset", &d.Fields[2]),
	})
}

// field returns the setting of a field's name in answers by gRPC and of /json.
func (r *RateLimit) field(setting, standard string, name *string) service.Setting {
	parse := func(text string) (string, error) {
		if !http1.IsToken(text) {
			return "", errors.New("is not the name of a field")
		}
		return text, nil
	}
	return service.Setting{Name: setting, Value: service.Func(name, "letters, digits, -", parse),
		Help: "name of the field " + standard + " in answers by gRPC and of /json, instead of this"}
}

// LimitFiles returns where files of limits for Envoy's rate limit service are. As in envoyproxy/ratelimit,
// those that its variables name do not have to be valid.
func (c *Config) LimitFiles() port.Source {
	const setting = "RATELIMIT_CONFIG"
	source := port.Source{Path: c.RateLimit.Config, Merge: c.RateLimit.Merge, Name: setting}
	if c.isTranslated(setting) {
		source.Name, source.Tolerant = cmp.Or(c.translated.from[setting], "RUNTIME_ROOT"), true
	}
	return source
}

// LimitsDescriptors reports whether there are limits for Envoy's rate limit service.
func (c *Config) LimitsDescriptors() bool { return c.RateLimit.Config != "" || c.XDS.Used }

// Settings returns the settings for decisions. limitFields are the fields for clients.
func (r *RateLimit) Settings(limitFields decide.LimitFields) envoy.Settings {
	d := r.settings
	d.LimitFields = limitFields
	return d
}
