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
	clientKey   string // as given

	rule.Options // registered here; RuleOptions completes them
}

// clientKeyDefault is the default of CLIENT_KEY.
const clientKeyDefault = "header:X-Client-Id"

func (r *Rules) register(s *service.Settings) {
	s.String(&r.File, "RULES_FILE", "",
		"file with rules in YAML or JSON, or with descriptors of envoyproxy/ratelimit; read again when it changes; empty: "+
			"rules come from /config/rules")
	s.String(&r.ClientsFile, "CLIENTS_FILE", "",
		"JSON file with limits of single clients; read again when it changes; empty: none")
	s.Func("CLIENT_KEY", clientKeyDefault, "key that identifies the clients of CLIENTS_FILE, if no rule has clients: true",
		"ip, ip/24, ip/64, header:N, cookie:N, query:N, path, method, host, secret:header:N", r.setClientKey)
	s.Func("DESCRIPTOR_KEYS", "",
		"sources of keys in descriptor files; defaults: remote_address is ip, path and method are themselves, any other "+
			"is the header of that name, except keys that Envoy itself sets",
		"message_type=header:X-Type,auth_type=query:auth with parts of keys",
		problem("is invalid", parsed(&r.DescriptorKeys, rule.ParseDescriptorKeys)))
	s.Func("EXEMPT", "", "paths and client networks to which no limit applies, such as those of health checks; a path "+
		"is exempt only in exactly this form; gates apply to these requests too",
		"paths as in rules and networks, comma separated: /health,/static/**,10.0.0.0/8",
		problem("is invalid",
			parsed(&r.Exempt, func(text string) (rule.Exemptions, error) { return rule.ParseExemptions(elements(text)) })))
}

func (r *Rules) setClientKey(text string) error {
	part, err := keys.ParsePart(text)
	switch {
	case err != nil:
		return errors.New("cannot be part of a key")
	case part.String() == rule.Global:
		return errors.New("is the same for all clients")
	}
	r.ClientKey, r.clientKey = part, text
	return nil
}

// complete does not read the files: package admin does, and watches them.
func (r *Rules) complete() error {
	if r.ClientsFile == "" && r.clientKey != clientKeyDefault {
		return &service.SettingError{Name: "CLIENT_KEY", Value: r.clientKey,
			Problem: "applies to clients of CLIENTS_FILE, which is not set",
			Allowed: "with CLIENTS_FILE"}
	}
	return nil
}
