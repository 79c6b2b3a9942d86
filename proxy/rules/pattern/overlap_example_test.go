package pattern_test

import (
	"fmt"

	"weir/proxy/rules/pattern"
)

func ExampleFindOverlap() {
	var rules []pattern.Rule
	for _, path := range []string{"/api/**", "/api/a", "/api/b", "/other"} {
		p, _ := pattern.Path(path)
		rules = append(rules, pattern.Rule{Path: p})
	}
	fmt.Println(pattern.FindOverlap(rules, 1, pattern.OverlapStepsMax).Rules) // two rules may apply to one request
	fmt.Println(pattern.FindOverlap(rules, 2, pattern.OverlapStepsMax).Rules) // three may not
	// Output:
	// [0 1]
	// []
}
