package postgres

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/testkit"
	"weir/proxy/deferred"
	"weir/proxy/deferred/deferredtest"
	"weir/proxy/store/postgres/postgrestest"
)

// TestQueue plays what every queue promises.
func TestQueue(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	var places atomic.Int64
	deferredtest.Run(t, func(_ *testing.T, key []byte) deferredtest.Place {
		return &schema{url: s.URL("weir", "weir"), name: fmt.Sprint("place", places.Add(1)), key: key}
	})
}

// A schema has a queue.
type schema struct {
	url, name string
	key       []byte
}

// Open is part of deferredtest.Place.
func (p *schema) Open(t testing.TB, _ func() time.Time, limits deferred.Limits) deferred.Queue {
	t.Helper()
	return testkit.Must(Open(Config{URL: p.url, Setting: "DEFER_URL", Schema: p.name, Key: p.key, Limits: limits, callersClock: true, silence: testkit.Patience, closing: testkit.Patience}))(t)
}

// Crash is part of deferredtest.Place.
func (p *schema) Crash(t testing.TB, q deferred.Queue) {
	t.Helper()
	q.(*Queue).disconnect()
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
}

// Reopens is part of deferredtest.Place.
func (p *schema) Reopens() bool { return false }
