package postgres

import (
	"cmp"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/deferred"
	"weir/proxy/deferred/deferredtest"
	"weir/proxy/store/postgres/postgrestest"
)

// TestQueue plays what every queue promises.
func TestQueue(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	var places atomic.Int64
	deferredtest.Run(t, func(_ *testing.T, key []byte) deferredtest.Storage {
		return &schema{url: s.URL("weir", "weir"), name: fmt.Sprint("place", places.Add(1)), key: key}
	})
}

// A schema has a queue.
type schema struct {
	url, name string
	key       []byte
}

// Open is part of deferredtest.Storage.
func (p *schema) Open(t testing.TB, _ func() time.Time, limits deferred.Limits) deferred.Queue {
	t.Helper()
	return testkit.Must(Open(Config{URL: p.url, Setting: "DEFER_URL", Schema: p.name, Key: p.key, Limits: limits,
		callersClock: true, silence: testkit.Timeout, closing: testkit.Timeout}))(t)
}

// Crash is part of deferredtest.Storage.
func (p *schema) Crash(t testing.TB, q deferred.Queue) {
	t.Helper()
	q.(*Queue).disconnect()
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
}

// Reopens is part of deferredtest.Storage.
func (p *schema) Reopens() bool { return false }

// openQueue opens a queue until the test ends. Unless cfg says otherwise it waits for answers as long as
// a busy machine may take, so that only a server that is not there is an outage.
func openQueue(t testing.TB, cfg Config) *Queue {
	t.Helper()
	cfg.Setting, cfg.Limits, cfg.silence = "DEFER_URL", deferredtest.LargeLimits, cmp.Or(cfg.silence, testkit.Timeout)
	if cfg.Schema == "" {
		cfg.Schema = "weir"
	}
	q := testkit.Must(Open(cfg))(t)
	t.Cleanup(func() { _ = q.Close() })
	return q
}

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
	cfg := Config{URL: s.URL("weir", "weir"), callersClock: true, silence: testkit.Timeout}
	killed, other := openQueue(t, cfg), openQueue(t, cfg)
	first, second := deferredtest.NewEntry("shop"), deferredtest.NewEntry("shop")
	first.Scope, first.Fingerprint = deferred.SHA256{1}, deferred.SHA256{1} // it may be sent again
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
	if got := claims(other, now.Add(deferred.LeaseDuration-time.Microsecond)); got != (deferred.ID{}) {
		t.Errorf("%s is claimed before the lease has passed", got)
	}
	if got := claims(other, now.Add(deferred.LeaseDuration)); got != first.ID {
		t.Errorf("claimed %s after the lease has passed, want %s", got, first.ID)
	}
}
