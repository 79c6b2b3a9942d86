package rule_test

import (
	"slices"
	"strings"
	"testing"

	"weir/proxy/rules/keys"
	"weir/proxy/rules/rule"
)

func TestKeys(t *testing.T) {
	for _, test := range []struct{ key, request, client, want string }{
		{"global", "GET /", "192.0.2.7", ""},
		{"ip", "GET /", "192.0.2.7", "9:192.0.2.7"},
		{"ip", "GET /", "::ffff:192.0.2.7", "9:192.0.2.7"},
		{"ip", "GET /", "64:ff9b::192.0.2.7", "9:192.0.2.7"},
		{"ip/24", "GET /", "64:ff9b::192.0.2.7", "12:192.0.2.0/24"},
		{"ip", "GET /", "2001:db8:1:2:3:4:5:6", "17:2001:db8:1:2::/64"},
		{"ip", "GET /", "fe80::1%eth0", "9:fe80::/64"},
		{"ip", "GET /", "", "-"},
		{"ip/24", "GET /", "192.0.2.7", "12:192.0.2.0/24"},
		{"ip/24", "GET /", "::ffff:192.0.2.7", "12:192.0.2.0/24"},
		{"ip/24", "GET /", "2001:db8::1", "13:2001:db8::/64"},
		{"ip/48", "GET /", "2001:db8:1:2::1", "15:2001:db8:1::/48"},
		{"ip/48", "GET /", "192.0.2.7", "9:192.0.2.7"},
		{"ip/128", "GET /", "2001:db8::1", "11:2001:db8::1"},
		{"header:X-Partner", "GET / | x-PARTNER:  acme ", "", "4:acme"},
		{"header:X-Partner", "GET / | X-Partner:", "", "0:"},
		{"header:X-Partner", "GET /", "", "-"},
		{"header:X-Partner", "GET / | XX-Partner: acme | X-Partners: acme | X-Partne: r", "", "-"},
		{"header:X-Partner", "GET / | Connection: x-partner | X-Partner: acme", "", "4:acme"},
		{"cookie:sid", "GET / | Cookie: a=1; sid=x=y; sid=x=y", "", "secret x=y"},
		{"cookie:sid", "GET / | Cookie: a=1 | Cookie: sid=2", "", "secret 2"},
		{"cookie:sid", `GET / | Cookie: sid="q;x"`, "", `secret "q`},
		{"cookie:sid", `GET / | Cookie: sid="q"`, "", "secret q"},
		{"cookie:sid", "GET / | Cookie: side=1; xsid=2; sid", "", "secret "},
		{"cookie:sid", "GET / | Cookie: side=1; xsid=2; si=d", "", "-"},
		{"header:Authorization", "GET / | authorization: Bearer x", "", "secret bearer x"},
		{"header:COOKIE", "GET / | Cookie: a=1", "", "secret a=1"},
		{"header:proxy-authorization", "GET / | Proxy-Authorization: x", "", "secret x"},
		{"header:X-API-Key", "GET / | X-Api-Key: k1", "", "secret k1"},
		{"header:X-Api-Key", "GET /", "", "-"},
		{"secret:header:X-Partner", "GET / | X-Partner: acme", "", "secret acme"},
		{"secret:header:X-Partner", "GET / | X-Partner:", "", "secret "},
		{"secret:header:X-Partner", "GET /", "", "-"},
		{"secret:query:auth", "GET /?auth=to+k%65n", "", "secret to ken"},
		{"secret:cookie:sid", "GET / | Cookie: sid=2", "", "secret 2"},
		{"query:auth", "GET /?a=1&auth=to+k%65n&b=2", "", "6:to ken"},
		{"query:auth", "GET /?%61uth=x", "", "1:x"},
		{"query:auth", "GET /?auth", "", "0:"},
		{"query:auth", "GET /?auth=%zz%4", "", "5:%zz%4"},
		{"query:auth", "GET /?oauth=1&auth2=2&aut=h", "", "-"},
		{"query:auth", "GET /", "", "-"},
		{"path", "GET /a/./b/%7e//c/?q", "", "8:/a/b/~/c"},
		{"method", "PATCH /", "", "5:PATCH"},
		{"method", "BREW /", "", "4:BREW"},
		{"host", "GET / | Host: API.Example.com.:8080", "", "15:api.example.com"},
		{"host", "GET / | Host: [::1]:8080", "", "5:[::1]"},
		{"host", "GET http://api.example.com/ | Host: api.example.com", "", "15:api.example.com"},
		{"header:A, header:B", "GET / | A: 1 | B: 2", "", "1:11:2"},
		{"header:A, header:B", "GET / | A: 11:2", "", "4:11:2-"},
		{"header:A, header:B", "GET / | B: 1", "", "-1:1"},
		{"query:a, query:b, path", "GET //x?a=%31&b=%32", "", "1:11:22:/x"},
	} {
		s := read(t, rules("id: r, key: ["+strings.ReplaceAll(test.key, "header:", "header:")+"]"), rule.Options{})
		if value, secret := strings.CutPrefix(test.want, "secret "); secret {
			test.want = string(keys.AppendSecret(nil, []byte(value)))
		}
		if got := matches(t, s, test.request, test.client); got != "r:"+test.want {
			t.Errorf("key %s of %s from %s is %s, want %s", test.key, test.request, test.client, got, "r:"+test.want)
		}
	}
}

