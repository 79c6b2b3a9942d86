package rule_test

import (
	"strings"
	"testing"
	"time"

	"weir/proxy/limit"
	"weir/proxy/rule"
)

const messaging = `
domain: messaging
descriptors:
  - key: message_type
    value: marketing
    rate_limit:
      unit: day
      requests_per_unit: 5
`

const auth = `
domain: auth
descriptors:
  - key: auth_type
    Value: login
    rate_limit: {unit: minute, requests_per_unit: 5}
`

const tree = `
domain: shop
descriptors:
  - key: plan
    value: free
    rate_limit: {unit: second, requests_per_unit: 2}
    descriptors:
      - key: remote_address
        rate_limit: {unit: SECOND, requests_per_unit: 1}
      - key: remote_address
        value: 192.0.2.7
  - key: plan
    value: gold
    unlimited: true
  - key: plan
    value: none
    rate_limit: {unit: hour, requests_per_unit: 0}
  - key: plan
    shadow_mode: true
    detailed_metric: true
    rate_limit: {unit: minute, requests_per_unit: 9, name: others}
    descriptors:
      - {key: path, value: /a/, rate_limit: {unit: day, requests_per_unit: 3}}
  - key: method
    value: 404
    rate_limit: {unit: day, requests_per_unit: 4}
`

func TestDescriptors(t *testing.T) {
	sources, err := rule.ParseDescriptorKeys("auth_type=query:auth, plan=header:X-Plan")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ file, request, want string }{
		{messaging, "GET / | Message-Type: marketing", "messaging/message_type=marketing:"},
		{messaging, "GET / | Message-Type: other", ""},
		{messaging, "GET / | Message-Type: Marketing", ""},
		{messaging, "GET /", ""},
		{auth, "GET /?auth=login", "auth/auth_type=login:"},
		{auth, "GET / | Auth-Type: login", ""},
		// key and value go before the bare key, and nested entries count below theirs only
		{tree, "GET / | X-Plan: free", "shop/plan=free: shop/plan=free/remote_address:12:198.51.100.1"},
		{tree, "GET /a | X-Plan: gold", ""},
		{tree, "GET /a | X-Plan: none", "shop/plan=none:"},
		{tree, "GET / | X-Plan: best", "shop/plan:4:best"},
		{tree, "GET /a | X-Plan: best", "shop/plan:4:best shop/plan/path=/a:4:best"},
		{tree, "GET /a", "shop/plan:- shop/plan/path=/a:-"},
		{tree, "404 / | X-Plan: gold", "shop/method=404:"},
	} {
		s := read(t, test.file, rule.Options{DescriptorKeys: sources})
		got := strings.ReplaceAll(hits(t, s, test.request, "198.51.100.1"), "%2F", "/")
		if got != test.want {
			t.Errorf("%s meets %q, want %q", test.request, got, test.want)
		}
	}
	s := read(t, tree, rule.Options{DescriptorKeys: sources})
	if got := hits(t, s, "GET / | X-Plan: free", "192.0.2.7"); got != "shop/plan=free:" {
		t.Errorf("an address that is named goes before the bare key: %s", got)
	}
}

func TestDescriptorLimits(t *testing.T) {
	s := read(t, tree, rule.Options{})
	for i, want := range []struct {
		permits int64
		window  time.Duration
		mode    rule.Mode
	}{
		{2, time.Second, rule.Enforce},
		{1, time.Second, rule.Enforce},
		{0, time.Hour, rule.Enforce},
		{9, time.Minute, rule.Shadow},
		{3, 24 * time.Hour, rule.Enforce},
		{4, 24 * time.Hour, rule.Enforce},
	} {
		l := s.Limit(i)
		if l.Algorithm() != limit.Fixed || l.Permits() != want.permits || l.Window() != want.window || s.Rule(i).Mode != want.mode {
			t.Errorf("rule %s: %d in %v, %v; want %+v", s.Rule(i).ID, l.Permits(), l.Window(), s.Rule(i).Mode, want)
		}
	}
	var refusesAll limit.State
	if granted, _ := s.Limit(2).Take(time.Unix(1, 0).UnixMicro(), &refusesAll, 1, 1); granted != 0 {
		t.Error("requests_per_unit: 0 admits")
	}
}

