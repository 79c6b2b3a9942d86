package rule_test

import (
	"strings"
	"testing"

	"weir/internal/test/testkit"
	"weir/proxy/rules/rule"
)

// What a rule does with requests that lack a part of its key.
func TestMissing(t *testing.T) {
	s := read(t, rules(
		"id: shares, match: {path: /shares}, key: [header:X-A, header:X-B]",
		"id: skips, match: {path: /skips}, key: [header:X-A, header:X-B], missing: skip",
		"id: refuses, match: {path: /refuses}, key: [header:X-A, 'secret:query:b'], missing: refuse",
		"id: tries, match: {path: /tries}, key: [header:X-A], missing: refuse, mode: shadow",
		"id: skips-path, match: {path: /any/**}, key: [path], missing: skip",
		"id: refuses-path, match: {path: /one/**}, key: [path], missing: refuse",
	), rule.Options{})
	for _, test := range []struct{ request, hits, lacks, refusal, short string }{
		{"GET /shares | X-A: 1 | X-B: 2", "shares:1:11:2", "", "", ""},
		{"GET /shares | X-A: 1", "shares:1:1-", "header:X-B", "", ""},
		{"GET /shares", "shares:--", "header:X-A", "", ""},
		{"GET /skips | X-A: 1 | X-B: 2", "skips:1:11:2", "", "", ""},
		{"GET /skips | X-A: 1 | X-B:", "skips:1:10:", "", "", ""},
		{"GET /skips | X-A: 1", "", "", "", ""},
		{"GET /refuses?b=2 | X-A: 1", "refuses:1:1#", "", "", ""},
		{"GET /refuses | X-A: 1", "refuses:1:1-", "secret:query:b",
			`{"error":"the request lacks secret:query:b, which the rule needs","rule":"refuses","missing":"secret:query:b"}`,
			"the request lacks secret:query:b, which rule refuses needs"},
		{"GET /tries", "tries:-", "header:X-A", "", ""},
		// Any path can be written so that it has several interpretations.
		{"GET /any/a;%2F..%2Fb", "skips-path:-", "path", "", ""},
		{"GET /one/a;%2F..%2Fb", "refuses-path:-", "path",
			`{"error":"the path can be read in several ways, and the rule needs one","rule":"refuses-path","missing":"path"}`,
			"the path can be read in several ways, and rule refuses-path needs one"},
	} {
		var x rule.Scratch
		found := s.Match(head(t, test.request), address("192.0.2.7"), &x)
		var ids, lacks []string
		for _, h := range found {
			key, _, _ := strings.Cut(string(h.Key), "#")
			if len(key) < len(h.Key) {
				key += "#"
			}
			ids = append(ids, h.Rule.ID+":"+key)
			if h.MissingPart != nil {
				lacks = append(lacks, h.MissingPart.String())
			}
		}
		refusal, short := "", ""
		if h := rule.FirstRefusing(found); h != nil {
			refusal = strings.TrimSpace(string(h.AppendMissing(nil)))
			short = h.MissingMessage()
		}
		if strings.Join(ids, " ") != test.hits || strings.Join(lacks, " ") != test.lacks || refusal != test.refusal ||
			short != test.short {
			t.Errorf("%s: %s lacks %s: %s, %s; want %+v", test.request, ids, lacks, refusal, short, test)
		}
	}
	text := testkit.Must(s.MarshalJSON())(t)
	if again := read(t, string(text), rule.Options{}); again.Rule(1).Missing != rule.SkipRule ||
		again.Rule(2).Missing != rule.RefuseRequest ||
		strings.Count(string(text), `"missing":`) != 5 {
		t.Errorf("written as %s", text)
	}
}