// No two different lists of values have the same key, whatever they are made of.
func TestKeysDoNotCollide(t *testing.T) {
	words := []string{"missing", "secret", "", "-", "0:", "1", "1:1", "11", "-1:", "1:-"}
	seen := make(map[string][2]string)
	for _, a := range words {
		for _, b := range words {
			var key []byte
			for _, word := range []string{a, b} {
				if word == "missing" {
					key = keys.AppendMissingPart(key)
				} else if word == "secret" {
					key = keys.AppendSecret(key, nil)
				} else {
					key = keys.AppendPart(key, []byte(word))
				}
			}
			if other, twice := seen[string(key)]; twice {
				t.Errorf("%q and %q have the same key %s", other, [2]string{a, b}, key)
			}
			seen[string(key)] = [2]string{a, b}
		}
	}
}

// A secret is nowhere in a key, and people see 12 digits of its digest; also where a
// key is cut.
func TestSecretsAreNotTold(t *testing.T) {
	s := read(t, rules("id: r, key: [path, header:Authorization, query:q, method]"), rule.Options{})
	key := matches(t, s, "GET /a?q=1 | Authorization: Bearer topsecret", "")[len("r:"):]
	if strings.Contains(key, "topsecret") {
		t.Errorf("the key is %q", key)
	}
	// printf 'bearer topsecret' | sha256sum
	const shown = "sha256:c859cca49c8b"
	for _, test := range []struct{ key, want string }{
		{key, "2:/a19:" + shown + "1:13:GET"},
		{key[:4+1+32], "2:/a19:" + shown},
		{key[:4+1+20], "2:/a19:" + shown},
		{key[:4+1+2], "2:/a11:" + shown[:11]},
		{"-3:abc", "-3:abc"}, {"200:abc", "200:abc"}, {"odd", "odd"}, {"", ""},
	} {
		if got := string(keys.AppendRedacted(nil, []byte(test.key))); got != test.want {
			t.Errorf("%q is shown as %q, want %q", test.key, got, test.want)
		}
	}
}

// The file of clients names secrets as clients send them.
func TestSecretClients(t *testing.T) {
	for _, word := range []string{"header:X-Api-Key", "secret:header:X-Partner", "cookie:sid"} {
		s := read(t, rules(`id: r, key: ["`+word+`"], clients: true`),
			rule.Options{Clients: clients(t, `{"acme":{"algorithm":"fixed","limit":77,"window":1}}`)})
		h := head(t, "GET / | X-Api-Key: acme | X-Partner: acme | Cookie: sid=acme")
		var x rule.Scratch
		if found := s.Match(h, address(""), &x); len(found) != 1 || found[0].Limit.Permits() != 77 {
			t.Errorf("%s: %+v, want the client's limit", word, found)
		}
	}
}

