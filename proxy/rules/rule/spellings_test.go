package rule_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"weir/internal/net/http1"
	"weir/proxy/rules/keys"
	"weir/proxy/rules/rule"
)

// real are the parts of keys with a request that has the credential REAL in its plain form, and
// the other requests in which some target reads the same credential.
var real = []struct {
	part, plain string
	spellings   []string
}{
	{"header:X-Api-Key", "GET / | X-Api-Key: REAL", []string{
		"GET / | x-aPI-key:REAL",
		"GET / | X-Api-Key: x1 | X-Api-Key: REAL", // the last line
		"GET / | X-Api-Key: REAL | X-Api-Key: x1",
		"GET / | X-Api-Key: x1 | X_Api_Key: REAL", // CGI, where underscores are forwarded
		"GET / | X_Api_Key: REAL",
		"GET / | X.Api-Key: REAL",
	}},
	{"header:Authorization", "GET / | Authorization: Bearer REAL", []string{
		"GET / | authorization: bearer REAL",
		"GET / | Authorization: BEARER REAL",
		"GET / | Authorization: Bearer  REAL",
		"GET / | Authorization: Bearer \t REAL \t",
		"GET / | Authorization: Bearer x1 | Authorization: Bearer REAL",
	}},
	{"header:Authorization", "GET / | Authorization: Basic dXNlcjpwYXM=", []string{ // user:pas
		"GET / | Authorization: bASIC   dXNlcjpwYXM=",
		"GET / | Authorization: Basic dXNlcjpwYXM",       // without padding
		"GET / | Authorization: Basic dXNlcjpwYXM==",     // with more of it
		"GET / | Authorization: Basic dXNlcjpwYXN=",      // with bits that are dropped
		"GET / | Authorization: Basic dXNl.cjp wYXM=",    // with characters that are skipped
		"GET / | Authorization: Basic dXN=lcjpwYXM=",     // PHP skips =
		"GET / | Authorization: Basic dXNlcjpwYXM=x1x1x", // JavaScript and Python stop there
	}},
	{"header:Authorization", "GET / | Authorization: Basic Pz8/Pj4+", []string{
		"GET / | Authorization: Basic Pz8_Pj4-", // the URL's alphabet
	}},
	{"secret:header:Proxy-Authorization", "GET / | Proxy-Authorization: Bearer REAL", []string{
		"GET / | proxy-authorization: bearer  REAL",
	}},
	{"cookie:sid", "GET / | Cookie: sid=REAL", []string{
		"GET / | Cookie: sid=x1; sid=REAL", // Django takes the last
		"GET / | Cookie: sid=x1 | Cookie: sid=REAL",
		"GET / | Cookie: sid=REA%4C", // PHP and Express decode
		"GET / | Cookie: sid=%52EA%4c;",
		`GET / | Cookie: a=1;sid = "REAL" `,
		`GET / | Cookie: sid="RE\101L"`, // Python
		`GET / | Cookie: sid="RE\AL"`,
		`GET / | Cookie: sid="REA%4C"`,
		"GET / | Cookie: sid[]=REAL", // an array
		"GET / | Cookie: SID=REAL",   // ASP.NET
	}},
	{"cookie:my_sid", "GET / | Cookie: my_sid=REAL", []string{
		"GET / | Cookie: my.sid=REAL", // PHP
		"GET / | Cookie: my sid=REAL",
		"GET / | Cookie: my[sid=REAL",
		"GET / | Cookie: my%5fsid=REAL",
	}},
	{"query:api_key", "GET /?api_key=REAL", []string{
		"GET /?api_key=x1&api_key=REAL", // PHP and Django take the last
		"GET /?api_key=REAL&api_key=x1",
		"GET /?api_key=x1&api.key=REAL", // PHP
		"GET /?api+key=REAL",
		"GET /?api%20key=REAL",
		"GET /?api[key=REAL",
		"GET /?+api_key=REAL",
		"GET /?api_key%00x=REAL",
		"GET /?api_key[]=REAL",
		"GET /?api_key%5B0%5D=REAL",
		"GET /?API_key=REAL", // ASP.NET
		"GET /?api%5Fkey=REA%4c",
		"GET /?x=1;api_key=REAL", // ; separates too
		"GET /?api_key=REAL;x=1",
	}},
	{"secret:query:api.key", "GET /?api.key=REAL", []string{"GET /?api_key=x1&api.key=REAL", "GET /?api_key=REAL"}},
}

