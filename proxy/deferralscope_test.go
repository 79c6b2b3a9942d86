package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"weir/internal/testkit"
)

// Under a rule without a key, an Idempotency-Key is one client's, with its credentials: another
// client that sends the same gets neither its Location nor keeps its request from being stored.
func TestDeferralScope(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	rules := filepath.Join(folder, "rules.yaml")
	testkit.WriteFile(t, rules, "rules:\n- {id: orders, match: {methods: [POST], path: /orders}, "+
		"limit: {algorithm: fixed, limit: 1, window: 3600}, defer: {}}\n")
	p := launch(t, []string{"TARGET_URL", newShop(t).URL, "RULES_FILE", rules, "DEFER_URL", "file:" + filepath.Join(folder, "queue"),
		"TRUSTED_PROXIES", "127.0.0.0/8", "GATE", "off"})
	p.call("POST /orders", "first")
	stored := func(client, credentials string) string {
		t.Helper()
		status, text := p.call(fmt.Sprintf("POST /orders Idempotency-Key=k X-Forwarded-For=%s %s %s", client, credentials, async), "order")
		var made promise
		if err := json.Unmarshal([]byte(text), &made); status != 202 || err != nil {
			t.Fatalf("%s with %q: answered %d %s", client, credentials, status, text)
		}
		return made.ID
	}
	first := stored("192.0.2.1", "Authorization=right")
	for _, other := range [][2]string{
		{"192.0.2.2", "Authorization=right"}, {"192.0.2.1", "Authorization=wrong"}, {"192.0.2.1", ""},
		{"192.0.2.1", "Authorization=right Cookie=a"},
	} {
		if id := stored(other[0], other[1]); id == first {
			t.Errorf("%s with %q gets the Location of another client", other[0], other[1])
		}
	}
	if id := stored("192.0.2.1", "Authorization=right"); id != first {
		t.Error("the same request is stored twice")
	}
}
