package postgres

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"weir/proxy/deferred"
	"weir/proxy/deferred/deferredtest"
	"weir/proxy/deferred/seal"
	"weir/proxy/store/postgres/postgrestest"
)

// TestQueue plays what every queue promises, with and without encryption.
func TestQueue(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	var places atomic.Int64
	for name, key := range map[string][]byte{"plain": nil, "encrypted": bytes.Repeat([]byte{7}, seal.KeyBytes)} {
		t.Run(name, func(t *testing.T) {
			deferredtest.Run(t, func(*testing.T) deferredtest.Place {
				return &schema{url: s.URL("weir", "weir"), name: fmt.Sprint("place", places.Add(1)), key: key}
			})
		})
	}
}

// A schema has a queue.
type schema struct {
	url, name string
	key       []byte
}

// Open is part of deferredtest.Place.
func (p *schema) Open(t testing.TB, _ time.Time, limits deferred.Limits) deferred.Queue {
	t.Helper()
	q, err := Open(Config{URL: p.url, Setting: "DEFER_URL", Schema: p.name, Key: p.key, Limits: limits, told: true, silence: postgrestest.Patience})
	if err != nil {
		t.Fatal(err)
	}
	return q
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
