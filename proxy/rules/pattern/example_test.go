package pattern_test

import (
	"fmt"

	"weir/proxy/rules/pattern"
)

func ExampleAppendKeyPath() {
	fmt.Printf("%s\n", pattern.AppendKeyPath(nil, []byte("/api/./x/%2e%2e//%6cogin/")))
	// Output:
	// /api/login
}
