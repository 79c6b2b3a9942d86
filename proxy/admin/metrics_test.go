package admin

import (
	"bytes"
	"strings"
	"testing"

	"weir/internal/metric"
	"weir/proxy/limit"
	"weir/proxy/store/simredis"
)

// samples returns the lines of a scrape without comments.
func samples(set *metric.Set) string {
	var text bytes.Buffer
	set.Write(&text)
	var lines []string
	for line := range strings.Lines(text.String()) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

func TestGauges(t *testing.T) {
	r := start(t, new(simredis.Documents))
	set := metric.New()
	r.RegisterMetrics(set)
	for _, test := range []struct {
		config limit.Config
		want   string
	}{
		{limit.Config{Algorithm: limit.Fixed, Limit: 7, Window: 0.5, Capacity: 9}, `ratelimiter_current_limit 7
rate_limit_current_limit 7
ratelimiter_window_seconds 0.5
ratelimiter_bucket_capacity 0
ratelimiter_token_fill_rate 0
rate_limit_algorithm{algorithm="fixed"} 1
rate_limit_algorithm{algorithm="sliding"} 0
rate_limit_algorithm{algorithm="token"} 0
rate_limit_algorithm{algorithm="sliding_log"} 0
rate_limit_algorithm{algorithm="gcra"} 0
rate_limit_algorithm{algorithm="leaky"} 0
rate_limit_algorithm{algorithm="off"} 0
`},
		{limit.Config{Algorithm: limit.Token, Capacity: 200, FillRate: 12.5}, `ratelimiter_current_limit 12.5
rate_limit_current_limit 12.5
ratelimiter_window_seconds 0
ratelimiter_bucket_capacity 200
ratelimiter_token_fill_rate 12.5
rate_limit_algorithm{algorithm="fixed"} 0
rate_limit_algorithm{algorithm="sliding"} 0
rate_limit_algorithm{algorithm="token"} 1
rate_limit_algorithm{algorithm="sliding_log"} 0
rate_limit_algorithm{algorithm="gcra"} 0
rate_limit_algorithm{algorithm="leaky"} 0
rate_limit_algorithm{algorithm="off"} 0
`},
	} {
		r.must(change(test.config))
		if got := samples(set); got != test.want {
			t.Errorf("%+v:\n%s\nwant:\n%s", test.config, got, test.want)
		}
	}
}
