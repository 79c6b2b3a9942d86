package delivery

import (
	"bytes"
	"testing"

	"weir/internal/metric"
	"weir/internal/testkit"
	"weir/proxy/decide"
)

// What alerts look at is there before it happens for the first time.
func TestCountersBeginAtZero(t *testing.T) {
	t.Parallel()
	c := newCalling(t)
	c.starts(0)
	p := policy(t, "rules: [{id: orders, key: [ip], limit: {algorithm: fixed, limit: 1, window: 1}, defer: {}}, {id: reads, key: [ip], limit: {algorithm: fixed, limit: 1, window: 1}}]\n")
	c.d.cfg.Policy = func() *decide.Policy { return p }
	set := metric.New()
	c.d.Register(set)
	var text bytes.Buffer
	set.Write(&text)
	got := testkit.Samples(t, text.String())
	for _, rule := range []string{"orders", CallbackRule} {
		for _, name := range []string{"deferred_total", "deferred_deliveries_total"} {
			for _, outcome := range []string{"full", "unstored", "failed", "expired", "unknown"} {
				n, ok := got["ratelimiter_"+name+metric.Labels("rule", rule, "outcome", outcome)]
				if known := (name == "deferred_total") == (outcome == "full" || outcome == "unstored"); n != 0 || ok != known {
					t.Errorf("%s of %s, %s: %v, %v", name, rule, outcome, n, ok)
				}
			}
		}
		if _, ok := got["ratelimiter_deferred_deliveries_total"+metric.Labels("rule", "reads", "outcome", "failed")]; ok {
			t.Error("there is one of a rule without defer")
		}
	}
}
