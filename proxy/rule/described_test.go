package rule_test

import (
	"testing"

	"weir/proxy/keys"
	"weir/proxy/rule"
)

// A described is a request that never was a message: parts by their words, names of fields in lower case.
type described map[string]string

func (d described) Part(p keys.Part) ([]byte, bool) {
	word, name := p.Word()
	if name != "" {
		word += ":" + name
	}
	value, ok := d[word]
	return []byte(value), ok
}

// Rules apply to a described request as they do to a message with the same parts.
func TestDescribedRequest(t *testing.T) {
	set := read(t, `rules:
- {id: a, match: {path: /a/*, methods: [POST]}, key: [path, "header:X-Plan", "cookie:c", "secret:query:q"], limit: {algorithm: fixed, limit: 1, window: 60}}
- {id: b, match: {host: "*.example"}, key: [host, method, "query:none"], limit: {algorithm: fixed, limit: 1, window: 60}}`, rule.Options{})
	message := head(t, "POST /a/../a/%62?q=x+y%21 | Host: WWW.example:80 | X-Plan: free | Cookie: c=1")
	parts := described{"method": "POST", "path": "/a/../a/%62", "query:q": "x+y%21", "host": "WWW.example:80", "header:x-plan": "free", "cookie:c": "1"}
	var x, y rule.Scratch
	want, got := set.Match(message, address(""), &x), set.Match(parts, address(""), &y)
	if len(want) != 2 || len(got) != 2 {
		t.Fatalf("%d and %d of 2 rules apply", len(want), len(got))
	}
	for i := range want {
		if string(got[i].Key) != string(want[i].Key) {
			t.Errorf("%s: key %q, of a message %q", got[i].Rule.ID, got[i].Key, want[i].Key)
		}
	}
}

// Preflights are found in described requests too: names of fields are asked for in lower case.
func TestDescribedPreflight(t *testing.T) {
	parts := described{"method": "OPTIONS", "header:origin": "https://a.example", "header:access-control-request-method": "PUT"}
	if !rule.Preflight(parts) {
		t.Error("a preflight is not found")
	}
	delete(parts, "header:origin")
	if rule.Preflight(parts) {
		t.Error("a request without an origin is taken for a preflight")
	}
}