// Faults of the client file do not show names that are secret.
func TestFaultsDoNotTellSecretClients(t *testing.T) {
	const topsecret = "sha256:53336a676c64"
	for _, text := range []string{
		`{"topsecret":{"algorithm":"fixed","limit":-1,"window":1}}`, `{"topsecret":5}`,
		`{"topsecret":{"algorithm":"off"},"topsecret":{"algorithm":"off"}}`,
	} {
		_, err := rule.ReadClients([]byte(text), part(t, "ip"), part(t, "header:X-Api-Key"))
		if err == nil || strings.Contains(err.Error(), "topsecret") || !strings.Contains(err.Error(), topsecret) {
			t.Errorf("%s: %v", text, err)
		}
		if _, err := rule.ReadClients([]byte(text), part(t, "ip")); err == nil ||
			!strings.Contains(err.Error(), "topsecret") {
			t.Errorf("%s, whose names are no secrets: %v", text, err)
		}
	}
	one := clients(t, `{"topsecret":{"algorithm":"off","priority":"top"}}`)
	for key, told := range map[string]string{"cookie:sid": topsecret, "ip": `"topsecret"`} {
		text := rules(`id: r, key: ["` + key + `"], clients: true, priority: {classes: {low: 0}, default: low}`)
		if _, err := rule.Read([]byte(text), rule.Options{Clients: one}); err == nil || !strings.Contains(err.Error(), told) {
			t.Errorf("key %s: %v, want %s", key, err, told)
		}
	}
}

func TestMatch(t *testing.T) {
	for _, test := range []struct {
		match, request string
		want           bool
	}{
		{"{}", "GET /", true},
		{"{methods: [GET, POST]}", "POST /", true},
		{"{methods: [GET, POST]}", "PUT /", false},
		{"{methods: [BREW]}", "BREW /", true},
		{"{methods: [BREW]}", "STIR /", false},
		{"{path: /a/b}", "GET /a/b", true},
		{"{path: /a/b}", "GET /a/b?c", true},
		{"{path: /a/b}", "GET /a/b/", true},
		{"{path: /a/b}", "GET /a/bc", false},
		{"{path: /a/b}", "GET /A/b", false},
		{"{path: /}", "GET /", true},
		{"{path: /}", "GET http://localhost", true},
		{"{path: /}", "GET /a", false},
		{"{path: /**}", "GET /", true},
		{"{path: /**}", "OPTIONS *", true},
		{"{path: /api/**}", "GET /api", true},
		{"{path: /api/**}", "GET /api/", true},
		{"{path: /api/**}", "GET /api/a/b", true},
		{"{path: /api/**}", "GET /apix", false},
		{"{path: /api/**}", "GET /x/api/a", false},
		{"{path: /api/*}", "GET /api/a", true},
		{"{path: /api/*}", "GET /api", false},
		{"{path: /api/*}", "GET /api/a/b", false},
		{"{path: /*/b}", "GET /a/b", true},
		{"{path: /*/b}", "GET /b", false},
		{"{path: /**/b}", "GET /b", true},
		{"{path: /**/b}", "GET /b/a/b", true},
		{"{path: /**/b}", "GET /b/a", false},
		{"{path: /a/**/c/*/e}", "GET /a/c/c/d/c/x/e", true},
		{"{path: /a/**/c/*/e}", "GET /a/c/e", false},
		{"{path: /a/**/b/**}", "GET /a/x/y/b", true},
		{"{path: /a/%2A}", "GET /a/*", true},
		{"{path: /a/%2A}", "GET /a/%2a", true},
		{"{path: /a/%2A}", "GET /a/b", false},
		{"{path: /a b}", "GET /a%20b", false},
		{"{host: api.example.com}", "GET / | Host: API.example.com:80", true},
		{"{host: API.example.com}", "GET / | Host: api.example.com.", true},
		{"{host: api.example.com}", "GET / | Host: example.com", false},
		{`{host: "*.example.com"}`, "GET / | Host: a.example.com", true},
		{`{host: "*.example.com"}`, "GET / | Host: a.b.example.com", false},
		{`{host: "*.example.com"}`, "GET / | Host: example.com", false},
		{`{host: "**.example.com"}`, "GET / | Host: a.b.example.com", true},
		{"{headers: {X-Plan: free}}", "GET / | x-plan: free", true},
		{"{headers: {X-Plan: free}}", "GET / | X-Plan: Free", false},
		{"{headers: {X-Plan: free}}", "GET / | X-Plan: gold | X-Plan: best", false},
		{"{headers: {X-Plan: free}}", "GET /", false},
		{`{headers: {X-Plan: ""}}`, "GET / | X-Plan:", true},
		{"{headers: {X-Version: 2, X-Plan: free}}", "GET / | X-Version: 2 | X-Plan: free", true},
		{"{headers: {X-Version: 2, X-Plan: free}}", "GET / | X-Version: 2", false},
		{"{headers: {X-Flag: True}}", "GET / | X-Flag: True", true}, // as written
		{"{headers: {X-Flag: True}}", "GET / | X-Flag: true", false},
	} {
		text := rules("id: r, match: " + test.match)
		s, err := rule.Read([]byte(text), rule.Options{})
		if err != nil {
			if test.want {
				t.Errorf("%s: %v", test.match, err)
			}
			continue
		}
		if got := matches(t, s, test.request, "") != ""; got != test.want {
			t.Errorf("%s matches %s: %v", test.match, test.request, got)
		}
	}
}