// However a credential is spelled, the request counts under its key.
func TestSpellingsOfACredential(t *testing.T) {
	for _, test := range real {
		s := read(t, rules("id: r, key: ['"+test.part+"']"), rule.Options{})
		want := matches(t, s, test.plain, "")
		for _, spelling := range test.spellings {
			if got := matches(t, s, spelling, ""); !slices.Contains(strings.Fields(got), want) {
				t.Errorf("%s: %s counts under %q, want also %q", test.part, spelling, got, want)
			}
		}
	}
}

// Values that are not spellings of one another have keys of their own.
func TestOtherValuesHaveOtherKeys(t *testing.T) {
	for part, requests := range map[string][]string{
		"header:X-Api-Key": {"GET / | X-Api-Key: REAL", "GET / | X-Api-Key: real",
			"GET / | X-Api-Key: REA%4C", `GET / | X-Api-Key: "REAL"`,
			"GET / | X-Api-Key: a REAL", "GET / | X-Api-Key: A REAL", "GET / | X-Api-Key:", "GET /"},
		"header:Authorization": {"GET / | Authorization: Bearer REAL", "GET / | Authorization: Bearer REAl",
			"GET / | Authorization: Bearer REAL x",
			"GET / | Authorization: Bearer REAL  x", "GET / | Authorization: BearerREAL",
			"GET / | Authorization: bearerREAL",
			"GET / | Authorization: Basic UkVBTA==", "GET / | Authorization: Basic UkVBTDo=",
			"GET / | Authorization: Basic =", "GET /"},
		"cookie:sid": {"GET / | Cookie: sid=REAL", "GET / | Cookie: sid=real", "GET / | Cookie: sid=RE+AL",
			"GET / | Cookie: sid=RE AL",
			`GET / | Cookie: sid="`, "GET / | Cookie: sid=%zz", "GET / | Cookie: sid=", "GET / | Cookie: si=d"},
		"query:api_key": {"GET /?api_key=REAL", "GET /?api_key=RE+AL",
			"GET /?api_key=RE%2bAL", `GET /?api_key="REAL"`, "GET /?api_key", "GET /?api_keys=1"},
	} {
		s := read(t, rules("id: r, key: ['"+part+"']"), rule.Options{})
		seen := make(map[string]string)
		for _, request := range requests {
			key := matches(t, s, request, "")
			if other, twice := seen[key]; twice || key == "" || strings.Count(key, "r:") != 1 {
				t.Errorf("%s: %s counts under %q, as %s does", part, request, key, other)
			}
			seen[key] = request
		}
	}
}

