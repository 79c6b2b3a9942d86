package rule_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/limit"
	"weir/proxy/rules/rule"
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
    quota_mode: false
    share_threshold: false
    rate_limit: {unit: minute, requests_per_unit: 9, name: others}
    descriptors:
      - {key: path, value: /a/, rate_limit: {unit: day, requests_per_unit: 3}}
  - key: method
    value: 404
    rate_limit: {unit: day, requests_per_unit: 4}
    descriptors:
      - {key: w, rate_limit: {unit: week, requests_per_unit: 5}}
      - {key: m, rate_limit: {unit: Month, requests_per_unit: 6}}
      - {key: y, rate_limit: {unit: year, requests_per_unit: 7}}
`

func TestDescriptors(t *testing.T) {
	sources := testkit.Must(rule.ParseDescriptorKeys("auth_type=query:auth, plan=header:X-Plan"))(t)
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
		{tree, "GET /a | X-Plan:", "shop/plan:0: shop/plan/path=/a:0:"},
		{tree, "GET /a", ""}, // Envoy sends no descriptor
		{tree, "404 / | X-Plan: gold", "shop/method=404:"},
	} {
		s := read(t, test.file, rule.Options{DescriptorKeys: sources})
		got := strings.ReplaceAll(matches(t, s, test.request, "198.51.100.1"), "%2F", "/")
		if got != test.want {
			t.Errorf("%s meets %q, want %q", test.request, got, test.want)
		}
	}
	s := read(t, tree, rule.Options{DescriptorKeys: sources})
	if got := matches(t, s, "GET / | X-Plan: free", "192.0.2.7"); got != "shop/plan=free:" {
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
		{5, 7 * 24 * time.Hour, rule.Enforce},
		{6, 30 * 24 * time.Hour, rule.Enforce},
		{7, 365 * 24 * time.Hour, rule.Enforce},
	} {
		r := s.Rule(i)
		if l := r.Limit; l.Algorithm != limit.Fixed || l.Limit != want.permits || l.Window != want.window.Seconds() ||
			r.Mode != want.mode {
			t.Errorf("rule %s: %v, %v; want %+v", r.ID, l, r.Mode, want)
		}
	}
	var x rule.Scratch
	var refusesAll limit.State
	match := s.Match(head(t, "GET / | Plan: none"), address(""), &x)[0]
	if granted, _ := match.Limit.Take(time.Unix(1, 0).UnixMicro(), &refusesAll, 1, 1); granted != 0 {
		t.Errorf("requests_per_unit: 0 admits %d, want none", granted)
	}
}

// A limit may be one of ours, and names and flags of metrics mean nothing.
func TestDescriptorsOfOurs(t *testing.T) {
	s := read(t, `
domain: d
descriptors:
  - {key: a, metadata: {b: c}, rate_limit: {name: e, algorithm: token, capacity: 5, fillRate: 0.5}}
  - {key: b, value_to_metric: true, descriptors: null, rate_limit: {unit: day, requests_per_unit: 1}}
`, rule.Options{})
	if l := s.Rule(0).Limit; l.Algorithm != limit.Token || l.Capacity != 5 {
		t.Errorf("the limit is %+v", l)
	}
	document, err := s.MarshalJSON()
	want := `{"domain":"d","descriptors":[{"key":"a","rate_limit":{"algorithm":"token","capacity":5,"fillRate":0.5}},` +
		`{"key":"b","rate_limit":{"unit":"day","requests_per_unit":1}}]}`
	if err != nil || string(document) != want {
		t.Errorf("have %s, %v", document, err)
	}
	if again, _ := read(t, want, rule.Options{}).MarshalJSON(); string(again) != want {
		t.Errorf("it becomes %s", again)
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
		{"{key: a, quota_mode: true}", "descriptors[0].quota_mode: must be false: true is not supported"},
		{"{key: a, share_threshold: 1}", "descriptors[0].share_threshold: must be true or false, is 1"},
		{"{key: remote_address, value: here}", `descriptors[0].value: must be an IP address, is "here"`},
		{"{key: a, rate_limit: {unit: fortnight, requests_per_unit: 5}}",
			`descriptors[0].rate_limit.unit: must be one of second, minute, hour, day, week, month, year, is "fortnight"`},
		{"{key: remote_address, value: 10.0.0.0/8}",
			`descriptors[0].value: must be what the part ip tells clients apart by, such as 10.0.0.0, is "10.0.0.0/8"; or set DESCRIPTOR_KEYS=remote_address=ip/8`},
		{"{key: remote_address, value: '2001:db8::1'}",
			`must be what the part ip tells clients apart by, such as 2001:db8::/64, is "2001:db8::1"; or set DESCRIPTOR_KEYS=remote_address=ip/128`},
		{"{key: remote_address, value: '2001:db8::/32'}",
			`must be what the part ip tells clients apart by, such as 2001:db8::/64, is "2001:db8::/32"`},
		{"{key: remote_address, value: 10.1.2.3/8}", "must be the address of a network, such as 10.0.0.0/8"},
		{"{key: generic_key, value: slow}",
			"descriptors[0].key: must be in DESCRIPTOR_KEYS, as in generic_key=header:X-Class, because it is a constant of " +
				"Envoy's route and not a part of a request"},
		{"{key: header_match, value: slow}", "must be in DESCRIPTOR_KEYS"},
		{"{key: destination_cluster, value: a}", "must be in DESCRIPTOR_KEYS"},
		{"{key: source_cluster, value: a}", "must be in DESCRIPTOR_KEYS"},
		{"{key: masked_remote_address}", "must be in DESCRIPTOR_KEYS, as in masked_remote_address=ip/24"},
		{"{key: x-forwarded-for}", "must be remote_address, which respects TRUSTED_PROXIES"},
		{"{key: header_x_forwarded_for}", "must be remote_address"},
		{"{key: X_Real_IP}", "must be remote_address"},
		{"{key: a, descriptors: [{key: forwarded}]}", "descriptors[0].descriptors[0].key: must be remote_address"},
		{"{key: 'tenant_*'}", "descriptors[0].key: must be one key without *"},
		{"{key: path, value: login}", `must be a path that begins with / and has no ? and #, is "login"`},
		{"{key: path, value: '/a?b=c'}", "must be a path that begins with /"},
		{"{key: method, value: get}", "must be a method in upper case"},
		{"{key: a, rate_limit: {requests_per_unit: 5}}", "descriptors[0].rate_limit.unit: is missing"},
		{"{key: a, rate_limit: {unit: day, requests_per_unit: x}}", "requests_per_unit: must be a whole number, is"},
		{"{key: a, rate_limit: {unit: day, requests_per_unit: -1}}", "must be a whole number from 0"},
		{"{key: a, rate_limit: {unit: day, requests_per_unit: 5, replaces: [{name: b}]}}",
			"descriptors[0].rate_limit.replaces: is not supported"},
		{"{key: a, rate_limit: {unit: day, requests_per_unit: 5, unlimited: true}}",
			"descriptors[0].rate_limit.unit: is not allowed with unlimited"},
		{"{key: a, " + rate + "}\n  - {key: a}", "line 4: descriptors[1]: is given twice"},
		{"{key: path, value: /a, " + rate + "}\n  - {key: path, value: /./a}", "line 4: descriptors[1]: is given twice"},
		{"{key: a, rate_limit: {algorithm: token, capacity: 5}}", "descriptors[0].rate_limit.fillRate: is missing"},
		{"{key: a, descriptors: 1}", "descriptors[0].descriptors: must be a list, is 1"},
		{"{key: a, descriptors: [{key: b, rate_limit: 1}]}",
			"descriptors[0].descriptors[0].rate_limit: must be an object, is 1"},
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

