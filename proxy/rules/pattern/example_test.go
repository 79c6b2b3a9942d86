package pattern_test

import (
	"fmt"

	"weir/proxy/rules/pattern"
)

func ExampleAppendPath() {
	fmt.Printf("%s\n", pattern.AppendPath(nil, []byte("/api/./x/%2e%2e//%6cogin/")))
	// Output:
	// /api/login
}
