package config

import (
	"errors"

	"weir/internal/service"
	"weir/proxy/keys"
	"weir/proxy/rule"
)

// Rules is the settings that say where rules come from.
type Rules struct {
	File        string // RULES_FILE; empty: the rules of /config/rules
	ClientsFile string // CLIENTS_FILE; empty: no client has a limit of its own
	// ClientKey and DescriptorKeys are what rules are read with.
	ClientKey      keys.Part
	DescriptorKeys rule.DescriptorKeys
	Exempt         rule.Exemptions

	clientKey string // as given
}

// clientKeyDefault is CLIENT_KEY unless it is set.
const clientKeyDefault = "header:X-Client-Id"

// register adds the settings to s.
func (r *Rules) register(s *service.Settings) {
	s.String(&r.File, "RULES_FILE", "", "file of the rules, YAML or JSON, or descriptors as of envoyproxy/ratelimit; read again when it changes; empty: those of /config/rules")
	s.String(&r.ClientsFile, "CLIENTS_FILE", "", "JSON file of the limits of single clients; read again when it changes; empty: none")
	s.Func("CLIENT_KEY", clientKeyDefault, "what tells clients of CLIENTS_FILE apart, when no rule has clients: true",
		"ip, ip/24, ip/64, header:N, cookie:N, query:N, path, method, host, secret:header:N", r.setClientKey)
	s.Func("DESCRIPTOR_KEYS", "", "where the keys of descriptor files come from; the others: remote_address from ip, path, method, any other from the header of that name, except those that Envoy makes up",
		"message_type=header:X-Type,auth_type=query:auth with parts of keys", r.setDescriptorKeys)
	s.Func("EXEMPT", "", "paths and clients' networks to which no limit applies, such as those of health checks; a path is exempt only as it is written here, the gate bounds these requests too",
		"paths as in rules and networks, comma separated: /health,/static/**,10.0.0.0/8", r.setExempt)
}

func (r *Rules) setClientKey(text string) error {
	part, err := keys.ParsePart(text)
	switch {
	case err != nil:
		return errors.New("is no part of a key")
	case part.String() == rule.Global:
		return errors.New("is the same for all clients")
	}
	r.ClientKey, r.clientKey = part, text
	return nil
}

func (r *Rules) setExempt(text string) (err error) {
	if r.Exempt, err = rule.ParseExemptions(elements(text)); err != nil {
		return errors.New("is not understood: " + err.Error())
	}
	return nil
}

func (r *Rules) setDescriptorKeys(text string) (err error) {
	if r.DescriptorKeys, err = rule.ParseDescriptorKeys(text); err != nil {
		return errors.New("is not understood: " + err.Error())
	}
	return nil
}

// complete checks what the settings mean together. Files are read by whoever
// watches them.
func (r *Rules) complete() error {
	if r.ClientsFile == "" && r.clientKey != clientKeyDefault {
		return &service.SettingError{Name: "CLIENT_KEY", Value: r.clientKey, Problem: "is for clients of CLIENTS_FILE, which is not set",
			Allowed: "with CLIENTS_FILE"}
	}
	return nil
}
