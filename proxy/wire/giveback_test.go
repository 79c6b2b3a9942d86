package wire

import (
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/targets/gate"
)

// A request that the gate sheds gives back what it was charged, once per key and window. So a
// key that offers 100 times its limit reaches the closed gate no more often than one that offers
// as much as it is let, and no more requests than the limit reach the target.
func TestShedRequestsGiveBackOnce(t *testing.T) {
	rules := ruleFile(t, `rules:
- {id: fixed, match: {path: /fixed}, key: ["header:X-Key"], limit: {algorithm: fixed, limit: 3, window: 3153600000}}
- {id: sliding, match: {path: /sliding}, key: ["header:X-Key"], limit: {algorithm: sliding, limit: 3, window: 3153600000}}
- {id: token, match: {path: /token}, key: ["header:X-Key"], limit: {algorithm: token, capacity: 3, fillRate: 0.000001}}
- {id: gcra, match: {path: /gcra}, key: ["header:X-Key"], limit: {algorithm: gcra, limit: 3, window: 3000000000, burst: 3}}
`)
	r := holding(t, gatedFor(gate.On, time.Millisecond), "RULES_FILE", rules)
	offer := func(conn *testkit.Conn, path, key string, n int) (statuses map[int]int) {
		statuses = map[int]int{}
		for range n {
			conn.Send("GET " + path + " HTTP/1.1\r\nHost: x\r\nX-Key: " + key + "\r\n\r\n")
			resp, _ := conn.Answer("GET")
			statuses[resp.StatusCode]++
		}
		return statuses
	}
	paths := []string{"/fixed", "/sliding", "/token", "/gcra"}
	conn := r.dial()
	for _, path := range paths {
		for key, offered := range map[string]int{"all": 4, "greedy": 300} {
			if got := offer(conn, path, key, offered); got[503] != 4 || got[429] != offered-4 {
				t.Errorf("%s, %d requests at a closed gate with a limit of 3: %v, want 4 shed", path, offered, got)
			}
		}
		for key, shed := range map[string]int{"one": 1, "two": 2} {
			if got := offer(conn, path, key, shed); got[503] != shed {
				t.Errorf("%s: %v, want %d shed", path, got, shed)
			}
		}
	}
	r.play(`target answers; held -> 200`)
	for _, path := range paths {
		for key, left := range map[string]int{"all": 0, "one": 3, "two": 2, "new": 3} {
			if got := offer(conn, path, key, 5); got[200] != left || got[429] != 5-left {
				t.Errorf("%s, the key %s at an open gate with a limit of 3: %v, want %d answered", path, key, got, left)
			}
		}
	}
}
