package wire

import (
	"net/http"
	"testing"
)

// A page of another origin can read a refusal, and what it says of the limit; an answer
// of the target is as the target sent it.
func TestRefusalsAreToldToPages(t *testing.T) {
	const rules = `rules:
- {id: refuses, match: {path: /refuses}, key: ["header:X-A"], missing: refuse, limit: {algorithm: off}}`
	const exposed = "Retry-After, RateLimit, RateLimit-Policy, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Retry-After, X-Weir-Decision"
	for setting, told := range map[string]bool{"auto": true, "off": false} {
		for origin, browser := range map[string]bool{"https://a.example": true, "": false} {
			r := startAt(t, "http://127.0.0.1:1", rules, "RATE_LIMIT_LIMIT", "1", "CORS", setting)
			for _, test := range []struct {
				path    string
				status  int
				refused bool
			}{{"/refuses", 400, true}, {"/", 502, false}, {"/", 429, true}} {
				fields := []string{"Origin", origin}
				if !browser {
					fields = nil
				}
				status, got, _ := r.do("GET", test.path, "", fields...)
				want := make(http.Header)
				if told && browser && test.refused {
					want = http.Header{"Access-Control-Allow-Origin": {origin}, "Vary": {"Origin"}, "Access-Control-Expose-Headers": {exposed}}
				}
				if status != test.status {
					t.Errorf("%s answered %d, want %d", test.path, status, test.status)
				}
				for _, name := range []string{"Access-Control-Allow-Origin", "Vary", "Access-Control-Expose-Headers"} {
					if got.Get(name) != want.Get(name) {
						t.Errorf("CORS=%s, Origin %q, %s: %d has %s %q, want %q", setting, origin, test.path, status, name, got.Get(name), want.Get(name))
					}
				}
			}
		}
	}
}
