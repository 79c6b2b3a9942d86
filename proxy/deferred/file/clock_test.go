package file

import (
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/deferred"
	"weir/proxy/deferred/deferredtest"
)

// A clock that is set back costs one line of log, and nothing that was accepted.
func TestClockSetBack(t *testing.T) {
	var log testkit.Log
	cfg := Config{Path: queuePath(t), Limits: deferredtest.LargeLimits, Log: log.Logger()}
	q := opened(t, cfg)
	entries := orders(20)
	deferredtest.PutAccepted(t, q, entries...)
	now := entries[0].Accepted.Add(time.Minute)
	held, _, err := q.Claim(t.Context(), now, 5)
	if err != nil || len(held) != 5 {
		t.Fatalf("claimed %d, %v", len(held), err)
	}
	now = now.Add(-24 * time.Hour)
	for i := range 5 {
		more, _, err := q.Claim(t.Context(), now.Add(time.Duration(i)*time.Second), 1)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, more...)
	}
	done := make(chan error, len(held))
	for _, c := range held {
		q.Settle(now, &deferred.Settlement{Lease: c.Lease, To: deferred.Waiting, Due: now,
			Done: func(err error) { done <- err }})
	}
	for range held {
		if err := testkit.Receive(t, done, "a settlement"); err != nil {
			t.Errorf("settled: %v", err)
		}
	}
	deferredtest.RequireClaims(t, q, now.Add(10*time.Second), len(entries))
	if lines := log.Lines("Clock was set back"); len(lines) != 1 {
		t.Errorf("logged %q", lines)
	}
}