// Whichever way a path is written that a target takes for the same, it meets the
// same rule.
func TestNoWayAround(t *testing.T) {
	s := read(t, rules("id: login, match: {path: /api/login}", "id: admin, match: {path: /admin/**}"), rule.Options{})
	for request, want := range map[string]string{
		"GET /api/login":                  "login:",
		"GET /api/login/":                 "login:",
		"GET /api//login":                 "login:",
		"GET //api/login":                 "login:",
		"GET /./api/./login/.":            "login:",
		"GET /x/../api/login":             "login:",
		"GET /../../api/login":            "login:",
		"GET /api/x/%2e%2e/login":         "login:",
		"GET /api/x/.%2E/login":           "login:",
		"GET /api/%2e/login":              "login:",
		"GET /%61pi/%6Cogin":              "login:",
		"GET /api/x//..//login":           "login:",
		"GET http://localhost/api/login":  "login:",
		"GET /api/login?/../x":            "login:",
		"GET /admin/../api/login":         "login:",
		"GET /admin/a/../../admin//x":     "admin:",
		"GET /admin":                      "admin:",
		"GET /admin/..%2f..":              "admin:", // as it is written
		"GET /x/..%2fadmin":               "admin:", // decoded
		"GET /api%2Flogin":                "login:",
		"GET /%2fapi%2f.%2flogin%2f":      "login:",
		"GET /api/x%2F..%2Flogin":         "login:",
		"GET /api%2fx/%2e%2E/login":       "login:",
		"GET /api/login;x":                "login:", // without parameters
		"GET /api;x=1/login;y=/":          "login:",
		"GET /x/..;/api/login":            "login:",
		"GET /api/login;x%2Fy":            "login:", // which begin before an escape
		"GET /api%2Flogin;x%2Fy":          "login:",
		"GET /x;y%2F..%2Fapi/login":       "login:", // or are none
		"GET /admin/..%2Fapi%2Flogin":     "login: admin:",
		"GET /api/login/..":               "",
		"GET /admin/..":                   "",
		"GET /api%252Flogin":              "",
		"GET /api/login%3Bx":              "",
		"GET /api/login/x":                "",
		"GET /admin/x/%2e%2e/..":          "",
		"GET /%252e%252e/admin/%2e%2e/ok": "",
	} {
		if got := matches(t, s, request, ""); got != want {
			t.Errorf("%s meets %q, want %q", request, got, want)
		}
	}
}

// Spellings of a path share a key, whatever the target makes of them.
func TestSpellingsShareAKey(t *testing.T) {
	s := read(t, rules("id: r, key: [path]"), rule.Options{})
	for _, path := range []string{"/a/b", "/a%2Fb", "/a%2fb/", "//a;x=1/b;y", "/x/..%2Fa/b", "/x/..;/a/b",
		"/%61/b%2F%2e", "/a%2Fb;x=1"} {
		if got := matches(t, s, "GET "+path, ""); got != "r:4:/a/b" {
			t.Errorf("%s has the key %s", path, got)
		}
	}
	for path, want := range map[string]string{
		"/a%252Fb":       "r:8:/a%252Fb",
		"/a/x;%2F..%2Fb": "r:-", // /a/b to nginx, /a/x to Tomcat
		"/a/x/;/../b":    "r:-", // /a/x/b to nginx, /a/b to Tomcat
		"/x%2Fy/../a/b":  "r:-", // /x/a/b to nginx, /a/b to who decodes no slash
		"/a%3Bb":         "r:-", // /a;b to nginx, which has the key /a
		"/a/b;x%2Fc":     "r:-",
	} {
		if got := matches(t, s, "GET "+path, ""); got != want {
			t.Errorf("%s has the key %s, want %s", path, got, want)
		}
	}
}

