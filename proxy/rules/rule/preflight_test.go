package rule_test

import (
	"testing"

	"weir/proxy/rules/rule"
)

// A preflight has a method, an origin and the method that it asks about.
func TestPreflight(t *testing.T) {
	for request, want := range map[string]bool{
		"OPTIONS / | Origin: https://a.example | Access-Control-Request-Method: PUT": true,
		"OPTIONS / | Access-Control-Request-Method: PUT":                             false,
		"OPTIONS / | Origin: https://a.example":                                      false,
		"GET / | Origin: https://a.example | Access-Control-Request-Method: PUT":     false,
	} {
		if got := rule.IsPreflight(head(t, request)); got != want {
			t.Errorf("%s: %v, want %v", request, got, want)
		}
	}
}
