package check

import (
	"fmt"
	"testing"
	"time"

	"weir/proxy/asks"
	"weir/proxy/limit"
	"weir/proxy/store"
)

// A connection keeps little memory after a question of many asks, and that of usual ones.
func TestPartsKept(t *testing.T) {
	l, err := limit.NewFixed(5, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	env := &Env{
		Access: &Access{Open: true}, Mode: func() store.Mode { return store.Exact }, Count: func(API, int) {},
		Ask: func(_ time.Time, _ *store.Ask, ans *store.Answer, _ store.Done) bool {
			*ans = store.Answer{Granted: 1, Traces: make([]store.Trace, 1)}
			return true
		},
	}
	now := time.Unix(1e9, 0)
	for _, test := range []struct {
		asks int
		kept bool
	}{{1, true}, {100, true}, {5000, false}} {
		s := New(now, env, Peer{})
		var groups []*store.Group
		for range test.asks {
			groups = append(groups, &store.Group{N: 1, Counters: []store.Counter{{Rule: "r", Limit: &l, Cost: 1}}})
		}
		body := asks.AppendQuestion(nil, nil, groups)
		for range 2 {
			s.HandleData(now, fmt.Appendf(nil, "POST /v1/decide HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
			if len(env.Out) < 20*test.asks || (cap(s.parts) > 0) != test.kept {
				t.Errorf("%d asks: %d bytes are answered, memory for %d parts is kept", test.asks, len(env.Out), cap(s.parts))
			}
			env.Reset()
		}
	}
}