func TestDescriptorFaults(t *testing.T) {
	rate := "rate_limit: {unit: day, requests_per_unit: 5}"
	for _, test := range []struct{ entry, want string }{
		{"{value: a, " + rate + "}", "descriptors[0].key: is missing"},
		{"{key: a b, " + rate + "}", "descriptors[0].key: must be a name that a field can have, or be in DESCRIPTOR_KEYS"},
		{"{key: a, value: b, Value: c, " + rate + "}", "descriptors[0].Value: given twice, as value too"},
		{"{key: a, value: b*, " + rate + "}", "wildcards are not supported"},
		{"{key: a, values: b}", "descriptors[0].values: unknown field; allowed: key, value"},
		{"{key: a, quota_mode: true}", "descriptors[0].quota_mode: is not supported"},
		{"{key: remote_address, value: here}", `descriptors[0].value: must be an IP address, is "here"`},
		{"{key: a, rate_limit: {unit: week, requests_per_unit: 5}}", `descriptors[0].rate_limit.unit: must be one of second, minute, hour, day, is "week"`},
		{"{key: a, rate_limit: {requests_per_unit: 5}}", "descriptors[0].rate_limit.unit: is missing"},
		{"{key: a, rate_limit: {unit: day}}", "descriptors[0].rate_limit.requests_per_unit: is missing"},
		{"{key: a, rate_limit: {unit: day, requests_per_unit: -1}}", "must be a whole number from 0"},
		{"{key: a, rate_limit: {unit: day, requests_per_unit: 5, replaces: [{name: b}]}}", "descriptors[0].rate_limit.replaces: is not supported"},
		{"{key: a, rate_limit: {unit: day, requests_per_unit: 5, unlimited: true}}", "must not have unit and requests_per_unit when it is unlimited"},
		{"{key: a, " + rate + "}\n  - {key: a}", "line 4: descriptors[1]: given twice"},
		{"{key: a, descriptors: 1}", "descriptors[0].descriptors: must be a list, is 1"},
		{"{key: a, descriptors: [{key: b, rate_limit: 1}]}", "descriptors[0].descriptors[0].rate_limit: must be an object, is 1"},
	} {
		_, err := rule.Read([]byte("domain: d\ndescriptors:\n  - "+test.entry+"\n"), rule.Options{})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: have %v, want %s", test.entry, err, test.want)
		}
	}
	for text, want := range map[string]string{
		"descriptors: []\n":         "domain: is missing",
		"domain: ''\n":              "domain: must not be empty",
		"domain: a\nrules: []\n":    "rules: unknown field",
		"domain: [a]\n":             "domain: must be a string, is a list",
		"domain: a\ndescriptors: 1": "descriptors: must be a list, is 1",
	} {
		if _, err := rule.Read([]byte(text), rule.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: have %v, want %s", text, err, want)
		}
	}
}

func TestDescriptorKeys(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "",
		"a=header:X, b=ip/24,":      "",
		"a":                         `must be pairs such as message_type=header:X-Type, is "a"`,
		"=ip":                       "must be pairs",
		"a=x,b=y":                   "a: must be one of global, ip",
		"a=ip,a=path":               "a: given twice",
		"a=global":                  "a: must not be global",
		"a=header:X Y,b=header:X=1": "a: must name a header",
	} {
		_, err := rule.ParseDescriptorKeys(text)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: have %v, want %q", text, err, want)
		}
	}
}

// A long id is cut, and stays apart from others with the same beginning.
func TestLongDescriptorIDs(t *testing.T) {
	long := strings.Repeat("x", 200)
	s := read(t, "domain: d\ndescriptors:\n"+
		"  - {key: a, value: "+long+"1, rate_limit: {unit: day, requests_per_unit: 5}}\n"+
		"  - {key: a, value: "+long+"2, rate_limit: {unit: day, requests_per_unit: 5}}\n", rule.Options{})
	if a, b := s.Rule(0).ID, s.Rule(1).ID; len(a) != 100 || len(b) != 100 || a == b {
		t.Errorf("ids %s and %s", a, b)
	}
}
