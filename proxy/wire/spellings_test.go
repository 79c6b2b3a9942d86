package wire

import (
	"fmt"
	"strings"
	"testing"
)

// A credential has one limit, however it is spelled from request to request: none of eight
// requests is admitted beyond the three that have used the limit up.
func TestSpellingsShareALimit(t *testing.T) {
	r := startRules(t, `rules:
- {id: query, match: {path: /query}, key: ["query:api_key"], limit: {algorithm: fixed, limit: 3, window: C}}
- {id: cookie, match: {path: /cookie}, key: ["cookie:sid"], limit: {algorithm: fixed, limit: 3, window: C}}
- {id: credentials, match: {path: /credentials}, key: ["header:Authorization"], limit: {algorithm: fixed, limit: 3, window: C}}
- {id: field, match: {path: /field}, key: ["header:X-Api-Key"], limit: {algorithm: fixed, limit: 3, window: C}}`,
		"UNDERSCORED_FIELDS", "keep")
	c := r.dial()
	for plain, spelling := range map[string]string{
		"/query?api_key=REAL1":                       "/query?api_key=x%d&api_key=REAL1",
		"/query?api_key=REAL2":                       "/query?api_key=x%d&api.key=REAL2",
		"/cookie|Cookie: sid=REAL1":                  "/cookie|Cookie: sid=x%d; sid=REAL1",
		"/cookie|Cookie: sid=REAL2":                  "/cookie|Cookie: a=%d; sid=REA%%4C2",
		"/cookie|Cookie: sid=REAL3":                  "/cookie|Cookie: a=%d; sid=\"REAL3\"",
		"/credentials|Authorization: Bearer REAL1":   "/credentials|X-A: %d|authorization: bearer REAL1",
		"/credentials|Authorization: Bearer REAL2":   "/credentials|X-A: %d|Authorization: BEARER   REAL2",
		"/credentials|Authorization: Basic YTpiYw==": "/credentials|X-A: %d|Authorization: basic YTpiYw",
		"/field|X-Api-Key: REAL1":                    "/field|X-Api-Key: x%d|X-Api-Key: REAL1",
		"/field|X-Api-Key: REAL2":                    "/field|X-Api-Key: x%d|X_Api_Key: REAL2",
	} {
		for range 3 {
			c.Ask(spelled(plain), 200)
		}
		for i := range 8 {
			c.Ask(spelled(fmt.Sprintf(spelling, i)), 429)
		}
	}
}

// A field that the target does not get has no value for rules either.
func TestDroppedFieldsAreNoKeys(t *testing.T) {
	startRules(t, `rules: [{id: field, key: ["header:X-Api-Key"], limit: {algorithm: fixed, limit: 1, window: C}}]`).play(`
		GET / -> 200
		GET / X_Api_Key=1 -> 429; GET / X-Api-Key=1 X_Api_Key=y -> 200
		GET / X_Api_Key=2 -> 429; GET / X-Api-Key=2 X_Api_Key=y -> 200`)
}

// spelled returns a request of a target and fields, separated by |.
func spelled(text string) string {
	target, fields, _ := strings.Cut(text, "|")
	request := "GET " + target + " HTTP/1.1|Host: x|" + fields + "|"
	if fields != "" {
		request += "|"
	}
	return strings.ReplaceAll(request, "|", "\r\n")
}
