package wire

import (
	"strings"
	"testing"
	"time"
)

// Requests without a part of a rule's key share one counter, and the log says so once;
// or the rule does not apply to them, or refuses them, and nothing is charged.
func TestMissingKeys(t *testing.T) {
	r := startRules(t, `rules:
- {id: shares, match: {path: /shares}, key: ["header:X-A"], limit: {algorithm: fixed, limit: 1, window: C}}
- {id: skips, match: {path: /skips}, key: ["header:X-A"], missing: skip, limit: {algorithm: fixed, limit: 1, window: C}}
- {id: refuses, match: {path: /refuses}, key: ["header:X-A"], missing: refuse, limit: {algorithm: fixed, limit: 1, window: C}}
- {id: tries, match: {path: /tries}, key: ["header:X-A"], missing: refuse, mode: shadow, limit: {algorithm: fixed, limit: 1, window: C}}`, "RATE_LIMIT_LIMIT", "6")
	c := r.dial()
	play(c, `
		GET /shares -> 200 shares 0
		GET /shares -> 429 shares 0
		GET /shares X-A=1 -> 200 shares 0
		GET /skips -> 200 global 3
		GET /skips X-A=1 -> 200 skips 0
		GET /skips X-A=1 -> 429 skips 0
		POST /refuses -> 400 -
		GET /refuses X-A=1 -> 200 refuses 0
		GET /tries -> 200 global 0`)
	if status, fields, body := r.do("POST", "/refuses", "body"); status != 400 || fields.Get("Retry-After") != "" ||
		body != `{"error":"the request lacks header:X-A, which the rule needs","rule":"refuses","missing":"header:X-A"}`+"\n" {
		t.Errorf("answered %d %v %s", status, fields, body)
	}
	r.samplesAre(
		`ratelimiter_requests_total{decision="forwarded"}`, 6, `ratelimiter_requests_total{decision="rejected"}`, 4,
		ruleMetric("shares", "rejected"), 1, ruleMetric("refuses", "forwarded"), 1, ruleMetric("refuses", "rejected"), 2,
		ruleMetric("tries", "shadow_rejected"), 1, ruleMetric("global", "forwarded"), 6,
		`ratelimiter_rule_key_missing_total{rule="shares",missing="share"}`, 2, `ratelimiter_rule_key_missing_total{rule="refuses",missing="refuse"}`, 2)
	const shared = `msg="Requests without a part of the rule's key share one limit; missing: skip or refuse changes that" component=RateLimiter rule=shares`
	const refused = `msg="Requests rejected: a part of the rule's key is missing" component=RateLimiter rule=refuses count=2`
	r.Tally.NewHousekeeper().Keep(time.Now())
	if text := r.log.String(); !strings.Contains(text, shared) || !strings.Contains(text, refused) {
		t.Errorf("logged %s", text)
	}
}
