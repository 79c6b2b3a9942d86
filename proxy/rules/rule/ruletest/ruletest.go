// Package ruletest makes sets of rules for tests.
package ruletest

import (
	"testing"

	"weir/internal/test/testkit"
	"weir/proxy/rules/rule"
)

// Set reads rules, each the inside of braces.
func Set(t testing.TB, lines ...string) *rule.Set {
	t.Helper()
	text := "rules:\n"
	for _, line := range lines {
		text += "- {limit: {algorithm: off}, " + line + "}\n"
	}
	return testkit.Must(rule.Read([]byte(text), rule.Options{}))(t)
}

// Hits are the rules with those ids.
func Hits(set *rule.Set, ids ...string) (matched []rule.MatchedRule) {
	for i := range set.Len() {
		for _, id := range ids {
			if set.Rule(i).ID == id {
				matched = append(matched, rule.MatchedRule{Rule: set.Rule(i), Index: i})
			}
		}
	}
	return matched
}
