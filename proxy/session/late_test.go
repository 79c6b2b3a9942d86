package session

import (
	"testing"
	"time"

	"weir/proxy/decide"
	"weir/proxy/exchange"
	"weir/proxy/limit"
	"weir/proxy/rule"
	"weir/proxy/store"
)

// An answer of the store that comes later costs no allocation either, whether the request
// passes, is refused, or waits for its slot.
func TestNoAllocationForLateAnswers(t *testing.T) {
	set, err := rule.Read([]byte(`rules:
- {id: a, key: [ip], limit: {algorithm: fixed, limit: 1, window: 60}}`), rule.Options{})
	if err != nil {
		t.Fatal(err)
	}
	taken := limit.Decision{Allowed: true, Limit: 1}
	for _, x := range []struct {
		name     string
		granted  int
		decision limit.Decision
		want     string
	}{
		{"passes", 1, taken, "HTTP/1.1 200"},
		{"is refused", 0, limit.Decision{Limit: 1, RetryAfter: time.Second}, "HTTP/1.1 429"},
		{"waits", 1, limit.Decision{Allowed: true, Limit: 1, Delay: time.Second, Slot: 7}, "HTTP/1.1 200"},
	} {
		b := newBench(t, 1)
		policy := b.env.Policy().With(set, "1")
		b.env.Policy = func() *decide.Policy { return policy }
		b.env.Ask = func(time.Time, *exchange.Exchange, *store.Ask, *store.Answer) bool { return false }
		ans := store.Answer{Granted: x.granted, Decisions: []limit.Decision{taken, x.decision}, Tightest: 1}
		request, answer := []byte(exchanges[0].request), []byte(exchanges[0].answer)
		if n := testing.AllocsPerRun(200, func() {
			b.s.HandleClient(b.now, request)
			b.s.Effects()
			b.s.HandleAnswer(b.now, &ans)
			fx := b.s.Effects()
			if !fx.Wake.IsZero() {
				b.s.HandleWake(b.now)
				fx = b.s.Effects()
			}
			if fx.Acquire != exchange.AcquireNone {
				b.s.HandleAcquired(b.now, "target:8081", true)
				b.s.Effects()
				b.s.HandleUpstream(b.now, answer)
				fx = b.s.Effects()
			}
			if len(fx.Client) < len(x.want) || string(fx.Client[:len(x.want)]) != x.want || fx.Close != CloseNone {
				t.Fatalf("%s: to the client %q, close %d", x.name, fx.Client, fx.Close)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", x.name, n)
		}
	}
}