// Networks and keys that Envoy gives a meaning count once the setting says what
// they are.
func TestDescriptorKeysOfEnvoy(t *testing.T) {
	sources := testkit.Must(
		rule.ParseDescriptorKeys("masked_remote_address=ip/8, generic_key=header:X-Class, remote_address=ip/128"))(t)
	s := read(t, `
domain: d
descriptors:
  - {key: masked_remote_address, value: 10.0.0.0/8, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: masked_remote_address, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: generic_key, value: slow, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: remote_address, value: "2001:db8::1", rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: remote_address, value: 10.9.9.9/32}
  - {key: remote_address, rate_limit: {unit: day, requests_per_unit: 1}}
`, rule.Options{DescriptorKeys: sources})
	for _, test := range []struct{ request, client, want string }{
		{"GET /", "10.1.2.3", "d/masked_remote_address=10.0.0.0%2F8: d/remote_address:8:10.1.2.3"},
		{"GET /", "10.9.9.9", "d/masked_remote_address=10.0.0.0%2F8:"},
		{"GET / | X-Class: slow", "11.1.2.3",
			"d/masked_remote_address:10:11.0.0.0/8 d/generic_key=slow: d/remote_address:8:11.1.2.3"},
		{"GET / | Generic-Key: slow", "2001:db8::1",
			"d/masked_remote_address:13:2001:db8::/64 d/remote_address=2001:db8::1:"},
		{"GET /", "2001:db8::2", "d/masked_remote_address:13:2001:db8::/64 d/remote_address:11:2001:db8::2"},
	} {
		if got := matches(t, s, test.request, test.client); got != test.want {
			t.Errorf("%s from %s meets %q, want %q", test.request, test.client, got, test.want)
		}
	}
}

// The id of a rule does not show a value that is secret.
func TestIDsOfSecretValues(t *testing.T) {
	entry := func(value string) string {
		return "domain: d\ndescriptors:\n  - {key: authorization, value: " + value +
			", rate_limit: {unit: day, requests_per_unit: 5}}\n"
	}
	s := read(t, entry("topsecret"), rule.Options{})
	if got := matches(t, s, "GET / | Authorization: topsecret", ""); got != "d/authorization=sha256:53336a676c64:" {
		t.Errorf("the rule is %s", got)
	}
	if _, err := rule.Read([]byte(entry("'topsecret*'")), rule.Options{}); err == nil ||
		strings.Contains(err.Error(), "topsecret") {
		t.Errorf("have %v, want a fault without the value", err)
	}
}

// Eight limits and the global one apply to a request; a file in which nine could
// is refused, with the place.
func TestEightDescriptorsApply(t *testing.T) {
	file := func(n int) string {
		text := "domain: d\ndescriptors:\n"
		for i := range n {
			text += fmt.Sprintf("  - {key: k%d, rate_limit: {unit: day, requests_per_unit: 1}}\n", i)
		}
		return text
	}
	s := read(t, file(8), rule.Options{})
	request := "GET /"
	for i := range 8 {
		request += fmt.Sprintf(" | K%d: x", i)
	}
	if got := strings.Fields(matches(t, s, request, "")); len(got) != 8 {
		t.Errorf("%d limits apply, want 8: %v", len(got), got)
	}
	_, err := rule.Read([]byte(file(9)), rule.Options{})
	if want := "line 11: descriptors[8]: the rules d/k0, d/k1"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("nine: have %v, want %s", err, want)
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
