package wire

import (
	"strings"
	"testing"
	"time"

	"weir/proxy/targets/gate"
)

// Exempt requests meet neither rules nor the global limit, also with a used up one, are
// counted apart.
func TestExemptRequests(t *testing.T) {
	r := startRules(t, `rules:
- {id: each, key: [ip], limit: {algorithm: fixed, limit: 2, window: C}}
- {id: probes, exempt: true, match: {path: /health}}`, "EXEMPT", "/ready", "RATE_LIMIT_LIMIT", "3")
	r.play(`
		GET / -> 200 each 1
		GET /health -> 200 -
		GET / -> 200 each 0
		GET / -> 429 each 0
		GET /health -> 200 -
		GET /health/..%2fhealth -> 429 each 0
		POST /ready -> 200 -`)
	r.metrics(`forwarded=2 rejected=2 exempt.probes=2 exempt.EXEMPT=1 global.forwarded=2`)
}

// EXEMPT holds without any rules.
func TestExemptWithoutRules(t *testing.T) {
	r := serve(t, echoes, "EXEMPT", "127.0.0.0/8", "RATE_LIMIT_LIMIT", "1")
	r.play(`
		GET / -> 200 -
		GET / -> 200 -`)
	r.metrics(`exempt.EXEMPT=2 forwarded=0`)
}

// The gate is for exempt requests too.
func TestExemptRequestsMeetTheGate(t *testing.T) {
	holding(t, gatedFor(gate.On, 5*time.Millisecond), "EXEMPT", "/**").play(`
		a GET /two -> 503 "\"reason\":\"gate\""
		target answers; held -> 200; metrics exempt.EXEMPT=2 forwarded=0`)
}

// What preflights count against; other OPTIONS are requests like any other.
func TestPreflights(t *testing.T) {
	const rules = `rules:
- {id: a, key: ["header:X-A"], limit: {algorithm: fixed, limit: 1, window: C}}`
	const ask = "OPTIONS / Origin=https://a.example Access-Control-Request-Method=POST"
	for setting, script := range map[string]string{
		"apart": `
			` + ask + ` -> 200 a 0
			` + ask + ` -> 429 a 0
			GET / -> 200 a 0
			GET / -> 429 a 0
			GET / X-A=1 -> 200 global 0
			GET / X-A=2 -> 429 global 0
			` + ask + ` X-A=2 -> 200 global 0
			` + ask + ` X-A=3 -> 429 global 0`,
		"shared": `
			` + ask + ` -> 200 a 0
			GET / -> 429 a 0`,
		"exempt": `
			` + ask + ` -> 200 -
			` + ask + ` -> 200 -
			OPTIONS / Origin=https://a.example -> 200 a 0
			OPTIONS / Access-Control-Request-Method=POST -> 429 a 0
			GET / -> 429 a 0`,
	} {
		r := startRules(t, rules, "RATE_LIMIT_LIMIT", "2", "PREFLIGHT", setting)
		r.play(script)
		if setting == "exempt" {
			r.metrics(`exempt.PREFLIGHT=2`)
		}
	}
}

// Requests without a part of a rule's key share one counter, and the log says so once;
// or the rule does not apply to them, or refuses them, and nothing is charged.
func TestMissingKeys(t *testing.T) {
	r := startRules(t, `rules:
- {id: shares, match: {path: /shares}, key: ["header:X-A"], limit: {algorithm: fixed, limit: 1, window: C}}
- {id: skips, match: {path: /skips}, key: ["header:X-A"], missing: skip, limit: {algorithm: fixed, limit: 1, window: C}}
- {id: refuses, match: {path: /refuses}, key: ["header:X-A"], missing: refuse, limit: {algorithm: fixed, limit: 1, window: C}}
- {id: tries, match: {path: /tries}, key: ["header:X-A"], missing: refuse, mode: shadow, limit: {algorithm: fixed, limit: 1, window: C}}`, "RATE_LIMIT_LIMIT", "6")
	r.play(`
		GET /shares -> 200 shares 0
		GET /shares -> 429 shares 0
		GET /shares X-A=1 -> 200 shares 0
		GET /skips -> 200 global 3
		GET /skips X-A=1 -> 200 skips 0
		GET /skips X-A=1 -> 429 skips 0
		POST /refuses -> 400 -
		POST /refuses body=abc -> 400 - Retry-After= "the request lacks header:X-A, which the rule needs\",\"rule\":\"refuses\",\"missing\":\"header:X-A\"}\n"
		GET /refuses X-A=1 -> 200 refuses 0
		GET /tries -> 200 global 0`)
	r.metrics(`forwarded=6 rejected=4 shares.rejected=1 refuses.forwarded=1 refuses.rejected=2
		tries.shadow_rejected=1 global.forwarded=6
		rule_key_missing_total{rule="shares",missing="share"}=2
		rule_key_missing_total{rule="refuses",missing="refuse"}=2`)
	const shared = `msg="Requests without a part of the rule's key share one limit; missing: skip or refuse changes that" component=RateLimiter rule=shares`
	const refused = `msg="Requests rejected: a part of the rule's key is missing" component=RateLimiter rule=refuses count=2`
	r.Tally.NewRefusalLogger().Tick(time.Now())
	if text := r.log.String(); !strings.Contains(text, shared) || !strings.Contains(text, refused) {
		t.Errorf("logged %s", text)
	}
}
