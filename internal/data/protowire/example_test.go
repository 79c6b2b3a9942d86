package protowire_test

import (
	"fmt"

	"weir/internal/data/protowire"
)

func Example() {
	b := protowire.AppendText(nil, 1, "weir")
	b = protowire.AppendMessage(b, 2, 300, func(dst []byte, n uint64) []byte { return protowire.AppendNumber(dst, 1, n) })
	m := protowire.Read(b)
	for m.Next() {
		fmt.Println(m.Tag>>3, m.Bytes)
	}
	fmt.Println(m.Err())
	for m = protowire.Read(b[:3]); m.Next(); {
	}
	fmt.Println(m.Err())
	// Output:
	// 1 [119 101 105 114]
	// 2 [8 172 2]
	// <nil>
	// must be a protobuf message; a value that ends before its length at byte 2 is malformed
}