// A path that a descriptor excepts from the limit of all paths is excepted only
// when every interpretation of it is.
func TestInterpretationsOfExemptions(t *testing.T) {
	s := read(t, `
domain: d
descriptors:
  - {key: path, value: /open}
  - {key: path, value: /free, rate_limit: {unlimited: true}}
  - {key: path, value: /login, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: path, rate_limit: {unit: day, requests_per_unit: 9}}
`, rule.Options{})
	for path, want := range map[string]string{
		"/open":             "",
		"//open/":           "",
		"/free":             "",
		"/open;x":           "d/path:5:/open",
		"/x%2F..%2Ffree":    "d/path:5:/free",
		"/x/..;/open":       "d/path:5:/open",
		"/login":            "d/path=%2Flogin:",
		"/x%2F..%2Flogin":   "d/path=%2Flogin: d/path:6:/login",
		"/open%2F..;%2Fa":   "d/path:-",
		"/open%2F..%2Fopen": "d/path:5:/open",
	} {
		if got := matches(t, s, "GET "+path, ""); got != want {
			t.Errorf("%s meets %q, want %q", path, got, want)
		}
	}
}

func TestSeveralRulesApply(t *testing.T) {
	s := read(t, rules(
		"id: all",
		"id: posts, match: {methods: [POST]}, key: [ip]",
		"id: exact, match: {path: /api/a}, key: [path]",
		"id: below, match: {path: /api/**}, key: [method]",
		"id: free, match: {headers: {X-Plan: free}}",
		"id: gold, match: {headers: {X-Plan: gold}}",
		"id: other, match: {path: /other/**}",
		"id: shadow, mode: shadow, match: {host: localhost}",
	), rule.Options{})
	for request, want := range map[string]string{
		"GET /":                        "all: shadow:",
		"POST /api/a | X-Plan: free":   "all: posts:9:192.0.2.7 exact:6:/api/a below:4:POST free: shadow:",
		"GET /api/b | X-Plan: gold":    "all: below:3:GET gold: shadow:",
		"GET /other | Host: elsewhere": "all: other:",
	} {
		if got := matches(t, s, request, "192.0.2.7"); got != want {
			t.Errorf("%s meets %s, want %s", request, got, want)
		}
	}
}

func TestCost(t *testing.T) {
	for _, test := range []struct {
		cost, request string
		want          int64
	}{
		{"1", "GET /", 1},
		{"7", "GET /", 7},
		{"{header: X-Cost}", "GET /", 1},
		{"{header: X-Cost}", "GET / | X-Cost: 12", 12},
		{"{header: X-Cost, default: 3, max: 100}", "GET /", 3},
		{"{header: X-Cost, default: 3, max: 100}", "GET / | x-cost: 100", 100},
		{"{header: X-Cost, default: 3, max: 100}", "GET / | X-Cost: 101", 100},
		{"{header: X-Cost, default: 3, max: 100}", "GET / | X-Cost: 99999999999999999999999999", 100},
		{"{header: X-Cost, default: 3, max: 100}", "GET / | X-Cost: 0", 1},
		{"{header: X-Cost, default: 3, max: 100}", "GET / | X-Cost: 007", 7},
		{"{header: X-Cost, default: 3, max: 100}", "GET / | X-Cost: -5", 3},
		{"{header: X-Cost, default: 3, max: 100}", "GET / | X-Cost: 1e9", 3},
		{"{header: X-Cost, default: 3, max: 100}", "GET / | X-Cost: 2 | X-Cost: 5", 5}, // the most that a target may read
		{"{header: X-Cost, default: 3, max: 100}", "GET / | X-Cost: 2 | X_Cost: 5", 5},
		{"{header: X-Cost, default: 3, max: 100}", "GET / | X-Cost: 1 | X-Cost: x", 3},
		{"{header: X-Cost, default: 3, max: 100}", "GET / | X-Cost:", 3},
		{"{header: X-Cost}", "GET / | X-Cost: 99999999999999999999999999", 1_000_000_000},
		{"{methods: {POST: 5}}", "POST /", 5},
		{"{methods: {POST: 5}, default: 2}", "GET /", 2},
	} {
		s := read(t, rules("id: r, cost: "+test.cost), rule.Options{})
		var x rule.Scratch
		found := s.Match(head(t, test.request), address(""), &x)
		if len(found) != 1 || found[0].Cost != test.want {
			t.Errorf("cost %s of %s: %+v, want %d", test.cost, test.request, found, test.want)
		}
	}
}

