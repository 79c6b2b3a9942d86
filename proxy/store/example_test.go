package store_test

import (
	"fmt"

	"weir/proxy/store"
)

func ExampleAppendKey() {
	fmt.Printf("%s\n", store.AppendKey(nil, "per-partner", []byte("acme")))
	fmt.Printf("%s\n", store.AppendKey(nil, "per-partner4:acm", []byte("e")))
	// Output:
	// 11:per-partner4:acme
	// 16:per-partner4:acm1:e
}
