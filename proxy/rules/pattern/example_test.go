package pattern_test

import (
	"fmt"

	"weir/proxy/rules/pattern"
)

func ExampleAppendPathPart() {
	fmt.Printf("%s\n", pattern.AppendPathPart(nil, []byte("/api/./x/%2e%2e//%6cogin/")))
	// Output:
	// /api/login
}
