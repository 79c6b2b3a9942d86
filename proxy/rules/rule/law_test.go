package rule_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"weir/proxy/rules/keys"
	"weir/proxy/rules/rule"
)

// A rule applies among others exactly when it applies alone, and never more
// apply than a file may have, unless a path has several interpretations: whatever index
// finds them, and whatever overlaps.
func TestRulesApplyAsTheyDoAlone(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	pick := func(words ...string) string { return words[chance.IntN(len(words))] }
	var requests []*keys.Request
	var names []string
	for _, path := range []string{"/", "/a", "/b", "/a/a", "/a/b", "/b/a", "/a/b/a", "/b/b/a", "/a%2Fb", "/b/..;x/a%2Fb"} {
		for _, fields := range []string{"", " | X: a", " | X: b | Y: a", " | Y: b"} {
			for _, method := range []string{"GET", "PUT"} {
				for _, host := range []string{"a.example", "b.example"} {
					names = append(names, method+" "+path+" | Host: "+host+fields)
					requests = append(requests, head(t, names[len(names)-1]))
				}
			}
		}
	}
	var x rule.Scratch
	accepted := 0
	for range 1_000 {
		var lines []string
		for i := range 4 + chance.IntN(10) {
			var path strings.Builder
			for range 1 + chance.IntN(3) {
				path.WriteString("/" + pick("a", "b", "*", "**"))
			}
			lines = append(lines, fmt.Sprintf("id: r%d, match: {%s}", i, strings.Join([]string{
				pick("path: "+path.String(), "path: "+path.String(), "path: /"),
				pick("methods: [GET, PUT]", "methods: [GET]", "methods: [PUT]"),
				pick("headers: {X: a}", "headers: {X: b}", "headers: {Y: a, X: b}", "headers: {}"),
				pick("host: a.example", `host: "*.example"`, `host: "**"`),
			}, ", ")))
		}
		set, err := rule.Read([]byte(rules(lines...)), rule.Options{})
		if err != nil {
			continue
		}
		accepted++
		want := make([]string, len(requests))
		for _, line := range lines {
			alone := read(t, rules(line), rule.Options{})
			for i, h := range requests {
				for _, match := range alone.Match(h, address(""), &x) {
					want[i] += " " + match.Rule.ID
				}
			}
		}
		for i, h := range requests {
			got, found := "", set.Match(h, address(""), &x)
			for _, match := range found {
				got += " " + match.Rule.ID
			}
			if got != want[i] || len(found) > rule.MatchedRulesMax && !strings.Contains(names[i], "%2F") {
				t.Fatalf("%s meets%s, alone%s, of\n%s", names[i], got, want[i], rules(lines...))
			}
		}
	}
	if accepted < 100 {
		t.Errorf("only %d of 1000 files were accepted", accepted)
	}
}
