package wire

import "testing"

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
		play(r.dial(), script)
		if setting == "exempt" {
			r.samplesAre(`ratelimiter_exempt_requests_total{rule="PREFLIGHT"}`, 2)
		}
	}
}
