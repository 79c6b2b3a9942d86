package config

import (
	"errors"

	"weir/internal/program/service"
	"weir/proxy/rules/keys"
	"weir/proxy/rules/rule"
)

// Rules has the settings that say where rules come from.
type Rules struct {
	File        string // RULES_FILE; empty: the rules of /config/rules
	ClientsFile string // CLIENTS_FILE; empty: no client has a limit of its own

	rule.Options // registered here; RuleOptions completes them
}

func (r *Rules) register(s *service.Settings) {
	s.Add(service.SettingList{
		{Name: "RULES_FILE", Value: service.String(&r.File),
			Help: "file with rules in YAML or JSON, or with descriptors of envoyproxy/ratelimit; read again when it changes; " +
				"empty: rules come from /config/rules"},
		{Name: "CLIENTS_FILE", Value: service.String(&r.ClientsFile),
			Help: "JSON file with limits of single clients; read again when it changes; empty: none"},
		{Name: "CLIENT_KEY", Default: "header:X-Client-Id",
			Value: service.Func(&r.ClientKey,
				"ip, ip/24, ip/64, header:N, cookie:N, query:N, path, method, host, secret:header:N", clientKey),
			Help: "key that identifies the clients of CLIENTS_FILE, if no rule has clients: true"},
		{Name: "DESCRIPTOR_KEYS",
			Value: service.Func(&r.DescriptorKeys, "message_type=header:X-Type,auth_type=query:auth with parts of keys",
				explained("is invalid", rule.ParseDescriptorKeys)),
			Help: "sources of keys in descriptor files; defaults: remote_address is ip, path and method are themselves, any " +
				"other is the header of that name, except keys that Envoy itself sets"},
		{Name: "EXEMPT",
			Value: service.Func(&r.Exempt, "paths as in rules and networks, comma separated: /health,/static/**,10.0.0.0/8",
				explained("is invalid", listed(rule.ParseExemptions))),
			Help: "paths and client networks to which no limit applies, such as those of health checks; a path is exempt " +
				"only in exactly this form; gates apply to these requests too"},
	})
}

func clientKey(text string) (part keys.Part, err error) {
	part, err = keys.ParsePart(text)
	switch {
	case err != nil:
		return part, errors.New("cannot be part of a key")
	case part.String() == rule.GlobalID:
		return part, errors.New("is the same for all clients")
	}
	return part, nil
}

// complete does not read the files: package admin does, and watches them.
func (r *Rules) complete(s *service.Settings) error {
	return s.FaultIf(r.ClientsFile == "" && s.Changed("CLIENT_KEY"), "CLIENT_KEY",
		"applies to clients of CLIENTS_FILE, which is not set", "with CLIENTS_FILE")
}
