package wire

import (
	"strings"
	"testing"
	"time"

	"weir/proxy/gate"
	"weir/proxy/gates"
)

// Exempt requests meet neither rules nor the global limit, also with a used up one, are
// counted apart.
func TestExemptRequests(t *testing.T) {
	r := startRules(t, `rules:
- {id: each, key: [ip], limit: {algorithm: fixed, limit: 2, window: C}}
- {id: probes, exempt: true, match: {path: /health}}`, "EXEMPT", "/ready", "RATE_LIMIT_LIMIT", "3")
	play(r.dial(), `
		GET / -> 200 each 1
		GET /health -> 200 -
		GET / -> 200 each 0
		GET / -> 429 each 0
		GET /health -> 200 -
		GET /health/..%2fhealth -> 429 each 0
		POST /ready -> 200 -`)
	r.samplesAre(
		`ratelimiter_requests_total{decision="forwarded"}`, 2, `ratelimiter_requests_total{decision="rejected"}`, 2,
		`ratelimiter_exempt_requests_total{rule="probes"}`, 2, `ratelimiter_exempt_requests_total{rule="EXEMPT"}`, 1,
		ruleMetric("global", "forwarded"), 2)
}

// EXEMPT holds without any rules.
func TestExemptWithoutRules(t *testing.T) {
	r := start(t, newTarget(t, echoes).url(), "EXEMPT", "127.0.0.0/8", "RATE_LIMIT_LIMIT", "1")
	play(r.dial(), `
		GET / -> 200 -
		GET / -> 200 -`)
	r.samplesAre(`ratelimiter_exempt_requests_total{rule="EXEMPT"}`, 2, `ratelimiter_requests_total{decision="forwarded"}`, 0)
}

// The gate is for exempt requests too.
func TestExemptRequestsMeetTheGate(t *testing.T) {
	b := newBarrier()
	tweak := func(c *Config) { c.Gate = gates.Settings{Mode: gate.On, Wait: 5 * time.Millisecond, Min: 1, Max: 1} }
	r := startWith(t, tweak, newTarget(t, b.script).url(), "EVENT_LOOPS", "1", "EXEMPT", "/**")
	held := r.dial()
	held.Send(request("/held"))
	b.next(t)
	if status, _, body := r.do("GET", "/two", ""); status != 503 || !strings.Contains(body, `"reason":"gate"`) {
		t.Errorf("answered %d %s", status, body)
	}
	b.open <- true
	held.Status(200)
	r.samplesAre(`ratelimiter_exempt_requests_total{rule="EXEMPT"}`, 2, `ratelimiter_requests_total{decision="forwarded"}`, 0)
}