// A request that can be read in several ways counts under each key, as long as it has at most
// four interpretations of a part and eight matches; then its part is missing, but not for missing: skip.
func TestSeveralReadings(t *testing.T) {
	const eight = "r:1:1 r:1:2 r:1:3 r:1:4 s:1:1 s:1:2 s:1:3 s:1:4"
	for _, test := range []struct {
		lines, request, want string
	}{
		{"id: r, key: ['header:A']", "GET / | A: 1 | A: 2 | A: 1", "r:1:1 r:1:2"},
		{"id: r, key: ['header:A']", "GET / | A: 1 | A: 2 | A: 3 | A: 4", "r:1:1 r:1:2 r:1:3 r:1:4"},
		{"id: r, key: ['header:A']", "GET / | A: 1 | A: 2 | A: 3 | A: 4 | A: 5", "r:-"},
		{"id: r, key: ['header:A'], missing: skip", "GET / | A: 1 | A: 2 | A: 3 | A: 4 | A: 5", "r:-"},
		{"id: r, key: ['header:A'], missing: skip", "GET /", ""},
		{"id: r, key: ['query:a']", "GET /?A=1&A=2&A=3", "r:1:1 r:1:2 r:1:3 r:-"}, // or none
		{"id: r, key: ['query:a']", "GET /?A=1&A=2&A=3&A=4", "r:-"},
		{"id: r, key: ['query:a'], missing: skip", "GET /?A=1", "r:1:1"},
		{"id: r, key: ['header:A', 'query:b']", "GET /?b=1&b=2 | A: 1 | A: 2", "r:1:11:1 r:1:21:1 r:1:11:2 r:1:21:2"},
		{"id: r, key: ['header:A', 'query:b']", "GET /?b=1&b=2 | A: 1 | A: 2 | A: 3 | A: 4",
			"r:1:11:1 r:1:21:1 r:1:31:1 r:1:41:1 r:1:11:2 r:1:21:2 r:1:31:2 r:1:41:2"},
		{"id: r, key: ['header:A', 'query:b']", "GET /?b=1&b=2&b=3 | A: 1 | A: 2 | A: 3", "r:--"}, // nine
		{"id: r, key: ['header:A', method]", "GET / | A: 1 | A: 2 | A: 3 | A: 4 | A: 5", "r:-3:GET"},
		{"id: r, key: ['header:A']; id: s, key: ['header:A']", "GET / | A: 1 | A: 2 | A: 3 | A: 4", eight},
		{"id: r, key: ['header:A']; id: s, key: ['header:A']; id: t", "GET / | A: 1 | A: 2 | A: 3 | A: 4",
			"r:1:1 r:1:2 r:1:3 r:1:4 s:- t:"},
		{"id: r, key: ['header:A']; id: s, match: {headers: {A: 5}}, key: ['header:A']",
			"GET / | A: 1 | A: 2 | A: 3 | A: 4", "r:1:1 r:1:2 r:1:3 r:1:4"},
		{"id: r, key: ['header:A']; id: s, match: {headers: {A: 5}}, key: ['header:A']",
			"GET / | A: 1 | A: 2 | A: 3 | A: 4 | A: 5", "r:- s:-"},
		{"id: r, match: {headers: {A: 2}}, key: ['header:A']", "GET / | A: 1 | A: 2", "r:1:2"},
		{"id: r, match: {headers: {A: 2}}; id: s, match: {headers: {A: 1}}", "GET / | A: 1 | A: 2", "r: s:"},
		{"id: r, match: {headers: {A: 2}}", "GET / | A: 1 | A: 3", ""},
		{"id: r, match: {headers: {A: 2}}", "GET / | A: 1 | A: 3 | A: 4 | A: 5 | A: 2", "r:"},
		{"id: r, match: {headers: {Authorization: BEARER  x}}", "GET / | Authorization: Bearer x", "r:"},
	} {
		s := read(t, rules(strings.Split(test.lines, "; ")...), rule.Options{})
		if got := matches(t, s, test.request, ""); got != test.want {
			t.Errorf("%s: %s has the hits %q, want %q", test.lines, test.request, got, test.want)
		}
	}
}

// As many rules as one request could meet because of what it has several of are not decided.
func TestTooManyRulesByReadings(t *testing.T) {
	var lines []string
	for i := range 12 {
		lines = append(lines, fmt.Sprintf("match: {headers: {A: %d, B: %d}}", i%4, i/4))
	}
	s := read(t, rules(lines...), rule.Options{})
	for request, refused := range map[string]bool{
		"GET / | A: 0 | A: 1 | A: 2 | B: 0 | B: 1":                                    false,
		"GET / | A: 0 | A: 1 | A: 2 | B: 0 | B: 1 | B: 2":                             true,
		"GET / | A: 0 | A: 1 | A: 2 | A: 3 | A: 4 | B: 0 | B: 1 | B: 2 | B: 3 | B: 4": true,
	} {
		var x rule.Scratch
		if n := len(s.Match(head(t, request), address(""), &x)); n > rule.MatchedRulesMax != refused {
			t.Errorf("%s: %d rules match", request, n)
		}
	}
}

