package overlap_test

import (
	"fmt"

	"weir/proxy/overlap"
	"weir/proxy/pattern"
)

func ExampleFind() {
	var rules []overlap.Rule
	for _, path := range []string{"/api/**", "/api/a", "/api/b", "/other"} {
		p, _ := pattern.Path(path)
		rules = append(rules, overlap.Rule{Path: p})
	}
	fmt.Println(overlap.Find(rules, 1, overlap.WorkMax).Rules) // two rules may apply to one request
	fmt.Println(overlap.Find(rules, 2, overlap.WorkMax).Rules) // three may not
	// Output:
	// [0 1]
	// []
}
