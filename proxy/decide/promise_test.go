package decide

import (
	"testing"
	"time"

	"weir/proxy/deferred"
	"weir/proxy/limit"
)

// A client that finds the queue full comes back when the first of its line is due.
func TestUnkept(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 19, 16, 30, 0, 0, time.UTC)
	f := func(s deferred.Stored, why string, after time.Duration) {
		t.Helper()
		v := Verdict{State: limit.Decision{RetryAfter: 2 * time.Second}}
		if got := v.Unkept(now, &s); got != why || v.State.RetryAfter != after {
			t.Errorf("%+v: %q, after %v; want %q, %v", s, got, v.State.RetryAfter, why, after)
		}
	}
	f(deferred.Stored{Outcome: deferred.Full, Bound: deferred.BoundLine, Due: now.Add(time.Minute)}, "queue is full", time.Minute)
	f(deferred.Stored{Outcome: deferred.Full, Bound: deferred.BoundLine, Due: now.Add(time.Second)}, "queue is full", time.Second)
	f(deferred.Stored{Outcome: deferred.Full, Bound: deferred.BoundLine, Due: now}, "queue is full", 2*time.Second) // it is being delivered
	f(deferred.Stored{Outcome: deferred.Full, Bound: deferred.BoundEntries}, "queue is full", 2*time.Second)        // there is no line
	f(deferred.Stored{Outcome: deferred.Full, Bound: deferred.BoundRate}, "too many requests are being stored", 2*time.Second)
	f(deferred.Stored{Outcome: deferred.Unstored, Due: now.Add(time.Minute)}, "queue cannot be written", 2*time.Second)
}
