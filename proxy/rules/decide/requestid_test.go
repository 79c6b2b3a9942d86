package decide

import (
	"strings"
	"testing"
)

func TestValidRequestID(t *testing.T) {
	for id, want := range map[string]bool{
		"": false, "a": true, "7b1f0d2e-6c1a-4f0e-9e43-0a3c5f0f7b11": true,
		"Root=1-67891233-abcdef012345678912345678": true, "a@b:80_x.y": true,
		strings.Repeat("x", RequestIDMax): true, strings.Repeat("x", RequestIDMax+1): false,
		`a"b`: false, "a b": false, "a\\b": false, "a;b": false, "a<b": false, "é": false, "a\tb": false,
	} {
		if got := ValidRequestID([]byte(id)); got != want {
			t.Errorf("%q: %v, want %v", id, got, want)
		}
	}
}
