package strict

import (
	"fmt"
	"strings"
	"testing"
)

func BenchmarkDecodeLimit(b *testing.B) {
	data := []byte(`{"algorithm":"fixed","limit":100,"window":60}`)
	b.ReportAllocs()
	for b.Loop() {
		var into document
		if err := Decode(data, &into); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeManyClients(b *testing.B) {
	var text strings.Builder
	text.WriteString(`{"clients":{`)
	for i := range 1000 {
		fmt.Fprintf(&text, `"client-%d":{"rps":%d,"duration":1},`, i, i)
	}
	data := []byte(strings.TrimSuffix(text.String(), ",") + "}}")
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		var into document
		if err := Decode(data, &into); err != nil {
			b.Fatal(err)
		}
	}
}
