package gate_test

import (
	"strings"
	"testing"

	"weir/proxy/gate"
)

func TestParseMode(t *testing.T) {
	for m := gate.Off; m <= gate.On; m++ {
		if got, err := gate.ParseMode(m.String()); err != nil || got != m {
			t.Errorf("ParseMode(%q) = %v, %v", m, got, err)
		}
	}
	for _, word := range []string{"", "ON", "yes"} {
		if _, err := gate.ParseMode(word); err == nil || !strings.Contains(err.Error(), "off, shadow, on") {
			t.Errorf("ParseMode(%q): %v, want what is allowed", word, err)
		}
	}
}
