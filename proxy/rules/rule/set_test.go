package rule_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"weir/internal/test/testkit"
	"weir/proxy/rules/rule"
)

// everything uses all that rules can say.
const everything = `
rules:
  - id: per-partner
    match: {methods: [GET, POST], path: /api/**, host: api.example.com, headers: {X-Plan: free}}
    key: [header:X-Partner]
    limit: {algorithm: gcra, limit: 1, window: 3}
    clients: true
    cost: {header: X-Cost, default: 1, max: 100}
    mode: enforce
    soft: {overshoot: 2, for: 30}
    priority: {header: X-Priority, classes: {high: 0, normal: 0.1, low: 0.3}, default: normal}
  - id: queue
    limit: {algorithm: leaky, capacity: 10, fillRate: 2.5, limit: 7}   # limit: for a later switch
    maxDelay: 5
    cost: {methods: {POST: 5}, default: 2}
    mode: shadow
  - id: rest
    key: [ip/24, cookie:sid, query:q, path, method, host, header:a, ip/48]
    limit: {algorithm: off}
    cost: 3
`

// A document gives a Set that gives the same document, and has the same rules.
func TestRoundTrip(t *testing.T) {
	for name, text := range map[string]string{"everything": everything, "none": rule.NoRules, "messaging": messaging,
		"auth": auth, "tree": tree} {
		s := read(t, text, rule.Options{})
		first := testkit.Must(json.Marshal(s))(t)
		again := read(t, string(first), rule.Options{})
		if second, err := json.Marshal(again); err != nil || string(first) != string(second) {
			t.Errorf("%s became\n%s\nand then\n%s", name, first, second)
		}
		if again.Len() != s.Len() {
			t.Fatalf("%s: %d rules became %d", name, s.Len(), again.Len())
		}
		for i := range s.Len() {
			if a, b := fmt.Sprintf("%+v", *s.Rule(i)), fmt.Sprintf("%+v", *again.Rule(i)); a != b {
				t.Errorf("%s: the rule\n%s became\n%s", name, a, b)
			}
		}
	}
}

// The document of a file is what was written, and nothing else.
func TestDocument(t *testing.T) {
	got, err := json.Marshal(read(t, everything, rule.Options{}))
	want := `{"rules":[` +
		`{"id":"per-partner","match":{"methods":["GET","POST"],"path":"/api/**","host":"api.example.com","headers":{"X-Plan":"free"}},` +
		`"key":["header:X-Partner"],"limit":{"algorithm":"gcra","limit":1,"window":3},"clients":true,"cost":{"header":"X-Cost","default":1,"max":100},` +
		`"mode":"enforce","soft":{"overshoot":2,"for":30},"priority":{"header":"X-Priority","classes":{"high":0,"low":0.3,"normal":0.1},"default":"normal"}},` +
		`{"id":"queue","key":["global"],"limit":{"algorithm":"leaky","limit":7,"capacity":10,"fillRate":2.5},"cost":{"methods":{"POST":5},"default":2},"mode":"shadow","maxDelay":5},` +
		`{"id":"rest","key":["ip/24","cookie:sid","query:q","path","method","host","header:a","ip/48"],"limit":{"algorithm":"off"},"cost":3,"mode":"enforce"}]}`
	if err != nil || string(got) != want {
		t.Errorf("have %s, %v\nwant %s", got, err, want)
	}
}

// However a file is written, it is the same rule.
func TestForms(t *testing.T) {
	const want = `{"rules":[{"id":"a","match":{"headers":{"X-Url":"u:v","X-Version":"1.0"}},"key":["header:X-Id","query:q"],` +
		`"limit":{"algorithm":"token","capacity":1,"fillRate":2000},"cost":{"methods":{"GET":2},"default":1},"mode":"enforce"}]}`
	for name, text := range map[string]string{
		"JSON": want,
		"indented": "{\n\t\"rules\": [\n\t\t{\"id\": \"\\u0061\", \"match\": {\"headers\": {\"X-Url\": \"u:v\", " +
			"\"X-Version\": \"1.0\"}}, \"key\": [\"header:X-Id\", \"query:q\"], \"limit\": {\"algorithm\": \"token\", " +
			"\"capacity\": 1, \"fillRate\": 2e3}, \"cost\": {\"methods\": {\"GET\": 2}}}\n\t]\n}\n",
		"flow": "rules: [{id: a, match: {headers: {X-Url: u:v, X-Version: 1.0}}, key: [header:X-Id, query:q], " +
			"limit: {algorithm: token, capacity: 1, fillRate: 2e3}, cost: {methods: {GET: 2}}}]",
		"block": "# rules\nrules:\n- id: a   # the one\n  match:\n    headers:\n      X-Url: u:v\n      X-Version: " +
			"1.0\n  key:\n  - header:X-Id\n  - query:q\n  limit:\n    algorithm: token\n    capacity: 1\n    fillRate: " +
			"2000.0\n  cost:\n    methods:\n      GET: 2\n",
		"quoted": "\"rules\":\n  - 'id': \"a\"\n    match: {'headers': {X-Url: 'u:v', X-Version: '1.0'}}\n    key: " +
			"['header:X-Id', \"query:q\"]\n    limit: {algorithm: 'token', capacity: 1, fillRate: 2000}\n    cost: " +
			"{methods: {\"GET\": 2}}\n",
		"CRLF, marked": strings.ReplaceAll(
			"---\nrules:\n  - id: a\n    match: {headers: {X-Url: u:v, X-Version: 1.0}}\n    key: [header:X-Id, query:q]\n   "+
				" limit: {algorithm: token, capacity: 1, fillRate: 2000}\n    cost: {methods: {GET: 2}}\n", "\n", "\r\n"),
		"literal": "rules:\n  - id: |-\n      a\n    match: {headers: {X-Url: u:v, X-Version: 1.0}}\n    key: " +
			"[header:X-Id, query:q]\n    limit: {algorithm: token, capacity: 1, fillRate: 2000}\n    cost: " +
			"{methods: {GET: 2}}\n",
	} {
		s, err := rule.Read([]byte(text), rule.Options{})
		if err != nil {
			t.Errorf("%s: %v in\n%s", name, err, text)
			continue
		}
		if got, err := json.Marshal(s); err != nil || string(got) != want {
			t.Errorf("%s: have %s, %v\nwant %s", name, got, err, want)
		}
	}
}

// FuzzRead: whatever is read gives faults with words, or rules whose document
// gives the same rules.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{everything, messaging, auth, tree, rule.NoRules, `{"rules":[{"id":"a"}]}`,
		"rules: [{id: a, key: [header:X]}]", "? a\n: b", "a: &x [*x]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := rule.Read(data, rule.Options{})
		if err != nil {
			if err.Error() == "" {
				t.Fatal("a fault without words")
			}
			return
		}
		document := testkit.Must(json.Marshal(s))(t)
		again, err := rule.Read(document, rule.Options{})
		if err != nil {
			t.Fatalf("%s\nbecame\n%s\n%v", data, document, err)
		}
		if second, err := json.Marshal(again); err != nil || string(second) != string(document) {
			t.Fatalf("%s\nbecame\n%s\nand then\n%s", data, document, second)
		}
		var x rule.Scratch
		for _, request := range []string{"GET /", "POST /api/a?q=1 | X-Plan: free | Cookie: sid=1", "OPTIONS *"} {
			if n := len(s.Match(head(t, request), address("192.0.2.7"), &x)); n > rule.MatchedRulesMax {
				t.Fatalf("%d rules apply to %s in\n%s", n, request, data)
			}
		}
	})
}
