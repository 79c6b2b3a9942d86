package redis

import (
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/deferred"
	"weir/proxy/deferred/deferredtest"
	"weir/proxy/store/redis"
	"weir/proxy/store/redis/redistest"
)

// TestQueue plays what every queue promises.
func TestQueue(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	deferredtest.Run(t, func(t *testing.T, key []byte) deferredtest.Storage {
		return &place{Config{Redis: redis.Config{Addrs: []string{s.Addr()}, KeyPrefix: t.Name() + ":"}, Key: key}}
	})
}

// A place is a prefix on a server.
type place struct{ cfg Config }

// Open is part of deferredtest.Storage. The queue takes the test's time for the server's.
func (p *place) Open(t testing.TB, clock func() time.Time, limits deferred.Limits) deferred.Queue {
	t.Helper()
	cfg := p.cfg
	cfg.Limits, cfg.patience, cfg.clock = limits, time.Minute, clock
	return testkit.Must(Open(cfg))(t)
}

// Crash is part of deferredtest.Storage.
func (p *place) Crash(t testing.TB, q deferred.Queue) {
	t.Helper()
	q.(*Queue).cancel()
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
}

// Reopens is part of deferredtest.Storage.
func (p *place) Reopens() bool { return false }