// A part that is missing because of several interpretations is reported as that.
func TestRefusedForSeveralReadings(t *testing.T) {
	s := read(t, rules("id: r, key: ['header:A', 'query:b'], missing: refuse"), rule.Options{})
	for request, want := range map[string]string{
		"GET /?b=1 | A: 1":                 "",
		"GET /?b=1 | A: 1 | A: 2":          "",
		"GET /?b=1 | A: 1 | A: 2 | B: 1":   "",
		"GET /?B=1 | A: 1":                 "query:b can be read in several ways, and the rule needs one",
		"GET / | A: 1 | A: 2":              "the request lacks query:b, which the rule needs",
		"GET /?b=1&b=2&b=3&b=4&b=5 | A: 1": "query:b can be read in several ways, and the rule needs one",
	} {
		var x rule.Scratch
		got := ""
		if h := rule.FirstRefusing(s.Match(head(t, request), address(""), &x)); h != nil {
			got = string(h.AppendMissing(nil))
		}
		if want == "" != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", request, got, want)
		}
	}
}

// Clients are found by any spelling of their name, in the request and in the file.
func TestSpellingsOfClients(t *testing.T) {
	for _, test := range []struct {
		part, name, request string
		permits             []int64
	}{
		{"header:Authorization", "Bearer x", "GET / | Authorization: BEARER  x", []int64{77}},
		{"header:Authorization", "bearer x", "GET / | Authorization: Bearer x", []int64{77}},
		{"header:Authorization", "Basic dXNlcjpwYXM=", "GET / | Authorization: basic dXNlcjpwYXM", []int64{77}},
		{"cookie:sid", "s%3Aabc", "GET / | Cookie: sid=s:abc", []int64{77}},
		{"cookie:sid", "s:abc", "GET / | Cookie: sid=s%3aabc", []int64{77}},
		{"header:X-Id", "acme", "GET / | X-Id: other | X-Id: acme", []int64{10, 77}},
		{"header:X-Id", "acme", "GET / | X-Id: acme | X_Id: other", []int64{77, 10}},
	} {
		all := clients(t, `{"`+test.name+`":{"algorithm":"fixed","limit":77,"window":1}}`)
		s := read(t, rules("id: r, clients: true, key: ['"+test.part+"']"), rule.Options{Clients: all})
		var x rule.Scratch
		var got []int64
		for _, h := range s.Match(head(t, test.request), address(""), &x) {
			got = append(got, h.Limit.Permits())
		}
		if !slices.Equal(got, test.permits) {
			t.Errorf("%s %s: %s has limits of %d, want %d", test.part, test.name, test.request, got, test.permits)
		}
	}
	twice := clients(t, `{"Bearer x":{"algorithm":"off"},"bearer  x":{"algorithm":"off"}}`)
	_, err := rule.Read([]byte(rules("id: r, clients: true, key: ['header:Authorization']")), rule.Options{Clients: twice})
	if err == nil || !strings.Contains(err.Error(), "twice") || strings.Contains(err.Error(), "earer") {
		t.Errorf("one client in two spellings: %v", err)
	}
}

// Of several priority classes that a request can be read to have, that counts from which most is
// kept back.
func TestInterpretationsOfPriority(t *testing.T) {
	text := rules("id: all, priority: {header: X-Priority, classes: {high: 0, normal: 0.1, low: 0.5}, default: normal}",
		"id: ids, key: ['header:X-Id'], clients: true")
	s := read(t, text, rule.Options{
		Clients: clients(t, `{"boss":{"algorithm":"off","priority":"high"},"cheap":{"algorithm":"off","priority":"low"}}`)})
	for request, want := range map[string]struct {
		reserve int64
		rank    int
	}{
		"GET / | X-Priority: high":                                {0, 0},
		"GET / | X-Priority: high | X-Priority: low":              {5, 2},
		"GET / | X-Priority: high | X-Priority: none":             {1, 1},
		"GET / | X-Id: boss":                                      {0, 0},
		"GET / | X-Id: boss | X-Id: cheap":                        {5, 2},
		"GET / | X-Id: boss | X-Id: other":                        {1, 1},
		"GET / | X-Id: boss | X-Priority: high | X-Priority: low": {0, 0},
	} {
		var x rule.Scratch
		found := s.Match(head(t, request), address(""), &x)
		if rank := s.Rank(&x, true); found[0].Reserve != want.reserve || rank != want.rank {
			t.Errorf("%s: %d kept back, rank %d; want %+v", request, found[0].Reserve, rank, want)
		}
	}
}

