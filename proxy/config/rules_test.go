package config

import (
	"strings"
	"testing"

	"weir/internal/program/service"
	"weir/internal/test/testkit"
)

// parseRules reads the settings of rules from names and values in turn.
func parseRules(env ...string) (*Rules, error) {
	r := new(Rules)
	s := service.NewSettings("proxy")
	r.register(s)
	_, err := s.Parse(nil, testkit.Env(env))
	if err == nil {
		err = r.complete(s)
	}
	return r, err
}

func TestRules(t *testing.T) {
	for _, test := range []struct {
		env       string // separated by spaces
		clientKey string
		types     string // what DESCRIPTOR_KEYS has for message_type
	}{
		{"", "header:X-Client-Id", ""},
		{"RULES_FILE /etc/weir/rules.yaml CLIENTS_FILE /etc/weir/clients.json", "header:X-Client-Id", ""},
		{"CLIENTS_FILE clients.json CLIENT_KEY ip/56", "ip/56", ""},
		{"CLIENT_KEY header:X-Client-Id", "header:X-Client-Id", ""},
		{"DESCRIPTOR_KEYS message_type=header:X-Type,auth_type=query:auth", "header:X-Client-Id", "header:X-Type"},
	} {
		r, err := parseRules(strings.Fields(test.env)...)
		if err != nil {
			t.Errorf("%s: %v", test.env, err)
			continue
		}
		if got := r.ClientKey.String(); got != test.clientKey {
			t.Errorf("%s: clients are told apart by %s, want %s", test.env, got, test.clientKey)
		}
		if got := r.DescriptorKeys["message_type"].String(); got != test.types {
			t.Errorf("%s: message_type is %q, want %q", test.env, got, test.types)
		}
	}
	if r, _ := parseRules("RULES_FILE", "a", "CLIENTS_FILE", "b"); r.File != "a" || r.ClientsFile != "b" {
		t.Errorf("the files are %q and %q, want a and b", r.File, r.ClientsFile)
	}
}

func TestRulesFaults(t *testing.T) {
	for _, test := range []struct{ name, value, want string }{
		{"CLIENT_KEY", "X-Client-Id", `CLIENT_KEY: "X-Client-Id" cannot be part of a key; allowed: ip, ip/24`},
		{"CLIENT_KEY", "global", `CLIENT_KEY: "global" is the same for all clients; allowed: ip,`},
		{"CLIENT_KEY", "ip",
			`CLIENT_KEY: "ip" applies to clients of CLIENTS_FILE, which is not set; allowed: with CLIENTS_FILE`},
		{"DESCRIPTOR_KEYS", "message_type",
			`DESCRIPTOR_KEYS: "message_type" is invalid: must be pairs such as message_type=header:X-Type`},
		{"DESCRIPTOR_KEYS", "a=header:A,b=body,a=ip", `is invalid: b: must be one of`},
		{"DESCRIPTOR_KEYS", "a=header:A,b=body,a=ip", `; a: given twice; allowed: message_type=header:X-Type,`},
	} {
		_, err := parseRules(test.name, test.value)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s=%s: told %v, want %s", test.name, test.value, err, test.want)
		}
	}
}
