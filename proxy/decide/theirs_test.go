package decide

import (
	"testing"

	"weir/internal/http1"
	"weir/internal/testkit"
	"weir/proxy/limit"
)

// A target's own limits stand for ours where they leave the client less, and only if the
// client gets to see them: fields that Connection names are not passed on.
func TestTighter(t *testing.T) {
	l := testkit.Must(limit.New(limit.Config{Algorithm: limit.Fixed, Limit: 10, Window: 60}))(t)
	v := Verdict{Limit: &l, State: limit.Decision{Limit: 10, Remaining: 5}}
	for _, test := range []struct {
		name, value string
		named       bool // by Connection
		want        Families
	}{
		{"X-RateLimit-Remaining", "5", false, 0},
		{"x-ratelimit-remaining", "4", false, Legacy},
		{"X-RateLimit-Remaining", "few", false, Legacy},
		{"X-RateLimit-Remaining", "4", true, 0},
		{"RateLimit-Remaining", "5", false, 0},
		{"ratelimit-remaining", "4", false, Envoy},
		{"RateLimit", `"a";r=5;t=1`, false, 0},
		{"ratelimit", `"a";r=5, "b";r=4`, false, Standard},
		{"RateLimit", `"a";r=4`, true, 0},
		{"RateLimit-Policy", `"a";q=1`, false, 0},
	} {
		h := http1.Head{Fields: []http1.Field{{Name: []byte(test.name), Value: []byte(test.value), Hop: test.named}}}
		if got := v.Tighter(&h); got != test.want {
			t.Errorf("%s: %s, named by Connection %v: families %b, want %b", test.name, test.value, test.named, got, test.want)
		}
	}
}