// Descriptors of which a request has several values.
func TestInterpretationsOfDescriptors(t *testing.T) {
	const file = `
domain: d
descriptors:
  - {key: plan, value: free, rate_limit: {unit: second, requests_per_unit: 5}}
  - {key: plan, value: gold, rate_limit: {unit: second, requests_per_unit: 5}}
  - {key: plan, rate_limit: {unit: second, requests_per_unit: 5}}
  - {key: authorization, value: Bearer  x, rate_limit: {unit: second, requests_per_unit: 5}}
`
	o := rule.Options{DescriptorKeys: rule.DescriptorKeys{"plan": part(t, "query:plan")}}
	s := read(t, file, o)
	for request, want := range map[string]string{
		"GET /?plan=free":                          "d/plan=free:",
		"GET /?plan=free&plan=gold":                "d/plan=free: d/plan=gold:",
		"GET /?plan=free&plan=best&plan=worst":     "d/plan=free: d/plan:4:best d/plan:5:worst",
		"GET /?plan=a&plan=b&plan=c&plan=d&plan=e": "d/plan=free: d/plan=gold: d/plan:-",
		"GET /?x": "",
	} {
		if got := matches(t, s, request, ""); got != want {
			t.Errorf("%s has the hits %q, want %q", request, got, want)
		}
	}
	if got := matches(t, s, "GET / | Authorization: bearer x", ""); strings.Count(got, ":") == 0 {
		t.Errorf("credentials spelled otherwise meet %q", got)
	}
}

// FuzzReadings: whatever a request has, no key is hit twice in a rule, which a store could not
// decide, and nothing is hit more often than can be decided.
func FuzzReadings(f *testing.F) {
	s := read(f, rules("id: a, key: ['query:a_b', 'cookie:a_b']", "id: b, key: ['header:Authorization']",
		"id: c, match: {headers: {A_B: 1}}, key: ['header:A-B', 'cookie:c']"), rule.Options{})
	f.Add("a_b=1&a.b=2&a_b=2", "a_b=1; a_b=%31; a.b=\"\\061\"", "Basic YTpi=YTpj", "1", "2")
	f.Add("a_b[]=1;a_b", "a_b", "bearer  x", "", "")
	f.Add("a_b=1&a_b=2&a_b=3&a_b=4&a_b=5", "c=1;c=2;c=3", "Basic =", "1", "1")
	f.Fuzz(func(t *testing.T, query, cookie, credentials, one, other string) {
		h := &keys.Request{MethodText: []byte("GET"), Path: []byte("/"), Query: []byte(query), Fields: []http1.Field{
			{ID: http1.FieldCookie, Name: []byte("Cookie"), Value: []byte(cookie)},
			{ID: http1.FieldAuthorization, Name: []byte("Authorization"), Value: []byte(credentials)},
			{Name: []byte("A-B"), Value: []byte(one)}, {Name: []byte("A_B"), Value: []byte(other), AmbiguousName: true}}}
		var x rule.Scratch
		found := s.Match(h, address(""), &x)
		if len(found) < 2 || len(found) > rule.MatchedRulesMax {
			t.Errorf("%d hits", len(found))
		}
		seen := make(map[string]bool)
		for _, match := range found {
			if name := match.Rule.ID + ":" + string(match.Key); seen[name] {
				t.Errorf("hits %q twice", name)
			} else {
				seen[name] = true
			}
		}
	})
}
