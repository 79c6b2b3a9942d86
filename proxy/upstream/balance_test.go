package upstream

import (
	"strings"
	"testing"
)

func TestBalanceWords(t *testing.T) {
	for b, word := range map[Balance]string{P2C: "p2c", RoundRobin: "round_robin", LeastInFlight: "least_inflight"} {
		if got, err := ParseBalance(word); err != nil || got != b || b.String() != word {
			t.Errorf("%s: parsed as %v, %v; written as %s", word, got, err, b)
		}
	}
	for _, word := range []string{"", "P2C", "random", "p2c "} {
		_, err := ParseBalance(word)
		if err == nil {
			t.Errorf("%q was taken", word)
			continue
		}
		for _, allowed := range []string{"p2c", "round_robin", "least_inflight"} {
			if !strings.Contains(err.Error(), allowed) {
				t.Errorf("%q: the error does not name %s: %v", word, allowed, err)
			}
		}
	}
}
