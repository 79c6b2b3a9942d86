package postgres

import (
	"testing"
	"time"

	"weir/internal/testkit"
	"weir/proxy/deferred"
	"weir/proxy/deferred/deferredtest"
	"weir/proxy/store/postgres/postgrestest"
)

// TestSeveralProxies plays several proxies with one queue.
func TestSeveralProxies(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	var queues []deferred.Queue
	for range 3 {
		queues = append(queues, openQueue(t, Config{URL: s.URL("weir", "weir")}))
	}
	deferredtest.SeveralProxies(t, queues...)
}

// What a proxy has claimed that was killed is delivered by another when its leases have passed.
func TestProxyKilled(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	cfg := Config{URL: s.URL("weir", "weir"), callersClock: true, silence: testkit.Patience}
	killed, other := openQueue(t, cfg), openQueue(t, cfg)
	first, second := deferredtest.Order("shop"), deferredtest.Order("shop")
	first.Scope, first.Fingerprint = deferred.Hash{1}, deferred.Hash{1} // it may be sent again
	deferredtest.PutAccepted(t, killed, first, second)
	now := time.Now().Add(time.Second)
	claims := func(q *Queue, now time.Time) deferred.ID {
		t.Helper()
		claimed, _, err := q.Claim(t.Context(), now, 10)
		if err != nil || len(claimed) > 1 {
			t.Fatalf("%d claimed, %v", len(claimed), err)
		}
		if len(claimed) == 0 {
			return deferred.ID{}
		}
		return claimed[0].Entry.ID
	}
	if got := claims(killed, now); got != first.ID {
		t.Fatalf("claimed %s, want %s", got, first.ID)
	}
	killed.disconnect()
	if got := claims(other, now.Add(deferred.LeaseFor-time.Microsecond)); got != (deferred.ID{}) {
		t.Errorf("%s is claimed before the lease has passed", got)
	}
	if got := claims(other, now.Add(deferred.LeaseFor)); got != first.ID {
		t.Errorf("claimed %s after the lease has passed, want %s", got, first.ID)
	}
}
