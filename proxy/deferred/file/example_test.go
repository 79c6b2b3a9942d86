package file_test

import (
	"fmt"
	"time"

	"weir/proxy/deferred"
	"weir/proxy/deferred/file"
)

// Of each line one entry is picked at a time, the first accepted first.
func Example() {
	x := file.New()
	at := time.Date(2026, 11, 23, 6, 0, 0, 0, time.UTC)
	for seq, shop := range []string{"a", "a", "b"} {
		e := &deferred.Entry{ID: deferred.ID{byte(seq)}, Rule: "orders", LineKey: shop, Accepted: at, Due: at,
			Expires: at.Add(time.Hour)}
		fmt.Println(shop, "is accepted at position", x.Add(e, 100, uint64(seq)))
	}
	for i := x.Pick(at.UnixMicro(), nil); i != 0; i = x.Pick(at.UnixMicro(), nil) {
		fmt.Println("number", x.At(i).Seq, "is delivered")
	}
	// Output:
	// a is accepted at position 1
	// a is accepted at position 2
	// b is accepted at position 1
	// number 0 is delivered
	// number 2 is delivered
}
