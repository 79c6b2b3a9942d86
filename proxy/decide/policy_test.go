package decide

import (
	"testing"

	"weir/internal/testkit"
	"weir/proxy/limit"
)

// The window of a token bucket is the time that it takes to fill; whole
// seconds, rounded up, and never 0.
func TestPolicyFields(t *testing.T) {
	for _, test := range []struct {
		config limit.Config
		quota  string
	}{
		{limit.Config{Algorithm: limit.Fixed, Limit: 10, Window: 60}, "q=10;w=60"},
		{limit.Config{Algorithm: limit.Fixed, Limit: 10, Window: 0.25}, "q=10;w=1"},
		{limit.Config{Algorithm: limit.Sliding, Limit: 10, Window: 1.5}, "q=10;w=2"},
		{limit.Config{Algorithm: limit.Token, Capacity: 50, FillRate: 5}, "q=50;w=10"},
		{limit.Config{Algorithm: limit.Token, Capacity: 50, FillRate: 100}, "q=50;w=1"},
	} {
		lim := testkit.Must(limit.New(test.config))(t)
		want := "RateLimit-Policy: \"global\";" + test.quota + "\r\nRateLimit: \"global\";r="
		if got := string(NewPolicy("global", lim).fields); got != want {
			t.Errorf("%+v: %q, want %q", test.config, got, want)
		}
	}
}
