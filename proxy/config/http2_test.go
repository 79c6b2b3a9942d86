package config

import (
	"errors"
	"slices"
	"testing"

	"weir/internal/program/service"
)

// With 0 for their burst or rate, glitches are only counted, and the start says so.
func TestGlitchesFree(t *testing.T) {
	for _, test := range []struct {
		env   []string
		burst int
		rate  float64
		note  string
	}{
		{nil, 100, 33, ""},
		{[]string{"HTTP2", "all", "HTTP2_GLITCHES_BURST", "1", "HTTP2_GLITCHES_RATE", "0.001"}, 1, 0.001, ""},
		{[]string{"HTTP2", "all", "HTTP2_GLITCHES_BURST", "0"}, -1, 33,
			"HTTP2_GLITCHES_BURST=0, HTTP2_GLITCHES_RATE=33: glitches are counted, and no connection of HTTP/2 is closed for them"},
		{[]string{"HTTP2", "all", "HTTP2_GLITCHES_RATE", "0"}, -1, 0,
			"HTTP2_GLITCHES_BURST=100, HTTP2_GLITCHES_RATE=0: glitches are counted, and no connection of HTTP/2 is closed for them"},
	} {
		c, want := must(t, test.env...), []string(nil)
		if test.note != "" {
			want = []string{test.note}
		}
		h := c.HTTP2().HTTP2
		if !slices.Equal(c.Notes, want) || h.GlitchBurst != test.burst || h.GlitchRate != test.rate {
			t.Errorf("%v: burst %d, rate %v, noted %q, want %d, %v, %q", test.env, h.GlitchBurst, h.GlitchRate, c.Notes,
				test.burst, test.rate, want)
		}
	}
	_, err := parse("HTTP2", "all", "HTTP2_GLITCHES_RATE", "0.0001")
	if e, ok := errors.AsType[*service.SettingError](err); !ok || e.Name != "HTTP2_GLITCHES_RATE" {
		t.Errorf("0.0001 a second: error %v, want one of HTTP2_GLITCHES_RATE", err)
	}
}
