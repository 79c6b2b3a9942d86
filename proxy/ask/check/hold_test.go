package check

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/limit"
	"weir/proxy/rules/decide"
	"weir/proxy/store"
)

// queueing returns the Env of a store with one queue, in which a slot is due every quarter of a
// second. A place that is given back fails the test.
func queueing(t *testing.T, hold time.Duration) *Env {
	env := granting(t)
	l := testkit.Must(limit.New(limit.Config{Algorithm: limit.Leaky, Capacity: 100, FillRate: 4}))(t)
	policy := decide.NewPolicy(l)
	var queue limit.State
	env.HoldMax = hold
	env.Policy = func() *decide.Policy { return policy }
	env.Refused = func(time.Time, *decide.Refusal) []byte { return []byte("id") }
	env.Answered = func(time.Time, *Session) {}
	env.Refund = func(time.Time, *store.Counter, int64, store.Mode) { t.Error("a place is given back") }
	env.Ask = func(now time.Time, ask *store.Ask, ans *store.Answer, _ store.Done) bool {
		c := &ask.Counters[0]
		granted, d := c.Limit.Decide(now.UnixMicro(), &queue, c.Charge(1))
		*ans = store.Answer{Granted: int(granted), Decisions: []limit.Decision{d}}
		return true
	}
	return env
}

// put puts a question over a connection of its own, which it returns with the answer.
func put(now time.Time, env *Env) (s *Session, answer string) {
	env.Reset()
	s = New(now, env, netip.MustParseAddr("192.0.2.9"), false)
	s.HandleData(now, []byte("GET /check/path/a HTTP/1.1\r\nHost: w\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n"))
	return s, string(env.Out)
}

// An answer is held for HoldMax at most. A question whose slot is later is refused at once, and
// Retry-After says when a slot is near enough.
func TestHoldIsBounded(t *testing.T) {
	const interval = 250 * time.Millisecond
	now := time.Unix(1e9, 0)
	for _, test := range []struct {
		hold time.Duration
		held int // questions whose answers are held
	}{{interval - time.Microsecond, 0}, {interval, 1}, {2*interval - time.Microsecond, 1}, {2 * interval, 2}} {
		env := queueing(t, test.hold)
		if _, answer := put(now, env); !strings.HasPrefix(answer, "HTTP/1.1 200 ") {
			t.Fatalf("the first: %q", answer)
		}
		for i := range test.held {
			s, answer := put(now, env)
			due := now.Add(time.Duration(i+1) * interval)
			if answer != "" || !s.Deadline().Equal(due) {
				t.Errorf("%v, held question %d: %q, until %v, want %v", test.hold, i, answer, s.Deadline(), due)
			}
			if s.HandleExpired(due); !strings.HasPrefix(string(env.Out), "HTTP/1.1 200 ") {
				t.Errorf("%v, held question %d is answered %q", test.hold, i, env.Out)
			}
		}
		if _, answer := put(now, env); !strings.HasPrefix(answer, "HTTP/1.1 429 ") ||
			!strings.Contains(answer, "\r\nRetry-After: 1\r\n") {
			t.Errorf("%v, after %d held questions: %q", test.hold, test.held, answer)
		}
	}
}

// An asker that disconnects while its answer is held, or before the store has answered, may have
// admitted the request: its place stays taken.
func TestAbandonedQuestionsStayCharged(t *testing.T) {
	now := time.Unix(1e9, 0)
	env := queueing(t, 250*time.Millisecond)
	put(now, env)
	s, answer := put(now, env)
	if s.HandleClosed(now); answer != "" {
		t.Fatalf("the second: %q", answer)
	}
	if _, answer := put(now, env); !strings.HasPrefix(answer, "HTTP/1.1 429 ") {
		t.Errorf("after a question that was given up: %q", answer)
	}
	var later store.Done
	decides := env.Ask
	env.Ask = func(_ time.Time, _ *store.Ask, _ *store.Answer, done store.Done) bool {
		later = done
		return false
	}
	now = now.Add(time.Hour)
	s, _ = put(now, env)
	s.HandleClosed(now)
	var ans store.Answer
	c := store.Counter{Limit: &env.Policy().Limit, Cost: 1}
	for range 2 { // the second takes a place
		decides(now, &store.Ask{N: 1, Counters: []store.Counter{c}}, &ans, nil)
	}
	if env.Reset(); ans.Delay() == 0 {
		t.Fatalf("%+v", ans)
	}
	if later(now, &ans); len(env.Out) > 0 {
		t.Errorf("a closed connection is sent %q", env.Out)
	}
}
