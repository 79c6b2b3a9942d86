package rule_test

import (
	"errors"
	"strings"
	"testing"

	"weir/internal/data/strict"
	"weir/internal/test/testkit"
	"weir/proxy/rules/rule"
)

const exempting = `rules:
- {id: all, key: [ip], limit: {algorithm: fixed, limit: 1, window: 1}}
- {id: probes, exempt: true, match: {path: /health, methods: [GET, HEAD]}}
- {id: inside, match: {addresses: [10.1.2.3/8, "2001:db8::1"], path: /in}, limit: {algorithm: off}}
- {id: monitors, exempt: true, match: {addresses: [192.0.2.0/24]}}
- {id: pages, exempt: true, mode: enforce, match: {path: /a%20b/**, addresses: [198.51.100.7]}}
`

// What is exempt, by which rule, wherever that stands.
func TestExempt(t *testing.T) {
	e := testkit.Must(rule.ParseExemptions([]string{"/ready/*", "203.0.113.7", "2001:db8:1::/48"}))(t)
	s := read(t, exempting, rule.Options{Exempt: e})
	var x rule.Scratch
	for _, test := range []struct{ request, client, by string }{
		{"GET /health", "8.8.8.8", "probes"},
		{"GET /health?x=/..", "8.8.8.8", "probes"},
		{"POST /health", "8.8.8.8", ""},
		{"GET /health/", "8.8.8.8", ""},
		{"GET /health/x", "8.8.8.8", ""},
		{"GET /health/..%2fapi", "8.8.8.8", ""},
		{"GET /health;x", "8.8.8.8", ""},
		{"GET //health", "8.8.8.8", ""},
		{"GET /api/../health", "8.8.8.8", ""},
		{"GET /%68ealth", "8.8.8.8", ""},
		{"GET /api", "192.0.2.9", "monitors"},
		{"GET /api/../x%2fy", "192.0.2.9", "monitors"},
		{"GET /api", "::ffff:192.0.2.9", "monitors"},
		{"GET /api", "64:ff9b::192.0.2.9", "monitors"},
		{"GET /api", "", ""},
		{"GET /a%20b/c", "198.51.100.7", "pages"},
		{"GET /a%20b/c%2Fd", "198.51.100.7", ""},
		{"GET /a%20b/c", "198.51.100.8", ""},
		{"GET /ready/now", "8.8.8.8", rule.ExemptRule},
		{"GET /ready/%6eow", "8.8.8.8", ""},
		{"GET /ready/", "8.8.8.8", ""},
		{"GET /ready/a%20b..c", "8.8.8.8", ""},
		{"GET /ready/a..b", "8.8.8.8", rule.ExemptRule},
		{"GET /ready/..%5Capi", "8.8.8.8", ""},
		{"GET /ready/%252E%252E%252Fapi", "8.8.8.8", ""},
		{"GET /ready/..%EF%BC%8Fapi", "8.8.8.8", ""},
		{"GET /ready/%C0%AE%C0%AE%C0%AFapi", "8.8.8.8", ""},
		{"GET /ready/x%00", "8.8.8.8", ""},
		{"GET /ready/caf%C3%A9", "8.8.8.8", rule.ExemptRule},
		{"GET /", "203.0.113.7", rule.ExemptRule},
		{"GET /", "2001:db8:1:2::3", rule.ExemptRule},
		{"GET /", "2001:db8:2::3", ""},
	} {
		h, by := head(t, test.request), ""
		if i, exempt := s.Exempt(h, address(test.client), &x); exempt {
			by = s.Rule(i).ID
		}
		if by != test.by {
			t.Errorf("%s of %s is exempt by %q, want %q", test.request, test.client, by, test.by)
		}
		if n := testing.AllocsPerRun(10, func() { s.Exempt(h, address(test.client), &x) }); test.client != "" && n > 0 {
			t.Errorf("%s: %v allocations", test.request, n)
		}
	}
	// Any rule may be for some addresses.
	for client, want := range map[string]string{"10.9.9.9": "all:8:10.9.9.9 inside:",
		"2001:db8::1": "all:13:2001:db8::/64 inside:", "11.9.9.9": "all:8:11.9.9.9", "": "all:-"} {
		if got := matches(t, s, "GET /in", client); got != want {
			t.Errorf("%q meets %s, want %s", client, got, want)
		}
	}
	text := testkit.Must(s.MarshalJSON())(t)
	again, err := read(t, string(text), rule.Options{}).MarshalJSON()
	if err != nil || string(again) != string(text) ||
		!strings.Contains(string(text),
			`},{"id":"probes","exempt":true,"match":{"methods":["GET","HEAD"],"path":"/health"},"mode":"enforce"},{"id":"inside"`) {
		t.Errorf("written as %s, then as %s, %v", text, again, err)
	}
}

func TestExemptFaults(t *testing.T) {
	f := func(line, want string) {
		t.Helper()
		_, err := rule.Read([]byte("rules:\n  - {id: a, exempt: true, "+line+"}\n"), rule.Options{})
		if faults, ok := errors.AsType[strict.Faults](err); !ok ||
			!strings.HasPrefix(faults[0].Error(), "line 2: rules[0]."+want) {
			t.Errorf("%s: have %v, want %s", line, err, want)
		}
	}
	f("match: {methods: [GET]}", "match: must have a path or addresses with exempt")
	f("match: {path: /a, headers: {X-Probe: a}}",
		"match: must not have host or headers with exempt, since clients can send any")
	f("match: {path: /a, host: a.example}", "match: must not have host or headers with exempt")
	f("match: {path: /a}, limit: {algorithm: off}",
		"limit: is not allowed with exempt, since no limit applies; allowed: id, match")
	f("match: {path: /a}, key: [ip]", "key: is not allowed with exempt")
	f("match: {path: /a}, mode: shadow", "mode: must not be shadow with exempt")
	f("match: {path: /a/}", "match.path: must not end in /")
	f("match: {addresses: []}", "match.addresses: must not be empty")
	f("match: {addresses: [10.0.0.0/33]}",
		"match.addresses[0]: must be a network or an address such as 10.0.0.0/8 or 2001:db8::1, is \"10.0.0.0/33\"")
	f("match: {addresses: [7]}", "match.addresses[0]: must be a network or an address")
	for _, word := range []string{"health", "/health/", "::ffff:10.0.0.0/104", "10.0.0.0/8/8", ""} {
		if _, err := rule.ParseExemptions([]string{word}); err == nil {
			t.Errorf("%q exempts", word)
		}
	}
}