// The client file's priority goes before the field's, in every rule that has the
// class.
func TestPriority(t *testing.T) {
	s := read(t, rules(
		"id: per, key: [header:X-Id], clients: true",
		"id: all, priority: {header: X-Priority, classes: {high: 0, normal: 0.1, low: 0.35}, default: normal}, limit: "+
			"{algorithm: fixed, limit: 1000, window: 1}",
		"id: few, priority: {classes: {low: 0.5, none: 0}, default: none}",
	), rule.Options{Clients: clients(t, `{
		"boss":{"algorithm":"fixed","limit":1,"window":1,"priority":"high"},
		"cheap":{"algorithm":"fixed","limit":1,"window":1,"priority":"low"},
		"plain":{"algorithm":"fixed","limit":1,"window":1}}`)})
	for request, want := range map[string][2]int64{
		"GET /":                                  {100, 0},
		"GET / | X-Priority: low":                {350, 0},
		"GET / | X-Priority: high":               {0, 0},
		"GET / | X-Priority: best":               {100, 0},
		"GET / | X-Id: boss":                     {0, 0},
		"GET / | X-Id: boss | X-Priority: low":   {0, 0},
		"GET / | X-Id: cheap | X-Priority: high": {350, 5},
		"GET / | X-Id: plain | X-Priority: high": {0, 0},
	} {
		var x rule.Scratch
		found := s.Match(head(t, request), address(""), &x)
		if len(found) != 3 || found[1].Reserve != want[0] || found[2].Reserve != want[1] {
			t.Errorf("%s: %d and %d kept back, want %v", request, found[1].Reserve, found[2].Reserve, want)
		}
	}
}

// The rank of a class follows what is kept back from it; its fields are believed of
// requests by trusted proxies alone, the client file always.
func TestRank(t *testing.T) {
	text := rules(
		"id: all, priority: {header: X-Priority, classes: {high: 0, normal: 0.1, low: 0.35}, default: normal}",
		"id: paid, match: {path: /paid}, priority: {classes: {low: 0.5, none: 0.05}, default: none}",
		"id: ids, key: [header:X-Id], clients: true",
		"id: plain, match: {path: /plain}")
	s := read(t, text, rule.Options{Clients: clients(t, `{
		"boss":{"algorithm":"off","priority":"high"},
		"cheap":{"algorithm":"off","priority":"low"}}`)})
	var x rule.Scratch
	for request, want := range map[string]struct{ trusted, other int }{
		"GET /":                                  {2, 2},
		"GET /plain":                             {2, 2},
		"GET / | X-Priority: high":               {0, 2},
		"GET / | X-Priority: low":                {3, 2},
		"GET / | X-Priority: best":               {2, 2},
		"GET /paid | X-Priority: high":           {1, 2},
		"GET / | X-Id: boss":                     {0, 0},
		"GET / | X-Id: boss | X-Priority: low":   {0, 0},
		"GET / | X-Id: cheap | X-Priority: high": {3, 3},
		"GET /paid | X-Id: cheap":                {4, 4},
	} {
		h := head(t, request)
		s.Match(h, address(""), &x)
		if trusted, other := s.Rank(&x, true), s.Rank(&x, false); trusted != want.trusted || other != want.other {
			t.Errorf("%s: ranks %d by a trusted proxy, %d otherwise; want %d, %d", request, trusted, other, want.trusted,
				want.other)
		}
	}
	if got, want := s.Classes(), []string{"high", "none", "normal", "low", "low"}; !slices.Equal(got, want) {
		t.Errorf("the classes are %q, want %q", got, want)
	}
	unranked := read(t, rules("id: r"), rule.Options{})
	unranked.Match(head(t, "GET /"), address(""), &x)
	if got := unranked.Rank(&x, true); got != 0 {
		t.Errorf("without classes the rank is %d, want 0, the highest", got)
	}
}
