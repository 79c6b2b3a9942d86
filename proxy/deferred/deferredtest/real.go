package deferredtest

import (
	"crypto/rand"
	"net/netip"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/deferred"
)

// LargeLimits are limits that no test reaches.
var LargeLimits = deferred.Limits{Entries: 1 << 20, Bytes: 8 << 30, Share: 1, DeadKeep: time.Hour}

// NewEntry returns a new entry without an Idempotency-Key, accepted now.
func NewEntry(line string) deferred.Entry {
	now := time.Now().UTC().Truncate(time.Microsecond)
	e := deferred.Entry{
		Rule: "orders", LineKey: line, Parallel: 1, Accepted: now, Due: now, Expires: now.Add(time.Hour),
		Remote: netip.MustParseAddrPort("10.0.0.1:80"), Head: []byte("POST / HTTP/1.1\r\n\r\n"),
		Body: []byte("order of " + line),
	}
	_, _ = rand.Read(e.ID[:]) // never fails
	return e
}

// WithKey returns the entry with a scope that no other entry has.
func WithKey(e deferred.Entry) deferred.Entry {
	e.Scope = deferred.SHA256(append(e.ID[:], e.ID[:]...))
	e.Fingerprint = deferred.SHA256{1}
	return e
}

// PutAll puts entries, and returns a channel that receives the results.
func PutAll(q deferred.Queue, entries ...deferred.Entry) <-chan deferred.PutResult {
	stored := make(chan deferred.PutResult, len(entries))
	for _, e := range entries {
		q.Put(time.Now(), &deferred.PutRequest{Entry: e, Done: func(s deferred.PutResult) { stored <- s }})
	}
	return stored
}

// Put puts an entry and returns the result.
func Put(q deferred.Queue, e deferred.Entry) deferred.PutResult { return <-PutAll(q, e) }

// PutAccepted puts entries, and fails the test unless all are accepted.
func PutAccepted(t testing.TB, q deferred.Queue, entries ...deferred.Entry) {
	t.Helper()
	stored := PutAll(q, entries...)
	for range entries {
		if s := testkit.Receive(t, stored, "the end of a put"); s.Outcome != deferred.Accepted {
			t.Fatalf("put: %s, %s, %v", s.Outcome, s.Bound, s.Err)
		}
	}
}

// RequireClaims claims the entries that are due at now, which must be n.
func RequireClaims(t testing.TB, q deferred.Queue, now time.Time, n int) []deferred.ClaimedEntry {
	t.Helper()
	claimed, _, err := q.Claim(t.Context(), now, n+1)
	if err != nil || len(claimed) != n {
		t.Fatalf("%d are claimed, not %d: %v", len(claimed), n, err)
	}
	return claimed
}

// Settle settles an entry and returns the result.
func Settle(t testing.TB, q deferred.Queue, c deferred.ClaimedEntry, to deferred.State) error {
	t.Helper()
	done := make(chan error, 1)
	q.Settle(time.Now(), &deferred.Settlement{Lease: c.Lease, To: to, Due: time.Now(), Attempt: true, Keep: time.Hour,
		Done: func(err error) { done <- err }})
	return testkit.Receive(t, done, "the end of a settlement")
}
